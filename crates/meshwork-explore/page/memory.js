// Bytes alive on a device over the program: the largest buffers as bands, the peak, and the budget.

const BANDS = 12;

/** Everything that lives: arguments first, then results of operations, with the operations it is alive for. */
function buffersOf(model) {
  if (model.buffers) return model.buffers;
  const { ops, plan, count } = model;
  const out = [];
  for (let i = 0; i < count; i++) {
    ops.result_bytes[i].forEach((bytes, r) => {
      if (bytes > 0) out.push({ op: i, result: r, bytes, from: i, to: ops.until[i][r], name: opTitle(model, i), type: ops.types[i][r] });
    });
  }
  model.buffers = out;
  // Arguments are alive throughout: what is alive at the first operation beside its own results.
  const own = count ? sum(ops.result_bytes[0]) : 0;
  model.argumentBytes = count ? ops.alive[0] - own : 0;
  model.argumentCount = plan.arguments.length;
  return out;
}

/** What is alive at an operation, largest first. */
function aliveAt(model, op) {
  const list = buffersOf(model).filter(b => b.from <= op && op <= b.to);
  const all = [...list];
  if (model.argumentBytes > 0) all.push({ op: -1, bytes: model.argumentBytes, from: 0, to: model.count - 1, name: plural(model.argumentCount, 'argument'), type: '' });
  return all.sort((a, b) => b.bytes - a.bytes);
}

function peakOp(model) {
  let best = 0;
  for (let i = 1; i < model.count; i++) if (model.ops.alive[i] > model.ops.alive[best]) best = i;
  return best;
}

/** What is drawn as one band: single buffers of a small program, else buffers of one operation and type together. */
function memoryBands(model) {
  const buffers = buffersOf(model);
  const alone = buffers.length <= 60;
  const groups = new Map();
  for (const b of buffers) {
    const key = alone ? `${b.op} ${b.result}` : `${model.ops.name[b.op]} ${b.type}`;
    const group = groups.get(key) || { name: alone ? b.name : model.ops.name[b.op], type: b.type, list: [], weight: 0 };
    group.list.push(b);
    group.weight += b.bytes * (b.to - b.from + 1);
    groups.set(key, group);
  }
  const bands = [...groups.values()].sort((x, y) => y.weight - x.weight).slice(0, BANDS);
  for (const band of bands) {
    // Bytes alive at each operation.
    const change = new Float64Array(model.count + 1);
    for (const b of band.list) {
      change[b.from] += b.bytes;
      change[b.to + 1] -= b.bytes;
    }
    band.alive = change;
    for (let i = 1; i <= model.count; i++) change[i] += change[i - 1];
  }
  return bands.sort((x, y) => x.list[0].from - y.list[0].from);
}

const letterOf = k => String.fromCharCode(97 + k);
const bandName = band => `${band.list.length > 1 ? `${band.list.length} × ` : ''}${band.name} ${band.type}`;

