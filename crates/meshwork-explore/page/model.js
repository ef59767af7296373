// What the views share: the columns of the plan, and what follows from them.

const KINDS = {
  'all-gather': { letter: 'G', color: 'var(--blue)' },
  'all-reduce': { letter: 'R', color: 'var(--vermillion)' },
  'reduce-scatter': { letter: 'S', color: 'var(--green)' },
  'all-to-all': { letter: 'A', color: 'var(--purple)' },
  'collective-permute': { letter: 'P', color: 'var(--orange)' },
};

function makeModel(data) {
  const plan = data.plan;
  const ops = plan.ops;
  const count = ops.name.length;
  const model = { data, plan, ops, count, values: plan.values, collectives: plan.collectives };
  model.textLines = data.text.split('\n');
  model.deviceLines = data.device.split('\n');

  // Bytes sent and predicted time of each operation in a run.
  model.sent = new Float64Array(count);
  model.time = new Float64Array(count);
  model.opOfCollective = new Array(plan.collectives.length).fill(-1);
  for (let i = 0; i < count; i++) {
    const c = ops.collective[i];
    model.time[i] = ops.counted[i] ? ops.seconds[i] * ops.trips[i] : 0;
    if (c >= 0) {
      model.sent[i] = plan.collectives[c].wire_bytes * plan.collectives[c].times;
      model.opOfCollective[c] = i;
    }
  }
  model.opsOnLine = groupBy(ops.line);
  model.opsOnDeviceLine = groupBy(data.device_line);
  model.valuesOnLine = groupBy(plan.values.line);
  model.lineTime = sumBy(ops.line, model.time);
  model.lineSent = sumBy(ops.line, model.sent);
  model.deviceSent = sumBy(data.device_line, model.sent);
  model.deviceTime = sumBy(data.device_line, model.time);
  model.totalSent = plan.wire_bytes;
  model.totalTime = sumOf(model.time);
  model.totalCollectiveTime = plan.seconds;
  model.end = 0;
  for (let i = 0; i < count; i++) model.end = Math.max(model.end, ops.start[i] + model.time[i]);
  model.changed = changedFacts(data.against);
  model.before = beforeOf(data.against);
  model.movedValues = new Map((data.against && data.against.values) || []);
  // Operations and lines that communicate differently than before.
  model.changedOps = new Set();
  model.changedLines = new Set();
  plan.collectives.forEach((c, i) => {
    const op = model.opOfCollective[i];
    if (op < 0 || !factsOf(c).some(fact => model.changed.has(fact))) return;
    model.changedOps.add(op);
    model.changedLines.add(ops.line[op]);
  });
  return model;
}

function groupBy(keys) {
  const out = new Map();
  keys.forEach((key, i) => {
    if (key <= 0) return;
    if (out.has(key)) out.get(key).push(i);
    else out.set(key, [i]);
  });
  return out;
}

function sumBy(keys, numbers) {
  const out = new Map();
  keys.forEach((key, i) => {
    if (key > 0 && numbers[i] > 0) out.set(key, (out.get(key) || 0) + numbers[i]);
  });
  return out;
}

function sumOf(numbers) {
  let sum = 0;
  for (const n of numbers) sum += n;
  return sum;
}

/** The operations that read a result of another, made when first asked for. */
function usersOf(model) {
  if (!model.users) {
    model.users = Array.from({ length: model.count }, () => []);
    model.ops.operands.forEach((list, i) => {
      for (const from of list) if (from >= 0 && model.users[from].at(-1) !== i) model.users[from].push(i);
    });
  }
  return model.users;
}

function opTitle(model, i) {
  return `${model.ops.name[i]}${model.ops.place[i] ? ` at ${model.ops.place[i]}` : ''}`;
}

const axesText = c => (c.axes.length === 0 ? 'given' : c.axes.join(','));
const sentOf = c => c.wire_bytes * c.times;
const secondsOf = c => c.seconds * c.times;

/** The facts that a lock file has of a collective. */
function factsOf(c) {
  return c.causes.map(cause => `collective ${c.kind} ${axesText(c)}, ${cause.op} ${cause.tensor}, ${cause.wire_bytes.toFixed(0)} B`);
}

function changedFacts(against) {
  const out = new Map();
  for (const [name, was, is] of against ? against.changes : []) out.set(name, was === null ? 'new' : is === null ? 'gone' : 'changed');
  return out;
}

