// A value of any rank as blocks over devices: two dimensions as rows and columns, the others as small multiples.

const MOST_BLOCKS = 512;
const HUES = ['#56b4e9', '#e69f00', '#009e73', '#cc79a7', '#f0e442', '#0072b2', '#d55e00', '#999999'];

/** The shards of a dimension that are drawn: all, or the first and the last with a gap (-1) between. */
function shownShards(count, most) {
  if (count <= most) return Array.from({ length: count }, (_, i) => i);
  const side = Math.max(1, Math.floor(most / 2));
  return [...Array.from({ length: side }, (_, i) => i), -1, ...Array.from({ length: side }, (_, i) => count - side + i)];
}

/** Which dimensions are rows and columns: those that are split, or else the last two. */
function defaultDims(cut) {
  const rank = cut.shape.length;
  const split = cut.shards.map((n, d) => (n > 1 ? d : -1)).filter(d => d >= 0);
  const pool = [...split, ...cut.shape.map((_, d) => rank - 1 - d).filter(d => !split.includes(d))];
  return pool.slice(0, 2).sort((a, b) => a - b);
}

function valueView(model) {
  const { values } = model;
  const rows = values.name.map((_, i) => i);
  let dims = [];
  let picture = h('div');
  const isSplit = i => values.sharding[i].some(axes => axes.length > 0);
  const placement = i => placementText(values.sharding[i]);
  const list = dataTable({
    label: 'All values',
    columns: [
      { name: 'value', width: 'minmax(100px,1.7fr)', cell: i => h('span', null, shorten(brief(values.name[i]), 60), wasPlaced(model, i) ? h('span', { class: 'tag' }, 'changed') : null), hint: i => values.name[i], text: i => values.name[i] },
      { name: 'type', width: 'minmax(76px,1fr)', cell: i => values.type[i], text: i => values.type[i] },
      { name: 'placement', width: 'minmax(76px,1.2fr)', cell: i => placement(i), text: placement, hint: placement },
    ],
    rows,
    selected: i => i === state.value,
    onselect: i => selectValue(model, i),
  });
  const only = h('input', { type: 'checkbox', onchange: () => list.setRows(only.checked ? rows.filter(isSplit) : rows) });
  const detail = h('div', { class: 'scroll valuedetail' });
  const box = h('div', { class: 'split narrow' }, h('section', { class: 'pane', 'aria-label': 'values' }, h('div', { class: 'panehead' }, h('h2', null, 'Values'), h('label', { class: 'dim' }, only, ' only split ones')), list), h('section', { class: 'pane', 'aria-label': 'picture of the value' }, detail));
  let drawn = -1;
  const update = () => {
    list.refresh();
    const value = state.value !== undefined && state.value < rows.length ? state.value : (rows.find(isSplit) ?? 0);
    if (rows.length === 0) return replace(detail, h('p', null, 'The program has no values.'));
    const cut = cutOfValue(model, value);
    if (drawn !== value) dims = defaultDims(cut);
    drawn = value;
    picture = valuePicture(model, value, cut, dims);
    const pick = which =>
      h(
        'label',
        { class: 'dim' },
        `${which === 0 ? 'rows' : 'columns'} `,
        h('select', { onchange: event => { dims[which] = Number(event.target.value); if (dims[0] === dims[1]) dims[1 - which] = cut.shape.findIndex((_, d) => d !== dims[which]); drawn = value; update(); } }, cut.shape.map((n, d) => h('option', { value: d, selected: dims[which] === d }, `dimension ${d} (${n})`))),
      );
    replace(
      detail,
      h('h3', null, values.name[value]),
      h('p', { class: 'mono' }, `${values.type[value]}  ${placement(value)}`),
      wasPlaced(model, value) ? h('p', null, h('span', { class: 'tag' }, 'changed'), ` It was placed ${wasPlaced(model, value)} in ${model.before.name}.`) : null,
      values.unreduced[value].length ? h('p', null, h('span', { class: 'hatchkey' }), ` Each device has a part of the ${values.reduction[value]} over ${values.unreduced[value].join(', ')}: hatched.`) : null,
      partialNote(model, value),
      h('p', { class: 'actions' }, values.line[value] > 0 ? link(`Go to line ${values.line[value]}`, () => selectLine(model, values.line[value], { view: 'program', value })) : null, cut.shape.length > 2 ? [pick(0), ' ', pick(1)] : null),
      picture,
      h('h3', null, 'The mesh'),
      meshPicture(model, value, cut),
      h('h3', null, 'Why it is placed this way'),
      whyList(model, value),
      shardTable(model, cut),
    );
  };
  return { box, update };
}

