// A closer look at one stream table: its plan as a graph, its changes as they come, two moments.
import { $, ask, draw, make, reveal, visible } from "./making.js";

const MOST = 200;  // changes that stay on the page
const tail = { name: "", follows: false, last: "", asking: false, again: false };

export function open(name) {
  Object.assign(tail, { name, follows: false, last: "", again: false });
  $("follow").setAttribute("aria-pressed", "false");
  $("follows").textContent = "";
  $("changes").replaceChildren();
  $("difference").replaceChildren();
  reveal("closer", name);
}

// Changes come by themselves: a notice of a refresh tells that there are some.
export function noticed(name) { if (tail.follows && name === tail.name) more(); }
$("follow").addEventListener("click", () => {
  tail.follows = !tail.follows;
  $("follow").setAttribute("aria-pressed", tail.follows);
  if (tail.follows) more();
  else $("follows").textContent = "";
});
async function more() {
  if (tail.asking) { tail.again = true; return; }
  tail.asking = true;
  const { name } = tail;
  try {
    const found = await ask("/api/changes", { name, after: tail.last });
    if (name === tail.name && tail.follows) {
      tail.last = String(found.last);
      $("follows").textContent = found.rows ? `the changes of rows, from the outbox. ${found.why}` : `what each refresh did. ${found.why}`;
      $("changes").append(...found.changes.map(change));
      while ($("changes").children.length > MOST) $("changes").firstChild.remove();
    }
  } catch (error) { $("follows").textContent = error.message; }
  tail.asking = false;
  if (tail.again) { tail.again = false; more(); }
}
function change(one) {
  if (one.at !== undefined) return make("li", {}, `${one.number}  ${one.op}  +${one.inserted} -${one.deleted}  ${one.at}`);
  const line = make("li", { "data-op": one.op }, `${one.number}  ${one.op}  `);
  if (one.before) line.append(make("del", {}, JSON.stringify(one.before)), " ");
  if (one.after) line.append(make("ins", {}, JSON.stringify(one.after)));
  return line;
}

export function know(points) {
  const moments = points.map((one) => make("option", { value: one.at }));
  if (moments.length !== $("known").children.length) $("known").replaceChildren(...moments);
}
$("moments").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { before, after } = Object.fromEntries(new FormData($("moments")));
  $("difference").replaceChildren("comparing");
  try {
    const found = await ask("/api/difference", { name: tail.name, before, after });
    const head = make("tr", {}, ...["", ...found.columns].map((one) => make("th", { scope: "col" }, one)));
    const rows = found.rows.map(([kind, count, row]) => make("tr", { class: kind },
      make("td", {}, `${kind === "added" ? "+" : "-"}${count}`), ...row.map((one) => make("td", one === null ? { class: "dim" } : {}, one ?? "NULL"))));
    $("difference").replaceChildren(
      make("p", {}, `From ${found.before} to ${found.after}: ${found.added} rows added, ${found.removed} removed${found.rows.length < MOST ? "" : `; the first ${MOST} are shown`}.`),
      make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Rows that differ" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))));
  } catch (error) { $("difference").replaceChildren(make("pre", {}, error.message)); }
});

