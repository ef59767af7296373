// One selection for all views, kept in the URL so that it can be linked.

const VIEWS = ['overview', 'program', 'value', 'communication', 'memory', 'time', 'roofline', 'compare', 'whatif'];
const NUMBERS = ['op', 'value', 'collective', 'line', 'device'];

const state = { view: 'overview' };
const listeners = [];

function readHash(hash) {
  const out = { view: 'overview' };
  for (const part of hash.replace(/^#/, '').split('&')) {
    const [name, value] = part.split('=');
    if (name === 'view' && VIEWS.includes(value)) out.view = value;
    else if (NUMBERS.includes(name) && /^\d+$/.test(value)) out[name] = Number(value);
    else if (name === 'side' && ['graph', 'device'].includes(value)) out.side = value;
  }
  return out;
}

function writeHash(from) {
  const parts = [`view=${from.view}`];
  for (const name of NUMBERS) if (from[name] !== undefined) parts.push(`${name}=${from[name]}`);
  if (from.side) parts.push(`side=${from.side}`);
  return `#${parts.join('&')}`;
}

/** Changes the selection; `undefined` takes a part of it away. */
function select(change) {
  Object.assign(state, change);
  for (const name of Object.keys(state)) if (state[name] === undefined) delete state[name];
  const hash = writeHash(state);
  if (hash !== location.hash) {
    try {
      history.pushState(null, '', hash);
    } catch {
      // A page inside another, as in a notebook, has no address of its own.
    }
  }
  for (const listener of listeners) listener(change);
}

/** Takes the selection from the address. A collective or an operation alone brings along what belongs to it. */
function followHash(model) {
  for (const name of Object.keys(state)) delete state[name];
  Object.assign(state, readHash(location.hash));
  if (state.collective >= model.collectives.length) delete state.collective;
  if (state.op >= model.count) delete state.op;
  if (state.value >= model.values.name.length) delete state.value;
  if (state.op === undefined && state.collective !== undefined) state.op = Math.max(0, model.opOfCollective[state.collective]);
  if (state.op !== undefined && state.line === undefined && model.ops.line[state.op] > 0) state.line = model.ops.line[state.op];
  if (state.value === undefined && state.op !== undefined && model.ops.value[state.op] >= 0) state.value = model.ops.value[state.op];
  for (const listener of listeners) listener(state);
}

/** Selects an operation with all that belongs to it. */
function selectOp(model, op, more) {
  const { ops } = model;
  select({
    op,
    line: ops.line[op] > 0 ? ops.line[op] : undefined,
    value: ops.value[op] >= 0 ? ops.value[op] : undefined,
    collective: ops.collective[op] >= 0 ? ops.collective[op] : undefined,
    ...more,
  });
}

function selectLine(model, line, more) {
  const ops = model.opsOnLine.get(line) || [];
  // What communicates, or else what takes longest, is what a reader looks for.
  const best = [...ops].sort((a, b) => model.sent[b] - model.sent[a] || model.time[b] - model.time[a])[0];
  if (best !== undefined) selectOp(model, best, { line, ...more });
  else select({ line, op: undefined, collective: undefined, value: (model.valuesOnLine.get(line) || [])[0], ...more });
}

function selectValue(model, value, more) {
  const line = model.values.line[value];
  select({ value, line: line > 0 ? line : undefined, ...more });
}

function selectCollective(model, collective, more) {
  const op = model.opOfCollective[collective];
  const value = (model.data.why.causes[collective] || []).find(v => v >= 0);
  if (op >= 0) selectOp(model, op, { collective, ...(value === undefined ? {} : { value }), ...more });
  else select({ collective, ...more });
}
