// The page of the console: it draws what the server tells, and asks before it does anything.
import * as closer from "./closer.js";
import { chart } from "./charting.js";
import { $, arrange, ask as look_up, draw, make, reveal, say, visible } from "./making.js";

const state = { panel: "overview", name: "", words: "", chosen: "", session: null, events: null, sort: null };

async function send(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-pgtrickle-csrf": state.session.csrf },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (answer.status === 401) over();
  if (!answer.ok && !text.startsWith("{")) throw new Error(text.trim());
  const document = JSON.parse(text);
  if (document.error) throw new Error(`error ${document.error.code}: ${document.error.message}\n${document.error.hint}`);
  return document;
}

// Follow a panel: the server sends it whenever it changes.
function follow() {
  state.events?.close();
  const asked = new URLSearchParams({ panel: state.panel, name: state.panel === "table" ? state.name : "", words: state.words });
  const events = (state.events = new EventSource(`/events?${asked}`));
  const on = (kind, act) => events.addEventListener(kind, (event) => act(JSON.parse(event.data)));
  on("panel", (document) => { well(document.moment); show(document); });
  on("patch", (found) => { well(found.moment); change(found); });
  on("beat", well);
  on("away", (error) => trouble(`error ${error.code}: ${error.message}`));
  on("notice", noticed);
  on("over", over);
  events.onerror = async () => {
    trouble("the console does not answer; trying again");
    if (events.readyState !== EventSource.CLOSED || events !== state.events) return;
    const answer = await fetch("/api/session").catch(() => null);  // refused for good, or not yet?
    if (answer?.status === 401) over();
    else setTimeout(() => { if (events === state.events) follow(); }, 2000);
  };
}
function over() {
  state.events?.close();
  trouble("your visit has ended: ");
  $("trouble").append(make("a", { href: "/" }, "sign in again"));
}
function trouble(text) {
  $("trouble").textContent = text;
  reveal("trouble", text);
}
function well(moment) {
  trouble("");
  $("where").textContent = `${moment.database}${moment.standby ? " (standby)" : ""}`;
  $("state").textContent =
    `PostgreSQL ${moment.server}, ${moment.served ? "● daemon" : "✖ no daemon"}, ` +
    `${moment.queued} queued, ${moment.running} run, as ${moment.role}`;
  document.body.dataset.clock = moment.clock;
  clock.epoch = moment.epoch;
  clock.at = performance.now();
}

// Ages count here: the server sends since when.
const clock = { epoch: 0, at: 0 };
function now() { return clock.epoch + (performance.now() - clock.at) / 1000; }
function age(since) {
  const seconds = Math.max(now() - since, 0);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (seconds >= 2 * size) return `${(seconds / size).toFixed(0)}${unit}`;
  }
  return `${seconds.toFixed(0)}s`;
}
function write(one, text, since) {
  const shown = since === undefined || since === null ? text : age(since) + text;
  if (one.textContent !== shown) one.textContent = shown;
}
setInterval(() => {
  if (document.hidden) return;
  for (const one of document.querySelectorAll("[data-since]")) write(one, one.dataset.rest, Number(one.dataset.since));
}, 1000);
function count(one, text, since) {
  if (since === undefined || since === null) delete one.dataset.since;
  else Object.assign(one.dataset, { since, rest: text });
  write(one, text, since);
}

