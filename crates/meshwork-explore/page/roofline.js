// Roofline: arithmetic per byte against arithmetic per second, as the cost model has it, and bytes over links as a third roof.

/** Operations that look alike as one dot: { name, type, flops, bytes, seconds, count, op }. */
function rooflineDots(model) {
  const { ops, count } = model;
  const dots = new Map();
  for (let i = 0; i < count; i++) {
    if (ops.flops[i] <= 0 || ops.bytes[i] <= 0 || ops.collective[i] >= 0 || !ops.counted[i]) continue;
    const type = ops.types[i].join(' ');
    const key = `${ops.name[i]} ${type} ${ops.flops[i]} ${ops.bytes[i]}`;
    const dot = dots.get(key) || { name: ops.name[i], type, flops: ops.flops[i], bytes: ops.bytes[i], seconds: 0, count: 0, op: i };
    dot.seconds += model.time[i];
    dot.count += ops.trips[i];
    dots.set(key, dot);
  }
  return [...dots.values()].sort((a, b) => b.seconds - a.seconds);
}

function rooflineView(model) {
  const { machine } = model.plan;
  const dots = rooflineDots(model);
  const shown = dots.slice(0, 800);
  const [peak, memory] = [machine.teraflops * 1e12, machine.memory_gbps * 1e9];
  const linkSpeed = Math.min(...machine.links.map(l => l.gbps)) * 1e9;
  const intensity = d => d.flops / d.bytes;
  const rate = d => (d.flops * d.count) / Math.max(1e-30, d.seconds);
  const svg = s('svg', { class: 'chart', role: 'img', 'aria-label': 'roofline; the table has the same numbers' });
  const overall = model.totalSent > 0 ? model.plan.flops / model.totalSent : null;
  const draw = () => {
    const [width, height] = [svg.clientWidth || 600, svg.clientHeight || 320];
    const [left, right, top, bottom] = [74, 20, 18, 38];
    const xs = [...shown.map(intensity), peak / memory, peak / linkSpeed, ...(overall ? [overall] : [])];
    const [x0, x1] = [Math.floor(Math.log10(Math.min(...xs, 0.1))), Math.ceil(Math.log10(Math.max(...xs, 10)))];
    const y1 = Math.log10(peak) + 0.3;
    const y0 = Math.min(Math.log10(peak) - 4, ...shown.map(d => Math.log10(rate(d)))) - 0.2;
    const x = v => left + ((width - left - right) * (Math.log10(v) - x0)) / (x1 - x0);
    const y = v => top + ((height - top - bottom) * (y1 - Math.log10(v))) / (y1 - y0);
    const shapes = [];
    for (let e = x0; e <= x1; e++) shapes.push(s('line', { x1: x(10 ** e), x2: x(10 ** e), y1: top, y2: height - bottom, class: 'gridline' }), s('text', { x: x(10 ** e), y: height - bottom + 16, class: 'tick', 'text-anchor': 'middle' }, e < 0 ? `1/${10 ** -e}` : (10 ** e).toLocaleString('en')));
    for (let e = Math.ceil(y0); e <= y1; e++) shapes.push(s('line', { x1: left, x2: width - right, y1: y(10 ** e), y2: y(10 ** e), class: 'gridline' }), s('text', { x: left - 8, y: y(10 ** e) + 4, class: 'tick', 'text-anchor': 'end' }, `${humanCount(10 ** e)}/s`));
    shapes.push(s('text', { x: (left + width - right) / 2, y: height - 6, class: 'tick', 'text-anchor': 'middle' }, 'FLOP per byte'));
    const roof = (speed, cls, name) => {
      const ridge = peak / speed;
      const from = Math.max(10 ** x0, 10 ** y0 / speed);
      shapes.push(s('path', { class: cls, d: `M${x(from)} ${y(from * speed)}L${x(ridge)} ${y(peak)}${cls === 'roof' ? `L${width - right} ${y(peak)}` : ''}` }));
      // Beside the middle of the slope, on the side where there is room.
      const middle = Math.sqrt(from * ridge);
      const above = cls === 'roof';
      shapes.push(s('text', { x: x(middle) + (above ? -8 : 8), y: y(middle * speed) + (above ? -6 : 14), class: 'tick', 'text-anchor': above ? 'end' : 'start' }, name));
    };
    roof(memory, 'roof', `memory ${machine.memory_gbps} GB/s`);
    roof(linkSpeed, 'roof link', `links ${linkSpeed / 1e9} GB/s`);
    shapes.push(s('text', { x: width - right, y: y(peak) - 6, class: 'tick', 'text-anchor': 'end' }, `compute ${machine.teraflops} TFLOP/s`));
    const longest = Math.max(1e-30, ...shown.map(d => d.seconds));
    for (const d of shown) {
      shapes.push(s('circle', { cx: x(intensity(d)), cy: y(rate(d)), r: 3 + 13 * Math.sqrt(d.seconds / longest), class: state.op !== undefined && same(model, d) ? 'dot chosen' : 'dot', onclick: () => selectOp(model, d.op) }, s('title', null, `${d.name} ${d.type}: ${humanSeconds(d.seconds)} in ${plural(d.count, 'run')}, ${intensity(d).toFixed(2)} FLOP per byte`)));
    }
    if (overall) shapes.push(s('path', { class: 'whole', d: diamond(x(overall), y(Math.min(peak, overall * linkSpeed)), 7) }, s('title', null, `the whole program: ${overall.toFixed(1)} FLOP per byte sent`)));
    const { before } = model;
    const was = before && before.flops && before.wire_bytes > 0 ? before.flops / before.wire_bytes : null;
    if (was && Math.log10(was) >= x0 && Math.log10(was) <= x1) shapes.push(s('path', { class: 'whole before', d: diamond(x(was), y(Math.min(peak, was * linkSpeed)), 7) }, s('title', null, `${before.name}: ${was.toFixed(1)} FLOP per byte sent`)));
    replace(svg, shapes);
  };
  sized(svg, draw);
  const table = dataTable({
    label: 'Operations by time',
    sortBy: 'time',
    columns: [
      { name: 'operation', width: 'minmax(120px,1fr)', cell: d => d.name, text: d => d.name },
      { name: 'type', width: 'minmax(120px,1fr)', cell: d => d.type, text: d => d.type },
      { name: 'runs', width: '70px', align: 'right', cell: d => String(d.count), sort: d => d.count, text: d => d.count },
      { name: 'FLOP', width: '90px', align: 'right', cell: d => humanCount(d.flops), sort: d => d.flops, text: d => d.flops },
      { name: 'bytes', width: '90px', align: 'right', cell: d => humanBytes(d.bytes), sort: d => d.bytes, text: d => d.bytes },
      { name: 'FLOP/byte', width: '96px', align: 'right', cell: d => intensity(d).toFixed(2), sort: intensity, text: intensity },
      { name: 'time', title: 'Simulated, all runs', width: '90px', align: 'right', cell: d => humanSeconds(d.seconds), sort: d => d.seconds, text: d => d.seconds },
      { name: 'bound by', width: '90px', cell: d => (intensity(d) * memory < peak ? 'memory' : 'compute'), text: d => (intensity(d) * memory < peak ? 'memory' : 'compute') },
    ],
    rows: dots,
    selected: d => state.op !== undefined && same(model, d),
    onselect: d => selectOp(model, d.op),
  });
  const box = h('section', { class: 'pane', 'aria-label': 'roofline' }, h('div', { class: 'panehead' }, h('h2', null, 'Roofline'), h('span', { class: 'dim' }, `dots: operations, area: simulated time${overall ? `; diamond: the program against its links${model.before && model.before.flops ? ', hollow: before' : ''}` : ''}`)), h('div', { class: 'chartbox' }, svg), table);
  return { box, update: () => { draw(); table.refresh(); } };
}

const diamond = (x, y, r) => `M${x - r} ${y}L${x} ${y - r}L${x + r} ${y}L${x} ${y + r}Z`;

function same(model, d) {
  const { ops } = model;
  const i = state.op;
  return ops.name[i] === d.name && ops.flops[i] === d.flops && ops.bytes[i] === d.bytes && ops.types[i].join(' ') === d.type;
}
