// What to look at first: the totals, the most expensive collectives with the annotation to change, the peak.

function overviewView(model) {
  const { plan } = model;
  const { peak } = plan;
  const top = alikeCollectives(model).slice(0, 6);
  const annotations = annotationTotals(model).slice(0, 6);
  const slow = Array.from({ length: model.count }, (_, i) => i).filter(i => model.time[i] > 0 && plan.ops.collective[i] < 0);
  slow.sort((a, b) => model.time[b] - model.time[a]);
  const card = (title, ...body) => h('section', { class: 'card' }, h('h2', null, title), ...body);
  const list = (items, empty) => (items.length ? h('ol', { class: 'plain' }, items.map(item => h('li', null, item))) : h('p', { class: 'dim' }, empty));
  const collectiveItem = group => {
    const c = plan.collectives[group.first];
    const cause = c.causes[0];
    const others = group.list.length > 1 ? ` and ${group.list.length - 1} more like it` : '';
    return h(
      'button',
      { type: 'button', class: 'item', onclick: () => selectCollective(model, group.first, { view: 'communication' }) },
      h('span', { class: 'amount' }, humanBytes(group.sent)),
      h('span', { class: 'what' }, kindChip(c.kind), brief(` over ${axesText(c)}: ${cause.tensor} for ${cause.op}${cause.place ? ` at ${cause.place}` : ''}${others}`), h('small', null, annotationText(cause) ? `change: ${annotationText(cause)}` : cause.reason)),
      h('span', { class: 'dim' }, percent(group.sent / Math.max(1e-30, model.totalSent))),
    );
  };
  const box = h(
    'div',
    { class: 'overview scroll' },
    changesCard(model, card),
    card('Most expensive communication', list(top.map(collectiveItem), 'Every device computes on what it has: nothing is sent.')),
    card(
      'Annotations to change first',
      list(
        annotations.map(a => h('button', { type: 'button', class: 'item', onclick: () => selectCollective(model, a.first, { view: 'communication' }) }, h('span', { class: 'amount' }, humanBytes(a.sent)), h('span', { class: 'what' }, a.text, a.names.size > 1 ? ` and ${a.names.size - 1} more of type ${a.type}` : '', h('small', null, `${plural(a.count, 'collective')} because of ${a.names.size > 1 ? 'them' : 'it'}`)), h('span', { class: 'dim' }, percent(a.sent / Math.max(1e-30, model.totalSent))))),
        'No communication is due to an annotation.',
      ),
    ),
    card(
      `Memory: ${humanBytes(peak.bytes)} at the peak`,
      model.count ? h('p', null, link(brief(` at ${shorten(peak.at, 120)}`), () => selectOp(model, peakOp(model), { view: 'memory' }))) : null,
      list(peak.alive.slice(0, 5).map(a => h('span', { class: 'item' }, h('span', { class: 'amount' }, humanBytes(a.bytes)), h('span', { class: 'what' }, brief(`${a.type}, ${a.from}`)))), 'Nothing is alive.'),
    ),
    card(
      `Arithmetic: ${humanFlops(plan.flops)} per device`,
      list(slow.slice(0, 5).map(i => h('button', { type: 'button', class: 'item', onclick: () => selectOp(model, i, { view: 'program' }) }, h('span', { class: 'amount' }, humanSeconds(model.time[i])), h('span', { class: 'what' }, brief(opTitle(model, i)), h('small', null, model.ops.types[i].join(' '))))), 'Nothing is computed.'),
      h('p', { class: 'dim' }, 'Times are simulated by the cost model of the plan.'),
    ),
    card('Arguments and results', borderTable(model)),
  );
  return { box, update: () => {} };
}

/** What changed, first the totals. */
function changesCard(model, card) {
  const { against } = model.data;
  if (!against) return null;
  const count = sign => against.changes.filter(([, was, is]) => (was === null ? 'new' : is === null ? 'gone' : 'changed') === sign).length;
  const words = ['changed', 'new', 'gone'].filter(count).map(sign => `${count(sign)} ${sign}`).join(', ');
  const rows = [['sent', 'wire_bytes', humanBytes], ['communication', 'seconds', humanSeconds], ['arithmetic', 'flops', humanFlops], ['memory', 'peak', humanBytes], ['simulated run', 'end', humanSeconds]];
  const lines = rows.map(([name, field, human]) => [name, wasText(model, field, human), human(totalOf(model, field))]).filter(([, was]) => was);
  return card(
    `Changed since ${shorten(against.name, 40)}`,
    h('p', null, against.changes.length ? link(`${words}: show all`, () => select({ view: 'compare' })) : 'Nothing that a lock file records.'),
    lines.length ? h('dl', null, lines.flatMap(([name, was, is]) => [h('dt', null, name), h('dd', null, `${was}, is ${is}`)])) : null,
  );
}

function borderTable(model) {
  const { plan } = model;
  const rows = [...plan.arguments.map((b, i) => ({ b, what: `argument ${i}`, value: i })), ...plan.results.map((b, i) => ({ b, what: `result ${i}`, value: -1 }))];
  const placement = r => placementText(r.b.sharding);
  return dataTable({
    label: 'Placements at the border',
    height: `${Math.min(300, 36 + rows.length * 26)}px`,
    columns: [
      { name: 'what', width: '110px', cell: r => r.what, text: r => r.what },
      { name: 'name', width: 'minmax(80px,1fr)', cell: r => shorten(r.b.name, 80), text: r => r.b.name, hint: r => r.b.name },
      { name: 'type', width: 'minmax(90px,1fr)', cell: r => r.b.type, text: r => r.b.type },
      { name: 'placement', width: 'minmax(90px,1fr)', cell: r => h('span', null, placement(r), model.changed.has(r.what) ? h('span', { class: 'tag' }, model.changed.get(r.what)) : null), text: placement },
    ],
    rows,
    selected: r => r.value >= 0 && r.value === state.value,
    onselect: r => r.value >= 0 && selectValue(model, r.value, { view: 'value' }),
  });
}
