// A layered layout in passes that are linear in nodes and edges.
//
// A node stands below all it reads. Inside a layer the nodes keep the order of the average column of what they read: stable,
// and close to straight lines, without minimising crossings.

const NODE_WIDTH = 168;
const NODE_HEIGHT = 34;
const GAP_X = 18;
const GAP_Y = 30;

/** `nodes` in an order in which edges go forward; `edges[i]` lists what node i reads. Sets x and y and returns the size. */
function layoutLayers(nodes, edges) {
  const layer = new Int32Array(nodes.length);
  for (let i = 0; i < nodes.length; i++) {
    for (const from of edges[i]) layer[i] = Math.max(layer[i], layer[from] + 1);
  }
  // What nothing is read by, as constants, stands right above its first reader.
  const first = new Int32Array(nodes.length).fill(-1);
  for (let i = nodes.length - 1; i >= 0; i--) for (const from of edges[i]) first[from] = first[from] < 0 ? layer[i] : Math.min(first[from], layer[i]);
  for (let i = 0; i < nodes.length; i++) if (edges[i].length === 0 && first[i] > 0) layer[i] = first[i] - 1;

  const layers = [];
  for (let i = 0; i < nodes.length; i++) (layers[layer[i]] ||= []).push(i);
  const rows = layers.filter(Boolean);
  const column = new Float64Array(nodes.length);
  let width = 0;
  rows.forEach((row, y) => {
    const wish = new Map();
    row.forEach((i, at) => {
      const from = edges[i];
      const mean = from.length ? from.reduce((sum, f) => sum + column[f], 0) / from.length : at;
      wish.set(i, mean);
    });
    row.sort((a, b) => wish.get(a) - wish.get(b) || a - b);
    // From left to right, each as near to its wish as the one before leaves room for.
    let next = -Infinity;
    const spread = row.map(i => (next = Math.max(wish.get(i), next + 1)));
    const mean = row.reduce((sum, i) => sum + wish.get(i), 0) / row.length;
    const shift = mean - spread.reduce((sum, x) => sum + x, 0) / row.length;
    row.forEach((i, at) => {
      column[i] = spread[at] + shift;
      nodes[i].y = y * (NODE_HEIGHT + GAP_Y);
    });
  });
  let least = Infinity;
  for (const x of column) least = Math.min(least, x);
  nodes.forEach((node, i) => {
    node.x = (column[i] - least) * (NODE_WIDTH + GAP_X);
    width = Math.max(width, node.x + NODE_WIDTH);
  });
  return { width, height: rows.length * (NODE_HEIGHT + GAP_Y) };
}
