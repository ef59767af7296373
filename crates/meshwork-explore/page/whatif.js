// What if: the program on other meshes or machines, planned when the page was made.

/** The program as it is, then its variants. */
function variantRows(model) {
  const own = { name: 'as it is', mesh: model.plan.mesh, wire_bytes: model.plan.wire_bytes, seconds: model.plan.seconds, flops: model.plan.flops, peak: model.plan.peak.bytes, end: model.end };
  return [own, ...model.data.variants];
}

function whatIfView(model) {
  const rows = variantRows(model);
  if (rows.length === 1) {
    return {
      box: h('div', { class: 'empty' }, h('h2', null, 'No variants'), h('p', null, 'Write the page with other meshes to compare with, each with the axes that the program names:'), h('pre', null, 'meshwork explore FILE --what-if data=8,model=2 --what-if data=4,model=4')),
      update: () => {},
    };
  }
  const [own] = rows;
  const most = mostOf(rows.map(r => r.end), 1e-30);
  const against = r => (own.end > 0 ? r.end / own.end : 1);
  const ratio = r => (r === own ? '–' : `${against(r) < 0.995 ? `${(1 / against(r)).toFixed(2)} × as fast` : against(r) > 1.005 ? `${against(r).toFixed(2)} × as long` : 'the same'}`);
  const axes = r => r.mesh.axes.map(a => `${a.name}=${a.size}`).join(',') || 'one device';
  const title = r => (r.name === axes(r) ? r.name : `${r.name}: ${axes(r)}`);
  const over = r => Boolean(model.data.budget && r.peak > model.data.budget);
  const table = dataTable({
    label: 'Variants',
    columns: [
      { name: 'variant', width: 'minmax(180px,1.2fr)', cell: r => h('span', null, title(r), over(r) ? h('span', { class: 'tag' }, 'over the budget') : null), text: title, hint: title },
      { name: 'devices', width: '76px', align: 'right', cell: r => String(deviceCount(r.mesh)), sort: r => deviceCount(r.mesh), text: r => deviceCount(r.mesh) },
      { name: 'run', title: 'Simulated time of a run', width: '110px', cell: r => h('span', { class: 'bar' }, h('span', { style: `width:${(100 * r.end) / most}%` }), h('em', null, humanSeconds(r.end))), sort: r => r.end, text: r => r.end },
      { name: 'against now', width: '120px', align: 'right', cell: ratio, sort: against, text: against },
      { name: 'communication', title: 'Simulated time of all collectives', width: '110px', align: 'right', cell: r => humanSeconds(r.seconds), sort: r => r.seconds, text: r => r.seconds },
      { name: 'sent', title: 'Bytes that a device sends in a run', width: '90px', align: 'right', cell: r => humanBytes(r.wire_bytes), sort: r => r.wire_bytes, text: r => r.wire_bytes },
      { name: 'arithmetic', title: 'Of a device', width: '100px', align: 'right', cell: r => humanFlops(r.flops), sort: r => r.flops, text: r => r.flops },
      { name: 'memory', title: 'Of a device, at the peak', width: '90px', align: 'right', cell: r => humanBytes(r.peak), sort: r => r.peak, text: r => r.peak },
    ],
    rows,
  });
  const box = h('section', { class: 'pane', 'aria-label': 'what if' }, h('div', { class: 'panehead' }, h('h2', null, 'What if'), h('span', { class: 'dim' }, `the program with its annotations on other meshes; times are simulated${model.data.budget ? `, the budget is ${humanBytes(model.data.budget)}` : ''}`)), table);
  return { box, update: () => table.refresh() };
}
