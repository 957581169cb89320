// Where the nodes and edges of a graph stand: each node right of what it reads.  It runs beside the
// page, so that a large graph holds nothing up.
import { Graph, layout } from "./vendor/dagre.esm.js";

const LARGE = 100;  // nodes, beyond which a quicker way of ranking has to do

onmessage = ({ data: { number, nodes, edges, apart } }) => {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 16, edgesep: 8, ranksep: apart, marginx: 10, marginy: 10, ranker: nodes.length > LARGE ? "tight-tree" : "network-simplex" });
  // The same graph stands the same, in whatever order it comes; numbers in place of names, because
  // the library keeps them as properties of objects.
  const sorted = [...nodes].sort((a, b) => (a.key < b.key ? -1 : 1));
  const numbers = new Map(sorted.map(({ key }, place) => [key, `n${place}`]));
  sorted.forEach(({ width, height }, place) => graph.setNode(`n${place}`, { width, height }));
  const ends = edges.map(([from, to, width]) => [numbers.get(from), numbers.get(to), width]);
  for (const [from, to, width] of [...ends].sort((a, b) => (`${a}` < `${b}` ? -1 : 1))) {
    graph.setEdge(from, to, width ? { width, height: 14, labelpos: "c" } : {});
  }
  layout(graph);
  const { width, height } = graph.graph();
  postMessage({
    number, width, height,
    at: new Map(nodes.map(({ key }) => [key, corner(graph.node(numbers.get(key)))])),
    lines: ends.map(([from, to]) => line(graph, from, to)),
  });
};

function corner({ x, y, width, height }) { return [x - width / 2, y - height / 2]; }

// A line leaves and enters at the middle of a side, and is level wherever it passes a point.  One
// that passes no other node, and has no text, needs none.
function line(graph, from, to) {
  const { points, x, y } = graph.edge(from, to);
  const side = (node, next) => ({ x: node.x + (next.x < node.x ? -1 : 1) * node.width / 2, y: node.y });
  const passed = points.length > 3 || x !== undefined ? points.slice(1, -1) : [];
  const all = [side(graph.node(from), points[1]), ...passed, side(graph.node(to), points.at(-2))];
  const path = all.slice(1).map((one, place) => {
    const half = (all[place].x + one.x) / 2;
    return `C${half},${all[place].y} ${half},${one.y} ${one.x},${one.y}`;
  });
  return { path: `M${all[0].x},${all[0].y} ${path.join(" ")}`, middle: x === undefined ? null : [x, y] };
}