/** Says where partial sums of the value are added up. */
function partialNote(model, value) {
  const out = [];
  model.data.why.causes.forEach((list, c) => {
    const kind = model.collectives[c].kind;
    if (list.includes(value) && (kind === 'all-reduce' || kind === 'reduce-scatter') && out.length < 3) {
      out.push(h('p', null, h('span', { class: 'hatchkey' }), ` Computed as partial sums over ${axesText(model.collectives[c])}; `, link(`the ${kind}`, () => selectCollective(model, c, { view: 'communication' })), ' adds them up.'));
    }
  });
  return out;
}

function valuePicture(model, value, cut, dims) {
  const rank = cut.shape.length;
  if (rank === 0) return scalarPicture(model, cut);
  const [rowDim, colDim] = rank === 1 ? [-1, 0] : dims;
  const others = cut.shape.map((_, d) => d).filter(d => d !== rowDim && d !== colDim && cut.shards[d] > 1);
  const blocks = blocksOf(slicesOf(cut));
  const shards = d => (d < 0 ? 1 : cut.shards[d]);
  const multiples = Math.min(others.reduce((n, d) => n * cut.shards[d], 1), 16);
  const most = Math.max(2, Math.floor(Math.sqrt(MOST_BLOCKS / multiples)));
  const small = [];
  const walk = (i, fixed) => {
    if (small.length >= 16) return;
    if (i === others.length) return small.push(fixed);
    for (const shard of shownShards(cut.shards[others[i]], 4)) if (shard >= 0) walk(i + 1, [...fixed, [others[i], shard]]);
  };
  walk(0, []);
  const total = others.reduce((n, d) => n * cut.shards[d], 1);
  const pictures = small.map(fixed => {
    const at = new Array(rank).fill(0);
    for (const [d, shard] of fixed) at[d] = shard;
    return h(
      'figure',
      null,
      fixed.length ? h('figcaption', null, fixed.map(([d, shard]) => `dimension ${d}: ${shardRange(cut.shape[d], cut.shards[d], shard).join(' to ')}`).join(', ')) : null,
      blockGrid(model, value, cut, blocks, at, rowDim, colDim, shownShards(shards(rowDim), most), shownShards(shards(colDim), most), small.length > 1),
    );
  });
  return h('div', { class: 'pictures' }, pictures, small.length < total ? h('p', { class: 'dim' }, `and ${total - small.length} more of this kind`) : null);
}

function scalarPicture(model, cut) {
  const count = deviceCount(cut.mesh);
  return h('p', null, `A scalar: each of the ${plural(count, 'device')} has it.`);
}

