// What changed since another program or a lock file: the lines of `explain --check`, and a slope for each kind of bytes.

/** Bytes sent by kind, of a list of facts. */
function sentFacts(facts) {
  const out = new Map();
  for (const [name, value] of facts) {
    const bytes = /^(\d+) B in \d+/.exec(value);
    if (name.startsWith('sent ') && bytes) out.set(name.slice(5), Number(bytes[1]));
  }
  return out;
}

function compareView(model) {
  const { against } = model.data;
  if (!against) {
    return {
      box: h('div', { class: 'empty' }, h('h2', null, 'Nothing to compare with'), h('p', null, 'Write the page with another program or a lock file:'), h('pre', null, 'meshwork explore FILE --against OTHER --out page.html')),
      update: () => {},
    };
  }
  const rows = against.changes.map(([name, was, is]) => ({ name, was, is }));
  const sign = r => (r.was === null ? '+' : r.is === null ? '−' : '~');
  const words = { '+': 'new', '−': 'gone', '~': 'changed' };
  const collective = r => model.collectives.findIndex(c => factsOf(c).includes(r.name));
  const table = dataTable({
    label: 'What changed',
    columns: [
      { name: 'change', width: '100px', cell: r => h('span', { class: `sign s-${words[sign(r)]}` }, `${sign(r)} ${words[sign(r)]}`), text: r => sign(r) },
      { name: 'fact', width: 'minmax(200px,2fr)', cell: r => r.name, text: r => r.name, hint: r => r.name },
      { name: 'was', width: 'minmax(110px,1fr)', cell: r => r.was ?? '–', text: r => r.was ?? '', hint: r => r.was ?? '' },
      { name: 'is', width: 'minmax(110px,1fr)', cell: r => r.is ?? '–', text: r => r.is ?? '', hint: r => r.is ?? '' },
    ],
    rows,
    selected: r => state.collective !== undefined && collective(r) === state.collective,
    onselect: r => {
      const found = collective(r);
      if (found >= 0) selectCollective(model, found);
    },
  });
  const box = h('section', { class: 'pane', 'aria-label': 'comparison' }, h('div', { class: 'panehead' }, h('h2', null, 'Compare'), h('span', { class: 'dim' }, rows.length ? `${plural(rows.length, 'change')} since ${against.name}` : `nothing changed since ${against.name}`)), slopeChart(against), table);
  return { box, update: () => table.refresh() };
}

function slopeChart(against) {
  const [was, is] = [sentFacts(against.was), sentFacts(against.is)];
  const kinds = [...new Set([...was.keys(), ...is.keys()])];
  if (kinds.length === 0) return h('p', { class: 'dim note' }, 'Neither communicates.');
  const most = Math.max(1, ...was.values(), ...is.values());
  const [width, height, left, right] = [620, 180, 190, 430];
  const y = b => height - 22 - ((height - 50) * b) / most;
  const svg = s('svg', { class: 'slope', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'bytes sent by kind, before and now; the table has the same numbers' });
  svg.append(s('text', { x: left, y: 14, class: 'tick', 'text-anchor': 'middle' }, 'was'), s('text', { x: right, y: 14, class: 'tick', 'text-anchor': 'middle' }, 'is'));
  const taken = { l: [], r: [] };
  const free = (side, want) => {
    let at = want;
    while (taken[side].some(t => Math.abs(t - at) < 14)) at -= 14;
    taken[side].push(at);
    return at;
  };
  for (const kind of kinds) {
    const [a, b] = [was.get(kind) || 0, is.get(kind) || 0];
    const { letter, color } = KINDS[kind] || { letter: '?', color: 'var(--dim)' };
    svg.append(
      s('line', { x1: left, x2: right, y1: y(a), y2: y(b), style: `stroke:${color}`, class: 'slopeline' }),
      s('circle', { cx: left, cy: y(a), r: 4, style: `fill:${color}` }),
      s('circle', { cx: right, cy: y(b), r: 4, style: `fill:${color}` }),
      s('text', { x: left - 10, y: free('l', y(a) + 4), class: 'tick', 'text-anchor': 'end' }, `${letter} ${kind} ${humanBytes(a)}`),
      s('text', { x: right + 10, y: free('r', y(b) + 4), class: 'tick' }, `${letter} ${kind} ${humanBytes(b)}`),
    );
  }
  return h('div', { class: 'chartbox auto' }, svg);
}
