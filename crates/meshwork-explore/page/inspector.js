// What is selected, in words: an operation, its collective with causes and history, its value.

function inspector(model) {
  const box = h('aside', { class: 'inspector', 'aria-label': 'selection' });
  const fact = (name, value) => (value === '' || value === null ? null : [h('dt', null, name), h('dd', null, value)]);
  const update = () => {
    if (state.op === undefined && state.collective === undefined && state.value === undefined) {
      return replace(box, h('p', { class: 'dim' }, 'Select an operation, a line, a collective or a value. Press ? for the keys.'));
    }
    const parts = [];
    if (state.collective !== undefined && model.collectives[state.collective]) parts.push(collectiveFacts(model, state.collective, fact));
    if (state.op !== undefined && state.op < model.count) parts.push(opFacts(model, state.op, fact));
    if (state.value !== undefined && state.value < model.values.name.length) parts.push(valueFacts(model, state.value));
    replace(box, parts);
  };
  return { box, update };
}

function opFacts(model, op, fact) {
  const { ops } = model;
  const neighbours = (title, list) => (list.length ? [h('dt', null, title), h('dd', null, list.slice(0, 8).map(i => h('div', null, i < 0 ? link(`argument ${-1 - i}`, () => selectValue(model, -1 - i)) : link(brief(opTitle(model, i)), () => selectOp(model, i)))), list.length > 8 ? h('span', { class: 'dim' }, `and ${list.length - 8} more`) : null)] : null);
  const communicates = ops.collective[op] >= 0;
  return h(
    'section',
    null,
    h('h3', null, ops.name[op]),
    h('p', { class: 'mono' }, ops.types[op].join('\n')),
    h(
      'dl',
      null,
      fact('source', ops.line[op] > 0 ? link(`line ${ops.line[op]}`, () => selectOp(model, op, { view: 'program' })) : ops.place[op] || 'not known'),
      ops.line[op] > 0 && !ops.place[op].startsWith('line ') ? fact('place', ops.place[op]) : null,
      fact('traced as', shorten(ops.path[op], 200)),
      fact('runs', `${ops.trips[op].toLocaleString('en')}${ops.trips_unknown[op] ? ' or more' : ''}`),
      communicates ? null : fact('arithmetic', humanFlops(ops.flops[op])),
      fact('touches', humanBytes(ops.bytes[op])),
      fact('takes', `${humanSeconds(ops.seconds[op])} each (simulated)`),
      fact('alive', humanBytes(ops.alive[op])),
      neighbours('reads', ops.operands[op]),
      neighbours('read by', usersOf(model)[op]),
    ),
  );
}

function collectiveFacts(model, index, fact) {
  const c = model.collectives[index];
  const values = model.data.why.causes[index] || [];
  return h(
    'section',
    null,
    h('h3', null, kindChip(c.kind), ` over ${axesText(c)}`),
    h(
      'dl',
      null,
      fact('sent', `${humanBytes(sentOf(c))} (${percent(sentOf(c) / Math.max(1e-30, model.totalSent))} of all)`),
      fact('takes', `${humanSeconds(secondsOf(c))} in ${c.times}${c.times_unknown ? ' or more' : ''} run${c.times === 1 ? '' : 's'} (simulated)`),
      fact('operand', humanBytes(c.operand_bytes)),
    ),
    c.causes.slice(0, 12).map((cause, k) =>
      h(
        'div',
        { class: 'cause' },
        h('p', null, cause.tensor ? `${cause.tensor} for ` : 'for ', h('b', null, cause.op), cause.place ? [' at ', causePlace(model, index, cause)] : null),
        h('p', null, cause.reason),
        annotationText(cause) ? h('p', { class: 'change' }, h('b', null, 'Annotation to change: '), annotationLink(model, cause)) : null,
        values[k] >= 0 && chainsOf(model, values[k]).length ? h('details', null, h('summary', null, 'Why it is placed this way'), whyList(model, values[k])) : null,
      ),
    ),
    c.causes.length > 12 ? h('p', { class: 'dim' }, `and ${c.causes.length - 12} more that were combined into this one`) : null,
  );
}

/** The annotation of a cause; that of an argument leads to where it stands in the program. */
function annotationLink(model, cause) {
  const number = /^argument (\d+)/.exec(cause.annotation.what);
  const value = number ? Number(number[1]) : -1;
  if (value < 0 || value >= model.plan.arguments.length) return annotationText(cause);
  return link(annotationText(cause), () => selectValue(model, value, { view: model.values.line[value] > 0 ? 'program' : 'value' }));
}

/** The place of a cause, which leads to its line. */
function causePlace(model, collective, cause) {
  const line = /^line (\d+)$/.exec(cause.place);
  if (line) return link(cause.place, () => selectLine(model, Number(line[1]), { view: 'program', collective }));
  const op = model.opOfCollective[collective];
  return op >= 0 && model.ops.line[op] > 0 ? link(cause.place, () => selectOp(model, op, { view: 'program' })) : cause.place;
}

function valueFacts(model, value) {
  const { values } = model;
  return h(
    'section',
    null,
    h('h3', null, brief(shorten(values.name[value], 120))),
    h('p', { class: 'mono' }, `${values.type[value]}\n${placementText(values.sharding[value])}${wasPlaced(model, value) ? `\nwas ${wasPlaced(model, value)}` : ''}`),
    link('Show its blocks', () => selectValue(model, value, { view: 'value' })),
  );
}