function blockGrid(model, value, cut, blocks, at, rowDim, colDim, rowShards, colShards, compact) {
  const [left, top] = [compact ? 46 : 64, 20];
  const extent = (d, shard) => { const [a, b] = shardRange(cut.shape[d], cut.shards[d], shard); return b - a; };
  const full = d => Math.max(1, ceilDiv(cut.shape[d], cut.shards[d]));
  const room = compact ? 200 : 460;
  const sizes = (d, list, space) => {
    if (d < 0) return [compact ? 40 : 54];
    const per = Math.max(compact ? 16 : 22, Math.min(compact ? 60 : 120, space / list.length));
    return list.map(shard => (shard < 0 ? 20 : per));
  };
  const heights = sizes(rowDim, rowShards, compact ? 160 : 320);
  const widths = sizes(colDim, colShards, room);
  const [width, height] = [left + sum(widths) + 8, top + sum(heights) + 8];
  const svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, class: 'blocks', role: 'img', 'aria-label': `blocks of ${model.values.name[value]}; the table below has the same` });
  const hatched = model.values.unreduced[value].length > 0;
  svg.append(hatchDefs());
  let y = top;
  rowShards.forEach((row, r) => {
    let x = left;
    if (rowDim >= 0) svg.append(s('text', { x: left - 6, y: y + heights[r] / 2 + 4, class: 'tick', 'text-anchor': 'end' }, row < 0 ? '⋮' : shardRange(cut.shape[rowDim], cut.shards[rowDim], row)[0].toLocaleString('en')));
    colShards.forEach((col, c) => {
      if (r === 0) svg.append(s('text', { x: x + 2, y: top - 6, class: 'tick' }, col < 0 ? '…' : shardRange(cut.shape[colDim], cut.shards[colDim], col)[0].toLocaleString('en')));
      if (row >= 0 && col >= 0) {
        const index = at.slice();
        if (rowDim >= 0) index[rowDim] = row;
        index[colDim] = col;
        svg.append(blockShape(model, cut, blocks.get(index.join(',')), x, y, widths[c], heights[r], hatched, [rowDim < 0 ? 1 : extent(rowDim, row) / full(rowDim), extent(colDim, col) / full(colDim)]));
      }
      x += widths[c];
    });
    y += heights[r];
  });
  return svg;
}

function sum(list) {
  return list.reduce((a, b) => a + b, 0);
}

