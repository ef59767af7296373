// The program: its text, and beside it the graph or the text of one device.

function programView(model) {
  const lines = textView({
    label: 'the program as it was written',
    lines: model.textLines,
    sent: model.lineSent,
    time: model.lineTime,
    changed: model.changedLines,
    chosen: line => (line === state.line ? 'main' : state.op !== undefined && model.ops.line[state.op] === line ? 'also' : ''),
    onselect: line => selectLine(model, line),
  });
  const device = textView({
    label: 'the program that each device runs',
    lines: model.deviceLines,
    sent: model.deviceSent,
    time: model.deviceTime,
    changed: new Set([...model.changedOps].map(op => model.data.device_line[op])),
    chosen: line => {
      if (state.op !== undefined && model.data.device_line[state.op] === line) return 'main';
      const ops = model.opsOnDeviceLine.get(line);
      return ops && state.line !== undefined && ops.some(op => model.ops.line[op] === state.line) ? 'also' : '';
    },
    onselect: line => {
      const op = (model.opsOnDeviceLine.get(line) || [])[0];
      if (op !== undefined) selectOp(model, op);
    },
  });
  const graph = graphView(model);
  const right = h('div', { class: 'pane' });
  const tab = (side, text) => h('button', { type: 'button', class: 'seg', 'aria-pressed': String((state.side || 'graph') === side), onclick: () => select({ side }) }, text);
  const find = searchBox(model);
  const rightHead = h('div', { class: 'panehead' });
  const box = h(
    'div',
    { class: 'split' },
    h('section', { class: 'pane', 'aria-label': 'program text' }, h('div', { class: 'panehead' }, h('h2', null, 'Program'), find), lines),
    right,
  );
  const update = change => {
    const side = state.side || 'graph';
    if (right.dataset.side !== side) {
      right.dataset.side = side;
      replace(right, rightHead, side === 'graph' ? graph : device);
    }
    replace(rightHead, h('h2', null, 'One device'), h('div', { class: 'segs', role: 'group', 'aria-label': 'shown on the right' }, tab('graph', 'Graph'), tab('device', 'Text')));
    if (state.line !== undefined && 'line' in change) lines.show(state.line - 1);
    else lines.refresh();
    if (side === 'graph') graph.reveal();
    else if (state.op !== undefined && model.data.device_line[state.op] > 0) device.show(model.data.device_line[state.op] - 1);
    else device.refresh();
  };
  return { box, update };
}

/** Operations that match all words: in their name, place, traced name, types or axes; `communicates` is a word of its own. */
function searchOps(model, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const out = [];
  if (words.length === 0) return out;
  if (!model.searchable) {
    const { ops, collectives } = model;
    model.searchable = ops.name.map((name, i) => {
      const c = ops.collective[i];
      const about = c >= 0 ? ` communicates ${collectives[c].kind} ${axesText(collectives[c])}` : '';
      return `${name} ${ops.place[i]} line ${ops.line[i]} ${ops.path[i]} ${ops.types[i].join(' ')}${about}`.toLowerCase();
    });
  }
  for (let i = 0; i < model.count; i++) if (words.every(word => model.searchable[i].includes(word))) out.push(i);
  return out;
}

function searchBox(model) {
  let found = [];
  let at = -1;
  const note = h('span', { class: 'dim', role: 'status' });
  const go = step => {
    if (found.length === 0) return;
    at = (at + step + found.length) % found.length;
    note.textContent = `${at + 1} of ${found.length.toLocaleString('en')}`;
    selectOp(model, found[at]);
  };
  const input = h('input', {
    type: 'search',
    id: 'search',
    placeholder: 'Search: name, line, type, axis, communicates',
    'aria-label': 'search operations',
    oninput: () => {
      found = searchOps(model, input.value);
      at = -1;
      note.textContent = input.value ? `${found.length.toLocaleString('en')} found` : '';
    },
    onkeydown: event => {
      if (event.key === 'Enter') go(event.shiftKey ? -1 : 1);
    },
  });
  return h('div', { class: 'search' }, input, note);
}
