// Time: the simulated run, arithmetic and one lane for each axis, above the measured one if there is one.

/** Bars of the simulated run: { lane, op, start, end, exposed }. A collective is exposed where nothing is computed beside it. */
function simulatedBars(model) {
  if (model.bars) return model.bars;
  const { ops, count } = model;
  const bars = [];
  const busy = [];
  for (let i = 0; i < count; i++) {
    if (model.time[i] <= 0) continue;
    const [start, end] = [ops.start[i], ops.start[i] + model.time[i]];
    const c = ops.collective[i];
    if (c < 0) {
      bars.push({ lane: 'compute', op: i, start, end });
      busy.push([start, end]);
    } else {
      const axes = model.collectives[c].axes.map(a => a.replace(/:\(.*$/, ''));
      for (const lane of axes.length ? new Set(axes) : ['given']) bars.push({ lane, op: i, start, end, collective: c });
    }
  }
  busy.sort((a, b) => a[0] - b[0]);
  for (const bar of bars) if (bar.collective !== undefined) bar.exposed = exposedIn(busy, bar.start, bar.end);
  model.bars = bars;
  return bars;
}

/** The parts of an interval that no interval of `busy`, which is sorted and does not overlap, covers. */
function exposedIn(busy, start, end) {
  let [low, high] = [0, busy.length];
  while (low < high) {
    const mid = (low + high) >> 1;
    if (busy[mid][1] <= start) low = mid + 1;
    else high = mid;
  }
  const out = [];
  let at = start;
  for (let i = low; i < busy.length && busy[i][0] < end; i++) {
    if (busy[i][0] > at) out.push([at, busy[i][0]]);
    at = Math.max(at, busy[i][1]);
  }
  if (at < end) out.push([at, end]);
  return out;
}

/** Bars of the measured run, by process and thread, and the operation that each event names. */
function measuredBars(model) {
  const { run } = model.data;
  if (!run) return [];
  if (model.measured) return model.measured;
  const byPlace = new Map();
  for (let i = 0; i < model.count; i++) {
    const place = model.ops.place[i];
    if (byPlace.has(place)) byPlace.get(place).push(i);
    else byPlace.set(place, [i]);
  }
  const processes = new Map(run.processes);
  const e = run.events;
  const communicates = new Map(e.name.map((name, k) => [name, e.activity[k] === 1 || e.activity[k] === 2]));
  const opOfName = run.names.map((name, i) => opNamed(model, byPlace, name, communicates.get(i)));
  model.measured = e.name.map((name, k) => ({
    lane: `${processes.get(e.process[k]) || `process ${e.process[k]}`}, thread ${e.thread[k]}`,
    op: opOfName[name],
    name: run.names[name],
    start: e.start[k] / 1e9,
    end: (e.start[k] + e.length[k]) / 1e9,
    activity: ACTIVITIES[e.activity[k]],
    bytes: e.bytes[k],
  }));
  return model.measured;
}

/** Events are called by what runs and where it stands: of the operations there, one that is named, or else the longest. */
function opNamed(model, byPlace, name, communicates) {
  const at = / at (line \d+|\S+:\d+)$/.exec(name);
  const all = (at && byPlace.get(at[1])) || [];
  const alike = all.filter(i => model.ops.collective[i] >= 0 === communicates);
  const there = alike.length ? alike : all;
  const words = name.replaceAll('-', '_');
  const first = words.split(' ')[0];
  const named = there.filter(i => words.includes(model.ops.name[i]) || model.ops.name[i].startsWith(first));
  const pool = named.length ? named : there;
  return pool.reduce((best, i) => (best < 0 || model.time[i] > model.time[best] ? i : best), -1);
}

/** Bars of the simulated run of what the program is compared with. */
function beforeBars(model) {
  const bars = model.before && model.before.bars;
  if (!bars) return [];
  return bars.name.flatMap((name, k) => {
    const [kind, axes] = bars.collective[k] || [null, []];
    const lanes = kind === null ? ['compute'] : axes.length ? [...new Set(axes.map(a => a.replace(/:\(.*$/, '')))] : ['given'];
    const [start, end] = [bars.start[k], bars.start[k] + bars.time[k]];
    return lanes.map(lane => ({ lane, op: -1, kind, name: `${name}${bars.place[k] ? ` at ${bars.place[k]}` : ''}`, start, end }));
  });
}

function timeView(model) {
  const outer = h('div', { class: 'pane' });
  let inner = null;
  const make = () => {
    inner = lanesView(model, make);
    replace(outer, inner.box);
    inner.update({});
  };
  make();
  return { box: outer, update: change => inner.update(change) };
}

function lanesView(model, again) {
  const simulated = simulatedBars(model);
  const measured = measuredBars(model);
  const lanes = [];
  const laneOf = new Map();
  for (const [group, list] of [['simulated', simulated], ['before', beforeBars(model)], ['measured', measured]]) {
    for (const bar of list) {
      const key = `${group} ${bar.lane}`;
      if (!laneOf.has(key) && lanes.length < 40) {
        laneOf.set(key, lanes.length);
        lanes.push({ group, name: bar.lane, bars: [] });
      }
      if (laneOf.has(key)) lanes[laneOf.get(key)].bars.push(bar);
    }
  }
  for (const lane of lanes) lane.bars.sort((a, b) => a.start - b.start);
  const end = mostOf(measured.map(b => b.end), Math.max(model.end, (model.before && model.before.end) || 0, 1e-12));
  let range = [0, end];
  // A simulated run that is much shorter than the measured one is stretched to it, unless the reader wants one scale.
  const shorter = measured.length && model.end > 0 ? end / model.end : 1;
  let stretch = shorter > 3 ? shorter : 1;
  const svg = s('svg', { class: 'chart lanes', tabindex: 0, role: 'img', 'aria-label': 'lanes of time; left and right move, plus and minus zoom, the table has the same numbers' });
  const HEIGHT = 30;
  const draw = () => {
    const width = svg.clientWidth || 600;
    const [left, top] = [150, 26];
    svg.style.height = `${top + lanes.length * (HEIGHT + 6) + 8}px`;
    const span = range[1] - range[0];
    const at = t => left + ((width - left - 12) * (t - range[0])) / span;
    const shapes = [hatchDefs()];
    for (let k = 0; k <= 5; k++) {
      const t = range[0] + (span * k) / 5;
      shapes.push(s('line', { x1: at(t), x2: at(t), y1: top - 4, y2: top + lanes.length * (HEIGHT + 6), class: 'gridline' }), s('text', { x: at(t), y: 14, class: 'tick', 'text-anchor': k === 5 ? 'end' : k ? 'middle' : 'start' }, humanSeconds(t)));
    }
    const most = Math.floor(2600 / Math.max(1, lanes.length));
    lanes.forEach((lane, row) => {
      const y = top + row * (HEIGHT + 6);
      const scale = lane.group === 'measured' ? 1 : stretch;
      const x = t => at(t * scale);
      shapes.push(s('text', { x: 0, y: y + 13, class: 'lane' }, shorten(lane.name === 'compute' ? 'compute' : lane.group === 'measured' ? lane.name : `links of ${lane.name}`, 22)), s('text', { x: 0, y: y + 26, class: 'tick' }, scale > 1 ? `${lane.group}, drawn × ${scale.toFixed(scale < 10 ? 1 : 0)}` : lane.group));
      let lastEnd = -1;
      let drawn = 0;
      for (const bar of lane.bars) {
        if (bar.end * scale < range[0] || bar.start * scale > range[1] || drawn >= most) continue;
        const [from, to] = [Math.max(left, x(bar.start)), Math.min(width - 12, x(bar.end))];
        // What is thinner than a pixel joins its neighbour.
        if (to - lastEnd < 0.7 && bar.op !== state.op) continue;
        lastEnd = Math.max(to, from + 0.7);
        drawn += 1;
        shapes.push(...barShapes(model, lane, bar, from, Math.max(0.7, to - from), y, HEIGHT, x));
      }
    });
    replace(svg, shapes);
  };
  const zoom = (factor, center = (range[0] + range[1]) / 2) => {
    const span = Math.min(end, Math.max(end / 1e6, (range[1] - range[0]) / factor));
    const from = Math.max(0, Math.min(end - span, center - (span * (center - range[0])) / (range[1] - range[0])));
    range = [from, from + span];
    draw();
  };
  const move = share => {
    const span = range[1] - range[0];
    const from = Math.max(0, Math.min(end - span, range[0] + share * span));
    range = [from, from + span];
    draw();
  };
  svg.addEventListener('keydown', event => {
    const act = { ArrowRight: () => move(0.2), ArrowLeft: () => move(-0.2), '+': () => zoom(1.6), '=': () => zoom(1.6), '-': () => zoom(1 / 1.6), 0: () => ((range = [0, end]), draw()) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  svg.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) < Math.abs(event.deltaY)) return;
    event.preventDefault();
    if (event.ctrlKey) zoom(event.deltaY < 0 ? 1.25 : 0.8, range[0] + ((event.offsetX - 150) / (svg.clientWidth - 162)) * (range[1] - range[0]));
    else move((event.deltaX || event.deltaY) / 800);
  }, { passive: false });
  sized(svg, draw);
  const rows = timeRows(model, simulated, measured);
  const table = timeTable(model, rows, measured.length > 0);
  const button = quietButton;
  const scales = shorter > 3 ? h('label', { class: 'dim' }, h('input', { type: 'checkbox', onchange: event => { stretch = event.target.checked ? 1 : shorter; draw(); } }), ' one scale') : null;
  const spent = activity => sum(measured.filter(b => b.activity === activity).map(b => b.end - b.start)) / Math.max(1, deviceLanes(measured));
  const exposed = sum(simulated.filter(b => b.exposed).map(b => sum(b.exposed.map(([a, z]) => z - a))));
  const was = wasText(model, 'end', humanSeconds);
  const summary = `simulated: ${humanSeconds(model.end)}${was ? ` (${was} in ${shorten(model.before.name, 30)})` : ''}, of which about ${humanSeconds(exposed)} only communicate${measured.length ? `; measured: ${humanSeconds(mostOf(measured.map(b => b.end), 0))}, a device ${ACTIVITIES.map(a => `${a} ${humanSeconds(spent(a))}`).join(', ')}` : '; no run was measured'}`;
  const box = h('section', { class: 'pane', 'aria-label': 'time' }, h('div', { class: 'panehead' }, h('h2', null, 'Time'), h('span', { class: 'dim grow' }, summary), scales, button('−', 'Zoom out', () => zoom(1 / 1.6)), button('+', 'Zoom in', () => zoom(1.6)), button('All', 'Show all', () => { range = [0, end]; draw(); }), traceOpener(model, again), button('Save trace', 'Save the simulated run for Chrome or Perfetto', () => download('simulated.trace.json', chromeTrace(model)))), h('div', { class: 'chartbox tall' }, svg), h('p', { class: 'dim note' }, `Hatched in the simulated run: nothing is computed beside the collective; all rounds of a loop are one bar.${measured.length ? ' In the measured run: W, a device waits for others; M, it gets memory; other letters, data of a collective moves.' : ''}`), table);
  return { box, update: () => { draw(); table.refresh(); } };
}

function barShapes(model, lane, bar, from, width, y, height, x) {
  const c = bar.op >= 0 ? model.ops.collective[bar.op] : -1;
  const kind = c >= 0 ? KINDS[model.collectives[c].kind] : KINDS[bar.kind] || null;
  const waits = bar.activity === 'waiting';
  const color = waits ? 'var(--band0)' : bar.activity === 'allocating' ? 'var(--purple)' : kind ? kind.color : bar.activity === 'moving' ? 'var(--vermillion)' : 'var(--compute)';
  const letter = waits ? 'W ' : bar.activity === 'allocating' ? 'M ' : kind ? `${kind.letter} ` : '';
  const name = `${bar.name || opTitle(model, bar.op)}${bar.bytes ? ` ${humanBytes(bar.bytes)}` : ''}`;
  const chosen = bar.op >= 0 && bar.op === state.op;
  const parts = [s('rect', { x: from, y, width, height, style: `fill:${color}`, class: chosen ? 'timebar chosen' : 'timebar' })];
  for (const [a, b] of bar.exposed || []) {
    const [p, q] = [Math.max(from, x(a)), Math.min(from + width, x(b))];
    if (q - p > 2) parts.push(s('rect', { x: p, y, width: q - p, height, fill: 'url(#hatch)' }));
  }
  if (waits && width > 2) parts.push(s('rect', { x: from, y, width, height, fill: 'url(#hatch)', opacity: 0.35 }));
  if (width > 46) parts.push(s('text', { x: from + 4, y: y + 19, class: 'barname' }, shorten(letter + name, Math.floor(width / 6.8))));
  else if (letter && width > 12) parts.push(s('text', { x: from + width / 2, y: y + 19, class: 'barname', 'text-anchor': 'middle' }, letter.trim()));
  return [s('g', { onclick: () => bar.op >= 0 && selectOp(model, bar.op) }, s('title', null, `${name}: ${humanSeconds(bar.end - bar.start)} from ${humanSeconds(bar.start)} (${lane.group})`), parts)];
}

/** How many processes, which are devices, have lanes. */
const deviceLanes = bars => new Set(bars.map(b => b.lane.split(',')[0])).size;

/** A row for each operation that takes time, with what was measured of it over all devices and threads, on average. */
function timeRows(model, simulated, measured) {
  const rows = new Map();
  for (const bar of simulated) {
    const row = rows.get(bar.op) || { op: bar.op, lane: bar.lane, start: bar.start, time: bar.end - bar.start, measured: 0, waiting: 0, events: 0 };
    if (row.lane !== bar.lane && !row.lane.split(', ').includes(bar.lane)) row.lane += `, ${bar.lane}`;
    rows.set(bar.op, row);
  }
  const devices = deviceLanes(measured) || 1;
  for (const bar of measured) {
    if (bar.op < 0) continue;
    const row = rows.get(bar.op) || { op: bar.op, lane: 'compute', start: model.ops.start[bar.op], time: 0, measured: 0, waiting: 0, events: 0 };
    row.measured += (bar.end - bar.start) / devices;
    if (bar.activity === 'waiting') row.waiting += (bar.end - bar.start) / devices;
    row.events += 1;
    rows.set(bar.op, row);
  }
  return [...rows.values()];
}

function timeTable(model, rows, hasRun) {
  const columns = [
    { name: 'operation', width: 'minmax(160px,2fr)', cell: r => brief(opTitle(model, r.op)), text: r => opTitle(model, r.op), hint: r => opTitle(model, r.op) },
    { name: 'lane', width: 'minmax(80px,1fr)', cell: r => r.lane, text: r => r.lane },
    { name: 'start', title: 'Simulated start', width: '100px', align: 'right', cell: r => humanSeconds(r.start), sort: r => r.start, text: r => r.start },
    { name: 'simulated', title: 'Simulated time in a run', width: '110px', align: 'right', cell: r => humanSeconds(r.time), sort: r => r.time, text: r => r.time },
  ];
  if (hasRun) {
    columns.push(
      { name: 'measured', title: 'Measured time of a device', width: '110px', align: 'right', cell: r => (r.events ? humanSeconds(r.measured) : '–'), sort: r => r.measured, text: r => r.measured },
      { name: 'waiting', title: 'Of which it waits for other devices', width: '90px', align: 'right', cell: r => (r.waiting ? humanSeconds(r.waiting) : '–'), sort: r => r.waiting, text: r => r.waiting },
      { name: 'difference', title: 'Measured minus simulated', width: '110px', align: 'right', cell: r => (r.events ? `${r.measured >= r.time ? '+' : '−'}${humanSeconds(Math.abs(r.measured - r.time))}` : '–'), sort: r => (r.events ? r.measured - r.time : -Infinity), text: r => r.measured - r.time },
    );
  }
  return dataTable({ label: 'Operations that take time', sortBy: hasRun ? 'measured' : 'simulated', columns, rows, selected: r => r.op === state.op, onselect: r => selectOp(model, r.op) });
}

/** The simulated run in the format of Chrome and Perfetto. */
function chromeTrace(model) {
  const bars = simulatedBars(model);
  const lanes = [...new Set(bars.map(b => b.lane))];
  const names = lanes.map((lane, tid) => ({ ph: 'M', name: 'thread_name', pid: 0, tid, args: { name: lane } }));
  const events = bars.map(b => ({ ph: 'X', name: opTitle(model, b.op), cat: b.collective === undefined ? 'step' : 'collective', pid: 0, tid: lanes.indexOf(b.lane), ts: b.start * 1e6, dur: (b.end - b.start) * 1e6 }));
  const process = { ph: 'M', name: 'process_name', pid: 0, args: { name: 'device (simulated)' } };
  return JSON.stringify({ traceEvents: [process, ...names, ...events], displayTimeUnit: 'ns' });
}
