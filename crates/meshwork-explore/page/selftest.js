// The page's own checks, run by `page.html#selftest`: what the views show is recomputed from the data, in another way.

async function selftest(model) {
  const checks = [];
  const check = (name, holds, detail = '') => checks.push({ name, ok: Boolean(holds), detail: holds ? '' : String(detail) });
  const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));
  const { plan, ops, count } = model;
  const errors = [];
  addEventListener('error', event => errors.push(event.message));
  try {
    // Columns have equal lengths and point into each other.
    check('columns of operations', Object.values(ops).every(column => column.length === count));
    check('columns of values', Object.values(plan.values).every(column => column.length === plan.values.name.length));
    check('operands stand before', ops.operands.every((list, i) => list.every(from => from < i && from >= -1 - plan.arguments.length)), 'an operand is not before its reader');
    check('parents stand before', ops.parent.every((p, i) => p < i));
    check('values of operations', ops.value.every(v => v >= -1 && v < plan.values.name.length));
    check('lines exist', ops.line.every(l => l >= 0 && l <= model.textLines.length) && model.data.device_line.every(l => l >= 0 && l <= model.deviceLines.length));

    // Totals.
    let flops = 0;
    for (let i = 0; i < count; i++) if (ops.counted[i]) flops += ops.flops[i] * ops.trips[i];
    check('arithmetic adds up', near(flops, plan.flops), `${flops} and ${plan.flops}`);
    check('bytes sent add up', near(sumOf(plan.collectives.map(sentOf)), plan.wire_bytes));
    check('causes share the bytes', plan.collectives.every(c => near(sumOf(c.causes.map(x => x.wire_bytes)), c.wire_bytes)));
    check('times add up', near(sumOf(plan.collectives.map(secondsOf)), plan.seconds));
    for (const [kind, total] of Object.entries(plan.totals)) {
      const own = plan.collectives.filter(c => c.kind === kind);
      check(`total of ${kind}`, near(sumOf(own.map(sentOf)), total.wire_bytes) && sumOf(own.map(c => c.times)) === total.count);
    }
    check('every collective is an operation', model.opOfCollective.every(op => op >= 0), model.opOfCollective.indexOf(-1));
    check('every collective has a cause', plan.collectives.every(c => c.causes.length > 0 && c.causes.every(x => x.reason)));

    // Memory: recomputed from when buffers come and go.
    const change = new Float64Array(count + 1);
    for (const b of buffersOf(model)) {
      change[b.from] += b.bytes;
      change[b.to + 1] -= b.bytes;
    }
    let alive = model.argumentBytes;
    let wrong = -1;
    for (let i = 0; i < count; i++) {
      alive += change[i];
      if (alive !== ops.alive[i] && wrong < 0) wrong = i;
    }
    check('memory adds up', wrong < 0, `operation ${wrong}`);
    check('the peak is the most', count === 0 || Math.max(...[peakOp(model)].map(i => ops.alive[i])) === plan.peak.bytes);

    // Simulated lanes do not overlap, and end when the run does.
    const lanes = new Map();
    for (const bar of simulatedBars(model)) (lanes.get(bar.lane) || lanes.set(bar.lane, []).get(bar.lane)).push(bar);
    let overlap = '';
    for (const [lane, bars] of lanes) {
      bars.sort((a, b) => a.start - b.start || a.end - b.end);
      for (let i = 1; i < bars.length; i++) if (bars[i].start < bars[i - 1].end - 2e-12) overlap = `${lane}: ${bars[i - 1].op} and ${bars[i].op}`;
    }
    check('lanes do not overlap', overlap === '', overlap);
    const saved = readTrace(chromeTrace(model));
    check('a saved trace reads back', saved.events.name.length === simulatedBars(model).length && saved.processes.length === 1);

    // Blocks: every element is in exactly as many blocks as there are copies.
    const values = plan.values;
    for (let v = 0; v < Math.min(values.name.length, 2000); v++) {
      const cut = cutOfValue(model, v);
      if (deviceCount(cut.mesh) > 4096) continue;
      const blocks = [...blocksOf(slicesOf(cut)).values()];
      const held = sumOf(blocks.map(b => b.ranges.reduce((n, [a, z]) => n * (z - a), 1)));
      const all = cut.shape.reduce((n, size) => n * size, 1);
      const isWhole = blocks.every(b => b.devices.length === deviceCount(cut.mesh) / blocks.length);
      if (held !== all || !isWhole) check(`blocks of value ${v}`, false, `${held} of ${all} elements`);
    }
    check('blocks cover values', true);

    // The history of every value ends.
    const ends = values.name.every((_, v) => v >= 5000 || chainsOf(model, v).every(chain => chain.steps.at(-1).end));
    check('histories end', ends);

    // Every view draws, each table has a row for each of its facts, the hash round-trips.
    build(model);
    for (const view of VIEWS) {
      for (const more of [{}, { op: Math.max(0, count - 1) }, plan.collectives.length ? { collective: 0, op: model.opOfCollective[0] } : {}, { value: 0, line: 1 }]) {
        select({ view, op: undefined, collective: undefined, value: undefined, line: undefined, ...more });
        const back = readHash(writeHash(state));
        check(`hash of ${view}`, JSON.stringify(back, Object.keys(back).sort()) === JSON.stringify({ ...state }, Object.keys(back).sort()) && Object.keys(back).length === Object.keys(state).length, writeHash(state));
      }
      const shapes = document.querySelectorAll('svg *').length;
      check(`shapes of ${view}`, shapes <= MOST_SHAPES, shapes);
      check(`${view} draws`, document.getElementById('stage').textContent.length > 0);
      const unnamed = [...document.querySelectorAll('button, input, select')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label')));
      check(`names in ${view}`, unnamed.length === 0, unnamed.length);
    }
    if (count > 0) {
      select({ view: 'program' });
      const words = `${ops.name[count - 1]}`;
      check('search finds', searchOps(model, words).includes(count - 1), words);
    }
    if (model.data.against) checkComparison(model, check);
    if (model.data.run) checkRun(model, check, near);
    select({ view: 'whatif' });
    const text = document.getElementById('stage').textContent;
    check('every variant is a row', model.data.variants.every(v => text.includes(v.name) && text.includes(humanBytes(v.peak))));
    checks.push(...embeddedCases());
  } catch (error) {
    check('no exception', false, `${error.message} ${error.stack}`);
  }
  check('no errors', errors.length === 0, errors.join('; '));
  const bad = checks.filter(c => !c.ok);
  const report = JSON.stringify({ checks: checks.length, failed: bad });
  replace(document.getElementById('app'), h('pre', { id: 'report' }, report));
  document.documentElement.dataset.selftest = bad.length === 0 ? 'ok' : 'failed';
}

