// Where the nodes of a graph stand, and how a chart is drawn.  Nothing here touches the page.

// Each node stands right of all that it reads; in a column, near the middle of its neighbours.
export function place(nodes, edges) {
  const at = new Map(nodes.map((one) => [one.name, { ...one, column: 0, row: 0, reads: [], readers: [] }]));
  for (const [source, reader] of edges) {
    at.get(reader).reads.push(at.get(source));
    at.get(source).readers.push(at.get(reader));
  }
  const all = [...at.values()];
  for (let round = 0; round < all.length; round++) {  // ends, in circles too
    let moved = false;
    for (const one of all) {
      const least = Math.min(Math.max(-1, ...one.reads.map((it) => it.column)) + 1, all.length - 1);
      if (least > one.column) { one.column = least; moved = true; }
    }
    if (!moved) break;
    if (round === all.length - 1) circle(all);
  }
  const columns = [];
  for (const one of all) (columns[one.column] ||= []).push(one);
  const filled = columns.filter(Boolean);
  filled.forEach((column, number) => column.forEach((one, row) => { one.column = number; one.row = row; }));
  for (let sweep = 0; sweep < 8; sweep++) {
    const order = sweep % 2 ? [...filled].reverse() : filled;
    for (const column of order) {
      const middle = new Map(column.map((one) => [one, mean(sweep % 2 ? one.readers : one.reads, one.row)]));
      column.sort((a, b) => middle.get(a) - middle.get(b) || (a.name < b.name ? -1 : 1));
      column.forEach((one, row) => { one.row = row; });
    }
  }
  return all;
}

function mean(others, otherwise) {
  return others.length ? others.reduce((sum, one) => sum + one.row, 0) / others.length : otherwise;
}

// In a circle nothing can stand right of all that it reads: the order of the names decides.
function circle(all) {
  const most = Math.max(1, Math.ceil(Math.sqrt(all.length)));
  for (const one of all) one.column = Math.min(one.column, most);
}

// The bars and the line of a chart, in a box of this width and height.
export function chart(points, width, height) {
  const shown = points.filter((one) => one.took !== null);
  const most = Math.max(1, ...shown.flatMap((one) => [one.took, one.predicted ?? 0]));
  const step = Math.min(width / Math.max(shown.length, 1), 24);
  const y = (value) => height - (value / most) * height;
  return {
    most,
    bars: shown.map((one, number) => ({
      x: number * step, y: y(one.took), width: Math.max(step - 2, 1), height: height - y(one.took), point: one,
    })),
    line: shown
      .map((one, number) => [number * step + step / 2, one.predicted])
      .filter(([, value]) => value !== null)
      .map(([x, value]) => `${x.toFixed(1)},${y(value).toFixed(1)}`)
      .join(" "),
  };
}
