// Which part of an array each device holds: the split of meshwork-mesh, computed from the placement alone.

/** `f32[64,256]` as its extents. */
function extents(type) {
  const inside = /\[([^\]]*)\]$/.exec(type);
  return !inside || inside[1] === '' ? [] : inside[1].split(',').map(Number);
}

/** An axis of a placement: which mesh axis, and which part of it. `x` is all of it, `x:(1)2` a part. */
function parseAxis(text, mesh) {
  let index = mesh.axes.findIndex(a => a.name === text);
  if (index >= 0) return { index, size: mesh.axes[index].size, stride: 1, text };
  const part = /^(.*):\((\d+)\)(\d+)$/.exec(text);
  index = part ? mesh.axes.findIndex(a => a.name === part[1]) : -1;
  if (index < 0) return { index: -1, size: 1, stride: 1, text };
  const size = Number(part[3]);
  return { index, size, stride: Math.max(1, Math.floor(mesh.axes[index].size / (Number(part[2]) * size))), text };
}

const ceilDiv = (size, parts) => (size <= 0 || parts <= 1 ? size : Math.floor((size - 1) / parts) + 1);

/** The elements of one shard of a dimension: the last that is not empty may be short. */
function shardRange(size, shards, index) {
  const block = ceilDiv(size, shards);
  const start = Math.min(block * index, size);
  return [start, Math.min(start + block, size)];
}

const deviceCount = mesh => mesh.axes.reduce((n, a) => n * a.size, 1);
const deviceAt = (mesh, position) => (mesh.device_ids ? mesh.device_ids[position] : position);

function coordinatesAt(mesh, position) {
  const out = new Array(mesh.axes.length);
  for (let i = mesh.axes.length - 1; i >= 0; i--) {
    out[i] = position % mesh.axes[i].size;
    position = Math.floor(position / mesh.axes[i].size);
  }
  return out;
}

/** The shard that a device has along a list of axes, major to minor. */
function shardIndex(axes, coordinates) {
  let index = 0;
  for (const axis of axes) {
    const own = axis.index < 0 ? 0 : Math.floor(coordinates[axis.index] / axis.stride) % axis.size;
    index = index * axis.size + own;
  }
  return index;
}

/** How an array is cut: extents, axes and number of shards of each dimension. */
function cutOf(shape, sharding, mesh) {
  const axes = shape.map((_, d) => (sharding[d] || []).map(text => parseAxis(text, mesh)));
  const shards = axes.map(list => list.reduce((n, a) => n * a.size, 1));
  return { shape, axes, shards, mesh };
}

/** For each position of the mesh: the device, its shard in each dimension, and the ranges it holds. */
function slicesOf(cut) {
  const out = [];
  for (let position = 0; position < deviceCount(cut.mesh); position++) {
    const coordinates = coordinatesAt(cut.mesh, position);
    const index = cut.axes.map(axes => shardIndex(axes, coordinates));
    const ranges = cut.shape.map((size, d) => shardRange(size, cut.shards[d], index[d]));
    out.push({ device: deviceAt(cut.mesh, position), position, coordinates, index, ranges });
  }
  return out;
}

/** The devices of each block, by the block's shard in every dimension. */
function blocksOf(slices) {
  const blocks = new Map();
  for (const slice of slices) {
    const key = slice.index.join(',');
    if (blocks.has(key)) blocks.get(key).devices.push(slice.device);
    else blocks.set(key, { index: slice.index, ranges: slice.ranges, devices: [slice.device] });
  }
  return blocks;
}

/** A value of the program as it is cut. */
function cutOfValue(model, value) {
  const v = model.values;
  return cutOf(extents(v.type[value]), v.sharding[value], v.order[value] || model.plan.mesh);
}