function memoryView(model) {
  const { ops, count } = model;
  const bands = memoryBands(model);
  const peak = peakOp(model);
  const svg = s('svg', { class: 'chart', tabindex: 0, role: 'img', 'aria-label': `bytes alive over the program, at most ${humanBytes(model.plan.peak.bytes)} at ${model.plan.peak.at}; arrow keys move through the operations, the table has the same numbers` });
  const at = () => (state.op !== undefined ? state.op : peak);
  const title = h('span', { class: 'dim' });
  const table = dataTable({
    label: 'Alive there',
    sortBy: 'bytes',
    columns: [
      { name: 'bytes', width: '100px', align: 'right', cell: b => humanBytes(b.bytes), sort: b => b.bytes, text: b => b.bytes },
      { name: 'type', width: 'minmax(110px,1fr)', cell: b => b.type, text: b => b.type },
      { name: 'made by', width: 'minmax(160px,2fr)', cell: b => brief(b.name), text: b => b.name, hint: b => b.name },
      { name: 'alive for', title: 'Operations from its first to its last', width: '100px', align: 'right', cell: b => plural(b.to - b.from + 1, 'op'), sort: b => b.to - b.from, text: b => b.to - b.from + 1 },
    ],
    rows: [],
    selected: b => b.op === state.op && b.op >= 0,
    onselect: b => b.op >= 0 && selectOp(model, b.op),
  });
  let scaleX = null;
  const draw = () => {
    const [width, height] = [svg.clientWidth || 600, svg.clientHeight || 260];
    const [left, right, top, bottom] = [74, 16, 18, 26];
    const budget = model.data.budget;
    const { before } = model;
    const most = Math.max(1, model.plan.peak.bytes, budget || 0, before ? before.peak : 0) * 1.06;
    const columns = Math.max(1, Math.min(count, Math.floor((width - left - right) / 1.5)));
    const x = i => left + ((width - left - right) * i) / Math.max(1, count);
    const y = b => height - bottom - ((height - top - bottom) * b) / most;
    scaleX = px => Math.max(0, Math.min(count - 1, Math.floor(((px - left) / (width - left - right)) * count)));
    const shapes = [];
    for (let k = 0; k <= 4; k++) {
      const b = (most * k) / 4;
      shapes.push(s('line', { x1: left, x2: width - right, y1: y(b), y2: y(b), class: 'gridline' }), s('text', { x: left - 8, y: y(b) + 4, class: 'tick', 'text-anchor': 'end' }, humanBytes(b)));
    }
    // Each column shows its operation with the most bytes.
    const peaks = [];
    for (let k = 0; k < columns; k++) {
      const from = Math.floor((k * count) / columns);
      const to = Math.max(from + 1, Math.floor(((k + 1) * count) / columns));
      let best = from;
      for (let i = from; i < to; i++) if (ops.alive[i] > ops.alive[best]) best = i;
      peaks.push({ from, to, op: best });
    }
    const area = (low, high) => {
      const upper = peaks.map(c => `${x(c.from)} ${y(high(c.op))}L${x(c.to)} ${y(high(c.op))}`).join('L');
      const lower = [...peaks].reverse().map(c => `${x(c.to)} ${y(low(c.op))}L${x(c.from)} ${y(low(c.op))}`).join('L');
      return `M${upper}L${lower}Z`;
    };
    shapes.push(s('path', { class: 'area', d: area(() => 0, i => ops.alive[i]) }, s('title', null, 'everything else')));
    const base = model.argumentBytes;
    if (base > 0) shapes.push(s('path', { class: 'band', d: area(() => 0, () => base), style: 'fill:var(--band0)' }, s('title', null, `${plural(model.argumentCount, 'argument')}: ${humanBytes(base)}`)));
    const below = new Float64Array(count).fill(base);
    const letters = [];
    bands.forEach((band, k) => {
      const low = below.slice();
      for (let i = 0; i < count; i++) below[i] += band.alive[i];
      const chosen = state.op !== undefined && band.list.some(b => b.op === state.op);
      shapes.push(s('g', { class: chosen ? 'bandbox chosen' : 'bandbox' }, s('title', null, `${bandName(band)}: ${humanBytes(mostOf(band.alive, 0))} at most`), s('path', { class: 'band', d: area(i => low[i], i => below[i]), style: `fill:${HUES[k % HUES.length]}` })));
      // Its letter stands where the band is thickest, if it fits.
      const thick = peaks.reduce((best, c) => (band.alive[c.op] > band.alive[best.op] ? c : best), peaks[0]);
      if (y(low[thick.op]) - y(below[thick.op]) > 10) letters.push(s('text', { x: x((thick.from + thick.to) / 2), y: (y(low[thick.op]) + y(below[thick.op])) / 2 + 4, class: 'bandname', 'text-anchor': 'middle' }, letterOf(k)));
    });
    shapes.push(...letters);
    const line = (i, cls, text) => [s('line', { x1: x(i + 0.5), x2: x(i + 0.5), y1: top, y2: height - bottom, class: cls }), text ? s('text', { x: Math.min(width - right - 4, x(i + 0.5) + 5), y: top + 2, class: 'tick', 'text-anchor': x(i) > width * 0.7 ? 'end' : 'start' }, text) : null];
    shapes.push(...line(peak, 'peakline', `peak ${humanBytes(model.plan.peak.bytes)}`));
    if (state.op !== undefined && state.op !== peak) shapes.push(...line(state.op, 'cursor', ''));
    // The other program over the same width, or the peak that a lock file has.
    if (before) {
      const points = before.alive && before.alive.length > 1 ? before.alive : [before.peak, before.peak];
      const step = (width - left - right) / points.length;
      shapes.push(s('path', { class: 'beforeline', d: `M${points.map((b, k) => `${left + step * k} ${y(b)}L${left + step * (k + 1)} ${y(b)}`).join('L')}` }, s('title', null, `${before.name}: ${humanBytes(before.peak)} at most`)), s('text', { x: left + 6, y: y(before.peak) - 4, class: 'tick' }, `before: ${humanBytes(before.peak)}`));
    }
    if (budget) shapes.push(s('line', { x1: left, x2: width - right, y1: y(budget), y2: y(budget), class: 'budget' }), s('text', { x: width - right, y: y(budget) - 5, class: 'tick', 'text-anchor': 'end' }, `budget ${humanBytes(budget)}`));
    shapes.push(s('text', { x: left, y: height - 8, class: 'tick' }, 'first operation'), s('text', { x: width - right, y: height - 8, class: 'tick', 'text-anchor': 'end' }, `operation ${count.toLocaleString('en')}`));
    replace(svg, shapes.filter(Boolean));
  };
  svg.addEventListener('click', event => scaleX && selectOp(model, scaleX(event.offsetX)));
  svg.addEventListener('keydown', event => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: Math.ceil(count / 20), PageUp: -Math.ceil(count / 20) }[event.key];
    if (!step) return;
    event.preventDefault();
    selectOp(model, Math.max(0, Math.min(count - 1, at() + step)));
  });
  sized(svg, draw);
  const legend = h('p', { class: 'legend' }, h('span', null, h('span', { class: 'swatch', style: 'background:var(--band0)' }), 'arguments'), bands.map((band, k) => h('button', { type: 'button', class: 'plainbutton', onclick: () => selectOp(model, band.list[0].op) }, h('span', { class: 'swatch', style: `background:${HUES[k % HUES.length]}` }), h('b', null, letterOf(k)), ` ${bandName(band)}`)));
  const toPeak = link('Go to the peak', () => selectOp(model, peak));
  const box = h('section', { class: 'pane', 'aria-label': 'memory' }, h('div', { class: 'panehead' }, h('h2', null, 'Memory'), h('span', { class: 'dim' }, 'bytes alive on a device, in program order; largest kinds of buffers as bands'), toPeak, title), h('div', { class: 'chartbox' }, svg), legend, table);
  const update = () => {
    if (count === 0) return;
    draw();
    table.setRows(aliveAt(model, at()));
    title.textContent = `at ${shorten(brief(opTitle(model, at())), 50)}: ${humanBytes(ops.alive[at()])}`;
  };
  return { box, update };
}
