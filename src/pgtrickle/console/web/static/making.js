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
