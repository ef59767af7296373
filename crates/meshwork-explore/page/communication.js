// Every collective with what it sends, what needs it and the annotation to change.

function kindChip(kind) {
  const known = KINDS[kind] || { letter: '?', color: 'var(--dim)' };
  return h('span', { class: 'chip' }, h('span', { class: 'swatch', style: `background:${known.color}` }), h('b', null, known.letter), ` ${kind}`);
}

const GROUPS = {
  nothing: () => '',
  kind: c => c.kind,
  axes: axesText,
  annotation: c => annotationText(c.causes[0]) || 'no annotation known',
  layer: c => c.causes[0].path.split('/').slice(0, -1).join('/') || c.causes[0].place || 'no name',
};

function communicationView(model) {
  const { collectives } = model;
  if (collectives.length === 0) {
    return { box: h('div', { class: 'empty' }, h('h2', null, 'No communication'), h('p', null, 'Every device computes on what it has.')), update: () => {} };
  }
  const rows = collectives.map((_, i) => i);
  const c = i => collectives[i];
  const needs = i => `${[...new Set(c(i).causes.map(x => x.op))].join(', ')}${c(i).causes[0].place ? ` at ${c(i).causes[0].place}` : ''}`;
  const more = i => (c(i).causes.length > 1 ? ` +${c(i).causes.length - 1}` : '');
  const mark = i => factsOf(c(i)).map(f => model.changed.get(f)).find(Boolean);
  const table = dataTable({
    label: 'Collectives',
    sortBy: 'sent',
    columns: [
      { name: 'sent', title: 'Bytes that a device sends in a run', width: '76px', align: 'right', cell: i => humanBytes(sentOf(c(i))), sort: i => sentOf(c(i)), text: i => sentOf(c(i)) },
      { name: 'share', title: 'Share of all bytes sent', width: '64px', cell: i => bar(sentOf(c(i)) / Math.max(1e-30, model.totalSent)), sort: i => sentOf(c(i)), text: i => sentOf(c(i)) / Math.max(1e-30, model.totalSent) },
      { name: 'time', title: 'Predicted time in a run', width: '72px', align: 'right', cell: i => humanSeconds(secondsOf(c(i))), sort: i => secondsOf(c(i)), text: i => secondsOf(c(i)) },
      { name: 'runs', title: 'How often it runs', width: '44px', align: 'right', cell: i => `${c(i).times}${c(i).times_unknown ? '+' : ''}`, sort: i => c(i).times, text: i => c(i).times },
      { name: 'collective', width: 'minmax(136px,0.8fr)', cell: i => h('span', null, kindChip(c(i).kind), mark(i) ? h('span', { class: 'tag' }, mark(i)) : null), text: i => c(i).kind },
      { name: 'over', width: 'minmax(44px,0.4fr)', cell: i => axesText(c(i)), text: i => axesText(c(i)) },
      { name: 'tensor', width: 'minmax(84px,0.7fr)', cell: i => c(i).causes[0].tensor + more(i), text: i => c(i).causes.map(x => x.tensor).join(' ') },
      { name: 'for', title: 'The operation that needs it', width: 'minmax(110px,1.3fr)', cell: i => brief(needs(i)), hint: needs, text: needs },
      { name: 'placed by', title: 'The annotation to change', width: 'minmax(110px,1.5fr)', cell: i => annotationText(c(i).causes[0]), hint: i => annotationText(c(i).causes[0]), text: i => annotationText(c(i).causes[0]) },
    ],
    rows,
    selected: i => i === state.collective,
    onselect: i => selectCollective(model, i),
  });
  const groups = h('div', { class: 'groups' });
  const showGroups = by => {
    const sums = new Map();
    rows.forEach(i => {
      const key = GROUPS[by](c(i));
      const entry = sums.get(key) || { key, sent: 0, seconds: 0, runs: 0, list: [] };
      entry.sent += sentOf(c(i));
      entry.seconds += secondsOf(c(i));
      entry.runs += c(i).times;
      entry.list.push(i);
      sums.set(key, entry);
    });
    const list = [...sums.values()].sort((a, b) => b.sent - a.sent);
    replace(groups, by === 'nothing' ? [] : groupTable(model, by, list, chosen => table.setRows(chosen ? chosen.list : rows)));
    table.setRows(rows);
  };
  const picker = h('label', { class: 'dim' }, 'group by ', h('select', { onchange: event => showGroups(event.target.value) }, Object.keys(GROUPS).map(name => h('option', { value: name, selected: name === 'nothing' }, name))));
  const box = h('section', { class: 'pane', 'aria-label': 'communication' }, h('div', { class: 'panehead' }, h('h2', null, 'Communication'), picker, h('span', { class: 'dim' }, `${humanBytes(model.totalSent)} sent per device and run, about ${humanSeconds(model.totalCollectiveTime)} (simulated)`), changesNote(model)), groups, table);
  return { box, update: () => table.refresh() };
}

/** What is not in the table: collectives that are gone. */
function changesNote(model) {
  const facts = [...model.changed].filter(([name]) => name.startsWith('collective '));
  if (facts.length === 0) return null;
  const gone = facts.filter(([, how]) => how === 'gone').length;
  return link(`${plural(facts.length - gone, 'line')} changed, ${gone} gone since ${shorten(model.before.name, 40)}`, () => select({ view: 'compare' }));
}

const bar = share => h('span', { class: 'bar' }, h('span', { style: `width:${Math.max(1, 100 * share)}%` }), h('em', null, percent(share)));

function groupTable(model, by, list, choose) {
  let chosen = null;
  const table = dataTable({
    label: `Collectives by ${by}`,
    height: `${Math.min(230, 36 + list.length * 26)}px`,
    columns: [
      { name: 'sent', width: '92px', align: 'right', cell: g => humanBytes(g.sent), sort: g => g.sent, text: g => g.sent },
      { name: 'share', width: '92px', cell: g => bar(g.sent / Math.max(1e-30, model.totalSent)), sort: g => g.sent, text: g => g.sent / Math.max(1e-30, model.totalSent) },
      { name: 'time', width: '88px', align: 'right', cell: g => humanSeconds(g.seconds), sort: g => g.seconds, text: g => g.seconds },
      { name: 'runs', width: '62px', align: 'right', cell: g => String(g.runs), sort: g => g.runs, text: g => g.runs },
      { name: by, width: '1fr', cell: g => g.key, text: g => g.key, hint: g => g.key },
    ],
    rows: list,
    sortBy: 'sent',
    selected: g => g === chosen,
    onselect: g => {
      chosen = chosen === g ? null : g;
      choose(chosen);
      table.refresh();
    },
  });
  return table;
}