/** Totals of what the program is compared with; a lock file has only some of them. */
function beforeOf(against) {
  if (!against) return null;
  const { plan } = against;
  if (plan) return plan;
  const fact = new Map(against.was);
  const number = text => Number(/^(\d+) B/.exec(text || '')?.[1] ?? 0);
  const sent = against.was.filter(([name]) => name.startsWith('sent ')).map(([, value]) => number(value));
  return { name: against.name, wire_bytes: sumOf(sent), peak: number(fact.get('peak')) };
}

const totalOf = (model, field) => ({ wire_bytes: model.plan.wire_bytes, seconds: model.plan.seconds, flops: model.plan.flops, peak: model.plan.peak.bytes, end: model.end })[field];

/** `was 3.0 KiB`, if it was something else. */
const wasText = (model, field, human) => {
  const was = model.before ? model.before[field] : undefined;
  return was === undefined || human(was) === human(totalOf(model, field)) ? '' : `was ${human(was)}`;
};

const placementText = sharding => `[${sharding.map(axes => `{${axes.join(', ')}}`).join(', ')}]`;

/** How a value was placed in what the program is compared with; empty if it was the same or is not known. */
function wasPlaced(model, value) {
  if (model.movedValues.has(value)) return placementText(model.movedValues.get(value));
  const change = value < model.plan.arguments.length && model.data.against ? model.data.against.changes.find(([name]) => name === `argument ${value}`) : null;
  return change && change[1] ? change[1].replace(/^\S+ /, '').replaceAll('"', '') : '';
}

/** The annotation of a cause in words; empty if none is known. */
const annotationText = cause => (cause.annotation ? `${cause.annotation.what} ${cause.annotation.sharding}` : '');

/** What is sent because of each annotation, most first. Arguments of one type and placement, as the weights of layers, are one. */
function annotationTotals(model) {
  const totals = new Map();
  model.collectives.forEach((c, i) => {
    for (const cause of c.causes) {
      const text = annotationText(cause);
      if (!text) continue;
      const number = /^argument (\d+)/.exec(cause.annotation.what);
      const border = number && model.plan.arguments[Number(number[1])];
      const key = border ? `${border.type} ${cause.annotation.sharding}` : text;
      const entry = totals.get(key) || { text, type: border ? border.type : '', names: new Set(), sent: 0, count: 0, first: i };
      entry.sent += cause.wire_bytes * c.times;
      entry.count += 1;
      entry.names.add(text);
      totals.set(key, entry);
    }
  });
  return [...totals.values()].sort((a, b) => b.sent - a.sent);
}

/** Collectives that differ only in their place, as the lines of `explain`; most bytes first. */
function alikeCollectives(model) {
  const groups = new Map();
  model.collectives.forEach((c, i) => {
    const key = JSON.stringify([c.kind, c.axes, c.operand_bytes, c.causes.map(x => [x.op, x.tensor, x.reason])]);
    const group = groups.get(key) || { first: i, list: [], sent: 0 };
    group.list.push(i);
    group.sent += sentOf(c);
    groups.set(key, group);
  });
  return [...groups.values()].sort((a, b) => b.sent - a.sent);
}

/** Totals by kind and axes, most first. */
function kindTotals(model) {
  const totals = new Map();
  for (const c of model.collectives) {
    const key = `${c.kind} over ${axesText(c)}`;
    const entry = totals.get(key) || { kind: c.kind, axes: axesText(c), sent: 0, seconds: 0, runs: 0 };
    entry.sent += sentOf(c);
    entry.seconds += secondsOf(c);
    entry.runs += c.times;
    totals.set(key, entry);
  }
  return [...totals.values()].sort((a, b) => b.sent - a.sent);
}

/** The chain behind an axis of a value: texts as `meshwork why` has them, each with the value it leads to. */
function chainOf(model, first) {
  const { links, names } = model.data.why;
  const out = [];
  const seen = new Set();
  let at = first;
  while (at >= 0 && !seen.has(at)) {
    seen.add(at);
    const from = names[links.from[at]];
    const through = links.through[at] < 0 ? null : names[links.through[at]];
    const text =
      through === null
        ? `as ${from}, of the same sharding group`
        : `from dimension ${links.dim[at]} of ${from}${through === from ? '' : `, through ${through}`}`;
    out.push({ text, value: links.value[at] });
    at = links.next[at];
  }
  if (at < 0) out.push({ text: names[-1 - at], value: -1, end: true });
  return out;
}

const chainsOf = (model, value) =>
  (model.data.why.starts[value] || []).map(([dim, axis, first]) => ({ dim, axis, steps: chainOf(model, first) }));