function open(panel, name = "") {
  Object.assign(state, { panel, words: "", chosen: "", sort: null, shown: null, rows: [] });
  if (name) state.name = name;
  $("words").value = "";
  for (const one of ["plan", "flow", "graph", "chart", "measures"]) reveal(one, false);
  reveal("query", panel === "overview");
  closer.open(panel === "table" ? state.name : "");
  $("sheet").tBodies[0].replaceChildren();
  for (const one of $("panels").children) {
    if (one.dataset.panel === panel) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  $("title").textContent = panel === "table" ? visible(state.name) || "no stream table is chosen" : panel;
  window.location.hash = panel === "table" && state.name ? `table/${encodeURIComponent(state.name)}` : panel;
  buttons();
  follow();
}

// Only what has changed is drawn anew.
function change({ lines: changed, nodes }) {
  const known = state.shown;
  if (!known || known.panel !== state.panel) return;
  for (const [place, line] of Object.entries(changed)) known.sheet.lines[place] = line;
  if (state.sort) lines(known.sheet);
  else for (const [place, line] of Object.entries(changed)) {
    const old = state.rows[place], fresh = row(line, known.sheet), focused = old === document.activeElement;
    old.replaceWith(fresh);
    state.rows[place] = fresh;
    if (focused) fresh.focus();
  }
  for (const [place, node] of Object.entries(nodes)) { known.graph.nodes[place] = node; paint(node); }
}

function show(document) {
  if (document.panel !== state.panel) return;
  state.shown = document;
  const { sheet } = document;
  const head = make("tr");
  sheet.columns.forEach((column, number) => {
    const title = make("th", { scope: "col", ...(column.right ? { class: "right" } : {}) }, column.title);
    if (column.title) title.addEventListener("click", () => { state.sort = { number, down: state.sort?.number === number && !state.sort.down }; lines(sheet); });
    head.append(title);
  });
  const titled = sheet.columns.some((column) => column.title);
  $("sheet").tHead.replaceChildren(...(titled ? [head] : []));
  lines(sheet);
  if (document.graph) graph(document.graph);
  if (document.chart) times(document.chart);
}

function lines(sheet) {
  let shown = sheet.lines;
  if (state.sort && !shown.some((line) => line.spans)) {
    const { number, down } = state.sort;
    const rank = (line) => line.cells[number][2] ?? line.cells[number][0];
    shown = [...shown].sort((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0) * (down ? -1 : 1));
  }
  const rows = shown.map((line) => row(line, sheet));
  state.rows = [...rows];
  if (!rows.length) rows.push(make("tr", {}, make("td", { class: "dim" }, sheet.empty)));
  if (sheet.more) rows.push(make("tr", {}, make("td", { colspan: sheet.columns.length || 1, class: "dim" }, `and ${sheet.more} more: use the filter`)));
  const focused = document.activeElement?.dataset?.key;
  $("sheet").tBodies[0].replaceChildren(...rows);
  if (focused) rows.find((one) => one.dataset.key === focused)?.focus();
}

function row(line, sheet) {
  const one = make("tr");
  line.cells.forEach(([text, tone, , since], number) => {
    const kinds = [tone === "plain" ? "" : tone, /^[ ▁-█]+$/.test(text) ? "bars" : "", !line.spans && sheet.columns[number]?.right ? "right" : ""].join(" ").trim().replace(/ +/g, " ");
    const cell = make("td", { ...(kinds ? { class: kinds } : {}), ...(line.spans ? { colspan: sheet.columns.length || 1 } : {}) });
    count(cell, text, since);
    one.append(cell);
  });
  if (line.key) {
    one.className = line.key === state.chosen ? "open chosen" : "open";
    one.tabIndex = 0;
    one.dataset.key = line.key;
    one.addEventListener("click", () => choose(line.key, one));
    one.addEventListener("dblclick", () => enter(line.key));
    one.addEventListener("keydown", (event) => { if (event.key === "Enter") enter(line.key); if (event.key === " ") { event.preventDefault(); choose(line.key, one); } });
  }
  return one;
}
function choose(key, row) {
  state.chosen = key;
  if (!["requests", "settings", "capture", "table"].includes(state.panel)) state.name = key;
  for (const one of $("sheet").querySelectorAll(".chosen")) one.classList.remove("chosen");
  row?.classList.add("chosen");
  buttons();
}
function enter(key) {
  if (!["requests", "settings", "capture", "table"].includes(state.panel)) open("table", key);
}

// The actions on what is chosen.
function buttons() {
  const target = { requests: "request", capture: "source", settings: "" }[state.panel] ?? "stream table";
  const about = state.panel === "table" ? state.name : state.chosen;
  const found = (state.session?.actions ?? []).filter((one) => one[2] === target && about);
  const made = found.map(([name, , of, told, question]) => {
    const one = make("button", { type: "button", title: told, "data-action": name }, name);
    one.addEventListener("click", () => ask(question.replace("{}", about), () => act(name, of, about)));
    return one;
  });
  if (state.panel === "table" && state.name) {
    const one = make("button", { type: "button" }, "plan");
    one.addEventListener("click", plan);
    made.push(one);
  }
  $("buttons").replaceChildren(...made);
}
function ask(question, yes) {
  $("asked").textContent = question;
  $("question").addEventListener("close", () => { if ($("question").returnValue === "yes") yes(); }, { once: true });
  $("question").returnValue = "no";
  $("question").showModal();
}
async function act(action, target, name) {
  say(`${action} ${name}: begun`);
  try { say((await send("/api/act", { action, target, name })).text); }
  catch (error) { say(error.message); }
}
async function plan() {
  say("asking for the plan");
  const found = await look_up("/api/explain", { name: state.name }).catch((error) => ({ refusal: error.message }));
  closer.plan(found, state.name);
  say("");
}

// The graph: drag to pan, the wheel or + and - to zoom, Tab and Enter to open.
const view = { x: 0, y: 0, scale: 1, shape: "", nodes: [], drawn: new Map() };
function graph({ nodes, edges, more }) {
  reveal("graph", nodes.length);
  view.nodes = nodes;
  const shape = JSON.stringify([nodes.map((one) => one.name), edges]);
  if (shape === view.shape) { nodes.forEach(paint); return; }
  view.shape = shape;
  view.drawn = new Map();
  const width = Math.max(...nodes.map((one) => visible(one.name).length), 8) * 7 + 20, height = 40;
  arrange(nodes.map((one) => ({ key: one.name, width, height })), edges, 60).then((placed) => {
    if (view.shape !== shape) return;
    place(placed, width, height, more ? `${nodes.length} of ${nodes.length + more} are drawn: the filter finds the others below` : "");
    view.nodes.forEach(paint);
  }, (error) => { view.shape = ""; trouble(error.message); });
}
function place(placed, width, height, told) {
  const group = draw("g", { id: "all" });
  for (const { path } of placed.lines) group.append(draw("path", { class: "edge", d: path }));
  for (const one of view.nodes) {
    const table = one.kind === "stream table";
    const node = draw("g", { "data-name": one.name, tabindex: 0, role: "link", transform: `translate(${placed.at.get(one.name)})` });
    node.append(draw("rect", { width, height }), draw("text", { x: 8, y: 16 }, one.name), draw("text", { x: 8, y: 32, class: "sign" }), draw("text", { ...(table ? { x: width - 8, "text-anchor": "end" } : { x: 8 }), y: 32, class: "small" }));
    node.addEventListener("click", () => table && open("table", one.name));
    node.addEventListener("keydown", (event) => { if (event.key === "Enter" && table) open("table", one.name); });
    view.drawn.set(one.name, node);
    group.append(node);
  }
  $("graph").replaceChildren(group, draw("text", { class: "axis", x: 10, y: 0 }, told));
  Object.assign(view, { x: 0, y: told ? -14 : 0, scale: 1, width: placed.width, height: placed.height });
  look();
}
function paint(one) {
  const node = view.drawn.get(one.name);
  if (!node) return;  // it is not placed yet
  const pulse = node.classList.contains("pulse") ? " pulse" : "";
  node.setAttribute("class", `node ${one.kind === "stream table" ? one.tone : "source"}${pulse}`);
  node.setAttribute("aria-label", `${visible(one.name)}, ${one.kind}${one.state ? `, ${one.state}` : ""}`);
  count(node.querySelector(".small"), one.state ? one.age : one.kind, one.since);
  node.querySelector(".sign").textContent = one.state;
}
function look() {
  // As wide as the graph, or as high, down to half the size: what is beyond is reached by dragging.
  const ratio = $("graph").clientHeight / $("graph").clientWidth || 0.4;
  const whole = Math.max(view.width, 400), width = Math.max(whole, Math.min(view.height / ratio, 2 * whole)) / view.scale, height = width * ratio;
  $("graph").setAttribute("viewBox", `${view.x} ${view.y} ${width} ${height}`);
}
function zoom(factor) { view.scale = Math.min(Math.max(view.scale * factor, 0.2), 12); look(); }
$("graph").addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15); }, { passive: false });
$("graph").addEventListener("pointermove", (event) => {
  if (!(event.buttons & 1)) return;
  const box = $("graph").viewBox.baseVal, ratio = box.width / $("graph").clientWidth;
  view.x -= event.movementX * ratio; view.y -= event.movementY * ratio;
  look();
});
$("graph").addEventListener("keydown", (event) => { if (event.key === "+") zoom(1.25); if (event.key === "-") zoom(0.8); });

