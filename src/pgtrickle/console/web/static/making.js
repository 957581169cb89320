// How elements are made: names and texts become text nodes, never markup.
const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);
// Nothing in a name turns the direction of a text or hides in it: it is written as its number.
export function visible(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (one) =>
    one === "\n" || one === "\t" ? one : `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);
}
export function make(tag, attributes = {}, ...children) {
  const one = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  one.append(...children);
  return one;
}
export function draw(tag, attributes = {}, text = "") {
  const one = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  one.textContent = visible(text);
  return one;
}
export function reveal(id, shown) { $(id).toggleAttribute("hidden", !shown); }  // of SVG, too
export function say(text) { $("said").textContent = visible(text); }

export async function ask(path, parameters) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  const text = await answer.text();
  if (!text.startsWith("{")) throw new Error(text.trim());
  const document = JSON.parse(text);
  if (document.error) throw new Error(`error ${document.error.code}: ${document.error.message}\n${document.error.hint}`);
  return document;
}

// Where the nodes and lines of a graph stand, asked of a worker.
let worker, asked = 0;
const waiting = new Map();
export function arrange(nodes, edges, apart) {
  if (!worker) {
    worker = new Worker("/static/placing.js", { type: "module" });
    worker.onmessage = ({ data }) => { waiting.get(data.number)[0](data); waiting.delete(data.number); };
    worker.onerror = () => {
      for (const [, refuse] of waiting.values()) refuse(new Error("the graph cannot be placed"));
      waiting.clear();
      worker.terminate();
      worker = null;
    };
  }
  const number = asked++;
  return new Promise((...both) => { waiting.set(number, both); worker.postMessage({ number, nodes, edges, apart }); });
}
