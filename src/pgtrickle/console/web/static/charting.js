// The chart of refreshes: bars of what was measured, a line of what was predicted.
import { $, make, reveal } from "./making.js";

const HEIGHT = 180;
const drawn = { chart: null, measure: "", points: [], shown: null };
let library;

// Fetched when the first chart is shown.
function load() {
  return (library ||= new Promise((resolve, reject) => {
    const script = make("script", { src: "/static/vendor/uPlot.iife.min.js" });
    script.addEventListener("load", () => resolve(window.uPlot));
    script.addEventListener("error", () => { library = null; script.remove(); reject(new Error("the library of the chart cannot be fetched")); });
    document.head.append(make("link", { rel: "stylesheet", href: "/static/vendor/uPlot.min.css" }), script);
  }));
}

// `values` are those that were measured, `guesses` those that were predicted; `points` say when and what.
export async function chart(points, shown) {
  const { name, unit, about, values, guesses } = shown;
  reveal("chart", points.length);
  if (!points.length) return;
  const uPlot = await load();
  const text = (value) => (value === null || value === undefined ? "-" : `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })} ${unit}`);
  const told = points.map((one, place) => `${one.at} ${text(values[place])}${one.failed ? ", failed" : ""}${guesses ? `, predicted ${text(guesses[place])}` : ""}`);
  $("chart").setAttribute("aria-label", `${name} of the latest refreshes, ${about}. ${told.reverse().slice(0, 20).join("; ")}`);
  const data = [
    points.map((_, place) => place),
    values.map((value, place) => (points[place].failed ? null : value)),
    values.map((value, place) => (points[place].failed ? value : null)),
    guesses ?? points.map(() => null),
  ];
  Object.assign(drawn, { points, shown });
  if (drawn.chart && drawn.measure === name) { drawn.chart.setData(data); return; }
  const focus = drawn.chart?.cursor.idx;
  drawn.chart?.destroy();
  const colour = (which) => () => getComputedStyle(document.documentElement).getPropertyValue(which);
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, font };
  const bars = uPlot.paths.bars({ size: [0.8, 24] });
  const value = (_, one) => text(one);
  const series = (label, which, more) => ({ label, value, points: { show: false }, stroke: colour(which), ...more });
  drawn.measure = name;
  drawn.chart = new uPlot({
    width: $("chart").clientWidth, height: HEIGHT,
    scales: { x: { time: false, range: (_, least, most) => [least - 0.5, Math.max(most, 11) + 0.5] }, y: { range: (_, least, most) => [0, Math.max(most, 1) * 1.05] } },
    axes: [
      { ...axis, grid: { show: false }, size: 26, space: 110, incrs: [1, 2, 5, 10, 20, 50, 100], values: (_, places) => places.map((one) => drawn.points[one]?.at ?? "") },
      { ...axis, size: 80, values: (_, found) => found.map(text) },
    ],
    series: [
      { label: "refresh", value: (_, place) => { const one = drawn.points[place]; return one ? `${one.at} ${one.action}, ${one.rows} rows` : "-"; } },
      series(name, "--good", { fill: colour("--good"), paths: bars }),
      series("failed", "--bad", { fill: colour("--bad"), paths: bars }),
      ...(guesses ? [series("predicted", "--warning", { width: 1.5 })] : []),
    ],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    legend: { markers: { width: 2 } },
  }, guesses ? data : data.slice(0, 3), $("chart"));
  if (focus !== null && focus !== undefined) point(focus);
}

function point(place) {
  const { chart: one } = drawn;
  one.setCursor({ left: one.valToPos(Math.min(Math.max(place, 0), drawn.points.length - 1), "x"), top: 0 });
}
$("chart").addEventListener("keydown", ({ key }) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step && drawn.chart) point((drawn.chart.cursor.idx ?? drawn.points.length) + step);
});
new ResizeObserver(() => {
  const width = $("chart").clientWidth;
  if (drawn.chart && width && width !== drawn.chart.width) drawn.chart.setSize({ width, height: HEIGHT });
}).observe($("chart"));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawn.measure = "";  // so that it is made anew, in the other colours
  if (drawn.chart) chart(drawn.points, drawn.shown);
});