function noticed({ name, payload }) {
  if (payload.event) say(`alert ${payload.event}: ${name ?? ""}`);
  closer.noticed(name);
  const node = name && $("graph").querySelector(`[data-name="${CSS.escape(name)}"]`);
  if (!node) return;
  node.classList.remove("pulse");
  void node.getBoundingClientRect();  // so that the animation begins anew
  node.classList.add("pulse");
  node.dataset.pulses = Number(node.dataset.pulses ?? 0) + 1;
  setTimeout(() => node.classList.remove("pulse"), 1200);
}

// What a chart shows: the bars, the line, and what is written above.
const MEASURES = {
  latency: ["took", "predicted", "ms", "the line is the prediction"],
  cost: ["cost", "predicted", "ms", "what the engine took; the line is the prediction"],
  rows: ["rows", null, "rows", "changed by each refresh"],
  lag: ["age", null, "ms", "the age of the contents that each refresh replaced"],
};
let measure = "latency", points = [];
for (const name of Object.keys(MEASURES)) {
  const one = make("button", { type: "button", "aria-pressed": name === measure, "data-measure": name }, name);
  one.addEventListener("click", () => {
    measure = name;
    for (const other of $("measures").children) other.setAttribute("aria-pressed", other === one);
    times(points);
  });
  $("measures").append(one, " ");
}
function times(found) {
  points = found;
  const [value, guess, unit, about] = MEASURES[measure];
  reveal("measures", points.length);
  const shown = points.filter((one) => one[value] !== null);
  const drawn = { name: measure, unit, about, values: shown.map((one) => one[value]), guesses: guess && shown.map((one) => one[guess]) };
  chart(shown, drawn).catch((error) => trouble(error.message));
  closer.know(points);
}