/** The changes are the difference of the two lists of facts, and the views say something of them. */
function checkComparison(model, check) {
  const { was, is, changes } = model.data.against;
  const [before, now] = [new Map(was), new Map(is)];
  const names = [...new Set([...before.keys(), ...now.keys()])].filter(name => before.get(name) !== now.get(name));
  const said = new Map(changes.map(([name, a, b]) => [name, [a, b]]));
  const same = name => said.has(name) && (said.get(name)[0] ?? undefined) === before.get(name) && (said.get(name)[1] ?? undefined) === now.get(name);
  check('changes are all changes', names.length === changes.length && names.every(same), `${names.length} and ${changes.length}`);
  for (const [view, mark] of [['overview', 'Changed since'], ['memory', 'before'], ['compare', model.data.against.name]]) {
    select({ view });
    check(`${view} compares`, document.getElementById('stage').textContent.includes(mark));
  }
  const present = changes.filter(([name, , now]) => name.startsWith('collective ') && now !== null);
  const marked = model.collectives.filter(c => factsOf(c).some(f => model.changed.has(f))).length;
  check('changed collectives are marked', present.length === 0 || marked > 0, `${marked} for ${present.length}`);
}

/** The measured run: every event is a bar, and the table has all of their time. */
function checkRun(model, check, near) {
  const e = model.data.run.events;
  const bars = measuredBars(model);
  check('every event is a bar', bars.length === e.name.length && bars.every((b, k) => b.activity === ACTIVITIES[e.activity[k]]));
  const rows = timeRows(model, simulatedBars(model), bars);
  const all = sumOf(bars.filter(b => b.op >= 0).map(b => b.end - b.start)) / (deviceLanes(bars) || 1);
  check('measured times add up', near(sumOf(rows.map(r => r.measured)), all));
  check('waiting is a part of it', rows.every(r => r.waiting <= r.measured + 1e-12));
}

/** Cases that a test puts into the page: placements with the ranges that meshwork-mesh gives for them. */
function embeddedCases() {
  const element = document.getElementById('cases');
  if (!element) return [];
  const cases = JSON.parse(element.textContent);
  const bad = cases.filter(c => JSON.stringify(slicesOf(cutOf(c.shape, c.sharding, c.mesh)).map(x => [x.device, x.ranges])) !== JSON.stringify(c.slices));
  return [{ name: `${cases.length} random placements`, ok: bad.length === 0 && cases.length > 0, detail: bad.length ? JSON.stringify(bad[0]) : '' }];
}