// The plan: sources at the left, stages in the middle, the stream table at the right.
export function plan(found, name) {
  const stages = found.plan?.stages ?? [], missing = found.plan?.missing_indexes ?? [];
  const missing_indexes = missing.length ? `missing indexes:\n  ${missing.join("\n  ")}` : "missing indexes: none";
  const whole = found.refusal || [...stages.map(stage_text), missing_indexes].join("\n");
  $("plan").textContent = whole;
  reveal("plan", true);
  reveal("flow", stages.length);
  if (stages.length) flow(stages, found.figures ?? {}, name, (key) => { $("plan").textContent = about(stages, key) || whole; });
}
function read_text(read) {
  return `read ${read.source}: ${read.kind}, bounded by ${read.bounded_by || "nothing"}${read.why_unbounded ? `: ${read.why_unbounded}` : ""}`;
}
function stage_text(stage) {
  const states = stage.state.map((one) => `  state ${one.name}: ${one.holds}\n`);
  return `stage ${stage.name} on ${stage.engine}\n  ${stage.delta}\n${states.join("")}${stage.reads.map((read) => `  ${read_text(read)}\n`).join("")}`;
}
// What a node of the plan stands for: a stage, or all reads of a source; nothing for the stream table.
function about(stages, key) {
  const stage = stages.find((one) => `stage ${one.name}` === key);
  if (stage) return stage_text(stage);
  return stages.flatMap((one) => one.reads.filter((read) => read.source === key).map((read) => `stage ${one.name}: ${read_text(read)}`)).join("\n");
}
function figures(rows, bytes, ms) {
  const parts = [];
  if (rows !== undefined && rows !== null && rows >= 0) parts.push(`${rows.toLocaleString()} rows`);
  if (bytes > 0) parts.push(bytes < 1024 ? `${bytes} B` : `${(bytes / 1024).toFixed(1)} kB`);
  if (ms !== undefined && ms !== null) parts.push(`${Number(ms).toFixed(1)} ms`);
  return parts.join(", ");
}
function flow(stages, known, name, chosen) {
  const own = new Map(stages.map((stage) => [stage.name, stage]));
  const sources = [...new Set(stages.flatMap((stage) => stage.reads.map((read) => read.source)))].filter((one) => !own.has(one));
  const wide = 230, gap = 190, high = 46, at = new Map(), nodes = [], edges = [];
  const node = (key, text, under, column, row) => { at.set(key, [column * (wide + gap) + 10, row * (high + 34) + 24]); nodes.push([key, text, under]); };
  sources.forEach((one, row) => node(one, one, "source", 0, row));
  stages.forEach((stage, row) => node(`stage ${stage.name}`, `stage ${stage.name}`, stage.engine, 1, row));
  node("", name, "stream table", 2, Math.floor(Math.max(sources.length, stages.length) / 2));
  stages.forEach((stage, place) => {
    const told = known.stages?.[stage.name];
    const reads = new Map();
    for (const read of stage.reads) reads.set(read.source, read);
    for (const source of reads.keys()) {
      const [rows, bytes] = told?.reads?.[source] ?? known.reads?.[source] ?? [];
      edges.push([own.has(source) ? `stage ${source}` : source, `stage ${stage.name}`, figures(rows, bytes, told ? told.read_ms : reads.size === 1 ? known.read_ms : null)]);
    }
    if (place === stages.length - 1) edges.push([`stage ${stage.name}`, "", told ? figures(told.rows, told.bytes, told.ms) : figures(known.rows, 0, known.ms)]);
  });
  const group = draw("g");
  for (const [from, to, text] of edges) {
    const [a, b] = [at.get(from), at.get(to)];
    if (!a || !b) continue;
    const x1 = a[0] + (from === to ? 0 : wide), y1 = a[1] + high / 2, x2 = b[0], y2 = b[1] + high / 2, half = (x1 + x2) / 2;
    group.append(draw("path", { class: "edge", d: `M${x1},${y1} C${half},${y1} ${half},${y2} ${x2},${y2}` }));
    group.append(draw("text", { class: "figures", x: half, y: (y1 + y2) / 2 - 6, "text-anchor": "middle" }, text));
  }
  for (const [key, text, under] of nodes) {
    const [x, y] = at.get(key);
    const one = draw("g", { class: under === "source" ? "node source" : "node", transform: `translate(${x},${y})`, tabindex: 0, role: "button", "aria-label": `${visible(text)}, ${under}: what it does` });
    one.addEventListener("click", () => chosen(key));
    one.addEventListener("keydown", (event) => { if (event.key === "Enter") chosen(key); });
    one.append(draw("rect", { width: wide, height: high }), draw("text", { x: 8, y: 19 }, text), draw("text", { x: 8, y: 36, class: "small" }, under));
    group.append(one);
  }
  const height = (Math.max(sources.length, stages.length) + 1) * (high + 34);
  $("flow").setAttribute("viewBox", `0 0 ${3 * wide + 2 * gap + 20} ${height}`);
  $("flow").setAttribute("aria-label", `The plan: ${edges.map(([from, to, text]) => `${from} to ${to || name}${text ? `, ${text}` : ""}`).join("; ")}`);
  $("flow").replaceChildren(group, draw("text", { class: "axis", x: 10, y: 14 }, known.of ? `figures of ${known.of}` : "no refresh has figures yet"));
}