async function validate() {
  const query = $("sql").value, verdict = $("verdict");
  verdict.replaceChildren("asking");
  reveal("creation", false);
  try {
    const found = await send("/api/validate", { query });
    const mode = found.refresh_mode ? `It would be maintained: ${found.refresh_mode}.` : "It cannot be a stream table.";
    const parts = [make("p", { class: found.refresh_mode ? "good" : "bad" }, mode)];
    for (const reason of found.reasons) {
      parts.push(make("p", { class: "warning" }, `${reason.code}: ${reason.message}`), make("p", {}, reason.hint));
      parts.push(...marked(reason.detail));
    }
    if (found.sources.length) parts.push(make("p", {}, `It reads ${found.sources.map(([name, columns]) => `${name} (${columns.join(", ")})`).join("; ")}.`));
    if (found.estimate) parts.push(make("p", { class: "estimate" }, `PostgreSQL estimates ${found.estimate.rows.toLocaleString()} rows, at a cost of ${found.estimate.cost.toLocaleString()} to compute it in full.`));
    if (found.columns.length) parts.push(make("p", {}, `Its columns: ${found.columns.map((one) => one.join(" ")).join(", ")}.`));
    verdict.replaceChildren(...parts);
    reveal("creation", found.usable && !state.session.read_only);
  } catch (error) { verdict.replaceChildren(make("p", { class: "bad" }, error.message)); }
}
// The server shows the line with marks below the place: underline what they mark.
function marked(detail) {
  const found = /^(line \d+: )(.*)\n( *)(\^+)/.exec(detail);
  if (!found) return detail ? [make("pre", {}, detail)] : [];
  const [, where, text, blanks, marks] = found;
  const from = blanks.length - where.length, to = from + marks.length;
  return [make("pre", {}, where, text.slice(0, from), make("span", { class: "wrong" }, text.slice(from, to)), text.slice(to))];
}
$("validate").addEventListener("click", validate);
$("sql").addEventListener("input", () => reveal("creation", false));  // only what was validated
$("creation").addEventListener("submit", (event) => {
  event.preventDefault();
  const { name, schedule } = Object.fromEntries(new FormData($("creation")));
  ask(`Create ${name} of this query, and load it?`, async () => {
    say(`create ${name}: begun`);
    try { say((await send("/api/create", { name, schedule, query: $("sql").value })).text); }
    catch (error) { say(error.message); }
  });
});

let typing;
$("words").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => { state.words = $("words").value; follow(); }, 200);
});
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey || $("question").open) return;
  const found = state.session?.panels.find((one) => one[1] === event.key);
  if (found) open(found[0]);
  if (event.key === "/") { event.preventDefault(); $("words").focus(); }
  if (event.key === "Escape") open("overview");
});

// Whoever moves nothing for a long time is signed out: say that somebody is there.
let told = Date.now();
for (const kind of ["keydown", "pointerdown"]) {
  document.addEventListener(kind, () => {
    if (!state.session?.role || Date.now() - told < 30000) return;
    told = Date.now();
    send("/api/here", {}).catch(() => {});
  });
}

async function begin() {
  const answer = await fetch("/api/session");
  if (!answer.ok) { trouble(await answer.text()); return; }
  state.session = await answer.json();
  if (state.session.leaves) {
    const one = make("button", { type: "button", id: "leave" }, `sign out ${state.session.role}`);
    one.addEventListener("click", async () => {
      await fetch("/logout", { method: "POST", headers: { "x-pgtrickle-csrf": state.session.csrf } });
      window.location.assign("/");
    });
    document.querySelector("header").append(one);
  }
  for (const [name, key, about] of state.session.panels) {
    const one = make("button", { type: "button", "data-panel": name, title: `${about} (${key})` }, name);
    one.addEventListener("click", () => open(name));
    $("panels").append(one);
  }
  const [panel, name] = window.location.hash.slice(1).split("/");
  open(state.session.panels.some((one) => one[0] === panel) ? panel : "overview", name ? decodeURIComponent(name) : "");
}
begin();