const hatchDefs = () =>
  s('defs', null, s('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, s('rect', { width: 2, height: 6, class: 'hatchline' })));

/** One block: drawn as large as it is, inside the dashed outline of a full one. */
function blockShape(model, cut, block, x, y, width, height, hatched, fill) {
  const devices = block ? block.devices : [];
  const label = shorten(devices.join(' '), Math.max(3, Math.floor(width / 7)));
  const ranges = block ? block.ranges.map(([a, b]) => `${a}:${b}`).join(', ') : '';
  const chosen = state.device !== undefined && devices.includes(state.device);
  const [w, hgt] = [Math.max(0, (width - 2) * fill[1]), Math.max(0, (height - 2) * fill[0])];
  return s(
    'g',
    { class: chosen ? 'block chosen' : 'block', onclick: () => devices.length && select({ device: devices[0] }) },
    s('title', null, `[${ranges}] on device${devices.length === 1 ? '' : 's'} ${devices.join(', ')}`),
    s('rect', { x: x + 1, y: y + 1, width: width - 2, height: height - 2, class: 'padding' }),
    w > 0 && hgt > 0 ? s('rect', { x: x + 1, y: y + 1, width: w, height: hgt, style: `fill:${HUES[(devices[0] ?? 0) % HUES.length]}`, class: 'fillblock' }) : null,
    hatched ? s('rect', { x: x + 1, y: y + 1, width: w, height: hgt, fill: 'url(#hatch)' }) : null,
    s('text', { x: x + width / 2, y: y + height / 2 + 4, 'text-anchor': 'middle', class: Math.min(...fill) < 0.65 ? 'device outside' : 'device' }, label),
  );
}

/** The devices as the mesh has them: the first axis down, the others across. Colours are those of the blocks. */
function meshPicture(model, value, cut) {
  const { axes } = cut.mesh;
  const count = deviceCount(cut.mesh);
  if (axes.length === 0) return h('p', null, 'One device.');
  if (count > 1024) return h('p', null, `${plural(count, 'device')}: ${axes.map(a => `${a.name}=${a.size}`).join(', ')}`);
  const rows = axes.length > 1 ? axes[0].size : 1;
  const columns = count / rows;
  const cell = Math.max(24, Math.min(44, 520 / columns));
  const slices = slicesOf(cut);
  const firstOf = new Map();
  for (const slice of slices) if (!firstOf.has(slice.index.join(','))) firstOf.set(slice.index.join(','), slice.device);
  const used = new Set(cut.axes.flat().map(a => a.text));
  const caption = axes.map(a => `${a.name}=${a.size}`).join(' × ');
  const legend = cut.axes.map((list, d) => (list.length ? `dimension ${d} by ${list.map(a => a.text).join(', then ')}` : null)).filter(Boolean).join('; ');
  const svg = s('svg', { width: columns * cell + 60, height: rows * cell + 24, class: 'blocks', role: 'img', 'aria-label': `mesh ${caption}` });
  slices.forEach(slice => {
    const [r, c] = [Math.floor(slice.position / columns), slice.position % columns];
    const color = HUES[firstOf.get(slice.index.join(',')) % HUES.length];
    svg.append(
      s(
        'g',
        { class: slice.device === state.device ? 'block chosen' : 'block', onclick: () => select({ device: slice.device }) },
        s('title', null, `device ${slice.device}: ${axes.map((a, i) => `${a.name}=${slice.coordinates[i]}`).join(', ')}; holds [${slice.ranges.map(([a, b]) => `${a}:${b}`).join(', ')}]`),
        s('rect', { x: 50 + c * cell + 1, y: 20 + r * cell + 1, width: cell - 2, height: cell - 2, rx: 3, style: `fill:${color}`, class: 'fillblock' }),
        s('text', { x: 50 + c * cell + cell / 2, y: 20 + r * cell + cell / 2 + 4, 'text-anchor': 'middle', class: 'device' }, String(slice.device)),
      ),
    );
  });
  if (axes.length > 1) svg.append(s('text', { x: 44, y: 20 + (rows * cell) / 2 + 4, class: 'tick', 'text-anchor': 'end' }, `${shorten(axes[0].name, 5)} ↓`));
  svg.append(s('text', { x: 50, y: 13, class: 'tick' }, `${axes.slice(axes.length > 1 ? 1 : 0).map(a => a.name).join(', ')} →`));
  const order = cut.mesh.device_ids ? h('p', { class: 'dim' }, `device order: ${shorten(cut.mesh.device_ids.join(' '), 200)}`) : null;
  return h('div', null, h('p', { class: 'dim' }, `${caption}. ${legend ? `Split: ${legend}.` : 'Every device has all of it.'}${[...used].some(t => t.includes(':(')) ? ' An axis written as x:(a)b is a part of size b of axis x, the parts before it having a positions.' : ''}`), svg, order);
}

/** The chain behind each axis of a value, as `meshwork why` has it; each step leads to its value. */
function whyList(model, value) {
  const chains = chainsOf(model, value);
  if (chains.length === 0) return h('p', { class: 'dim' }, 'No axis splits it.');
  return h(
    'div',
    { class: 'why' },
    chains.map(chain =>
      h(
        'div',
        null,
        h('p', null, `Dimension ${chain.dim} is split by `, h('b', null, chain.axis)),
        h('ol', null, chain.steps.slice(0, 200).map(step => h('li', { class: step.end ? 'end' : '' }, step.value >= 0 ? link(step.text, () => selectValue(model, step.value)) : step.text))),
        chain.steps.length > 200 ? h('p', { class: 'dim' }, `… and ${chain.steps.length - 200} more steps, to: ${chain.steps.at(-1).text}`) : null,
      ),
    ),
  );
}

function shardTable(model, cut) {
  const rows = deviceCount(cut.mesh) > 65536 ? [] : slicesOf(cut);
  const elements = slice => slice.ranges.reduce((n, [a, b]) => n * Math.max(0, b - a), 1);
  return dataTable({
    label: 'What each device holds',
    height: `${Math.min(320, 60 + rows.length * 26)}px`,
    columns: [
      { name: 'device', width: '80px', align: 'right', cell: r => String(r.device), sort: r => r.device, text: r => r.device },
      { name: 'at', width: 'minmax(90px,1fr)', cell: r => cut.mesh.axes.map((a, i) => `${a.name}=${r.coordinates[i]}`).join(' ') || '–', text: r => r.coordinates.join(',') },
      { name: 'holds', width: 'minmax(120px,2fr)', cell: r => `[${r.ranges.map(([a, b]) => `${a}:${b}`).join(', ')}]`, text: r => r.ranges.map(([a, b]) => `${a}:${b}`).join(', ') },
      { name: 'elements', width: '100px', align: 'right', cell: r => elements(r).toLocaleString('en'), sort: elements, text: elements },
    ],
    rows,
    selected: r => r.device === state.device,
    onselect: r => select({ device: r.device }),
  });
}
