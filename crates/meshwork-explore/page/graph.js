// The per-device program as a graph: loops, branches and layers that repeat are closed boxes until they are opened.

const MOST_SHAPES = 3000;

/** The boxes and operations that are in sight when the nodes in `open` of the outline are open. */
function graphNodes(model, open) {
  const { outline } = model.data;
  const count = outline.kind.length;
  const children = Array.from({ length: count }, () => []);
  for (let i = 1; i < count; i++) children[outline.parent[i]].push(i);
  const nodes = [];
  const owner = new Int32Array(model.count).fill(-1);
  const add = node => {
    for (let i = node.first; i <= node.last; i++) owner[i] = nodes.length;
    nodes.push(node);
  };
  const walk = (at, first, last, depth) => {
    let next = first;
    const upTo = end => {
      for (; next < end; next++) {
        if (model.ops.name[next] !== 'constant' || model.count < 40) add({ op: next, first: next, last: next, depth });
      }
    };
    for (const child of children[at]) {
      upTo(outline.first[child]);
      const [from, to] = [outline.first[child], outline.last[child]];
      if (!open.has(child)) add({ box: child, first: from, last: to, depth });
      else if (outline.kind[child] === 'repeat') {
        // One layer stands for all; the others stay closed behind it.
        const [head, ...rest] = children[child];
        walk(head, outline.first[head], outline.last[head], depth + 1);
        if (rest.length) add({ box: child, rest: true, first: outline.first[rest[0]], last: to, depth });
      } else walk(child, from, to, depth + 1);
      next = to + 1;
    }
    upTo(last + 1);
  };
  walk(0, 0, model.count - 1, 0);
  const edges = nodes.map((node, i) => {
    const from = new Set();
    for (let op = node.first; op <= node.last; op++) {
      for (const operand of model.ops.operands[op]) {
        const source = operand >= 0 ? owner[operand] : -1;
        if (source >= 0 && source < i) from.add(source);
      }
    }
    return [...from];
  });
  return { nodes, edges, owner };
}

function boxLabel(model, node) {
  const { outline } = model.data;
  const { box } = node;
  const times = outline.times[box];
  if (node.rest) return [`${outline.label[box]}`, `the other ${times - 1}`];
  const size = node.last - node.first + 1;
  const name = { repeat: 'layer', loop: 'loop', branch: 'branch' }[outline.kind[box]];
  const label = outline.label[box];
  const each = outline.kind[box] === 'repeat' ? size / times : size;
  return [`${outline.kind[box] === 'repeat' ? label : `${name}: ${label}`}`, `${times > 1 ? `× ${times}, ` : ''}${plural(each, 'op')}${times > 1 && outline.kind[box] === 'repeat' ? ' each' : ''}`];
}

function graphView(model) {
  const open = new Set();
  let scene = null;
  let view = { x: -20, y: -16, scale: 1 };
  const svg = s('svg', { class: 'graph', tabindex: 0, role: 'application', 'aria-label': 'graph of the per-device program; arrows move between operations, Enter opens a box, plus and minus zoom' });
  const note = h('div', { class: 'dim graphnote' });
  const arrange = () => {
    scene = graphNodes(model, open);
    Object.assign(scene, layoutLayers(scene.nodes, scene.edges));
  };
  const draw = () => {
    const [width, height] = [svg.clientWidth || 400, svg.clientHeight || 300];
    const { x, y, scale } = view;
    const inSight = n => n.x < x + width / scale && n.x + NODE_WIDTH > x && n.y < y + height / scale && n.y + NODE_HEIGHT > y;
    // From afar a box is one shape, else five at most.
    const far = scale < 0.45;
    const most = far ? MOST_SHAPES - 1100 : 400;
    const shown = [];
    scene.nodes.forEach((n, i) => inSight(n) && shown.length < most && shown.push(i));
    const lines = [];
    for (const i of shown) {
      for (const from of scene.edges[i]) {
        if (lines.length >= 900) break;
        lines.push(edge(scene.nodes[from], scene.nodes[i], (isChosenNode(from) && !scene.nodes[from].box) || (isChosenNode(i) && scene.edges[i].length < 12)));
      }
    }
    replace(svg, s('g', { transform: `scale(${scale}) translate(${-x} ${-y})` }, lines, shown.map(i => (far ? farShape(i) : nodeShape(i)))));
    note.textContent = `${plural(scene.nodes.length, 'box')}${scene.nodes.length > 1 ? 'es' : ''}`.replace('boxs', 'box') + ` for ${plural(model.count, 'operation')}`;
  };
  const isChosenNode = i => state.op !== undefined && scene.owner[state.op] === i;
  const edge = (a, b, strong) => {
    const [x1, y1, x2, y2] = [a.x + NODE_WIDTH / 2, a.y + NODE_HEIGHT, b.x + NODE_WIDTH / 2, b.y];
    const mid = (y1 + y2) / 2;
    return s('path', { class: strong ? 'edge strong' : 'edge', d: `M${x1} ${y1}C${x1} ${mid} ${x2} ${mid} ${x2} ${y2}` });
  };
  const farShape = i => {
    const n = scene.nodes[i];
    const c = n.op === undefined ? -1 : model.ops.collective[n.op];
    const fill = c >= 0 ? `fill:${KINDS[model.collectives[c].kind].color}` : null;
    return s('rect', { class: `far${n.box === undefined ? '' : ' box'}${isChosenNode(i) ? ' chosen' : ''}`, x: n.x, y: n.y, width: NODE_WIDTH, height: NODE_HEIGHT, rx: 5, style: fill, onclick: () => choose(i) });
  };
  const nodeShape = i => {
    const n = scene.nodes[i];
    const chosen = isChosenNode(i);
    let [title, below, kind] = ['', '', null];
    if (n.box !== undefined) [title, below] = boxLabel(model, n);
    else {
      title = model.ops.name[n.op];
      below = (model.ops.types[n.op] || []).join(' ');
      const c = model.ops.collective[n.op];
      kind = c >= 0 ? KINDS[model.collectives[c].kind] : null;
      if (c >= 0) title = `${title} ${axesText(model.collectives[c])}`;
    }
    const classes = ['node', n.box !== undefined ? 'box' : '', kind ? 'collective' : '', n.op !== undefined && model.changedOps.has(n.op) ? 'changed' : '', chosen ? 'chosen' : ''].join(' ');
    return s(
      'g',
      { class: classes, transform: `translate(${n.x} ${n.y})`, onclick: () => choose(i), ondblclick: () => toggle(i) },
      s('title', null, n.box !== undefined ? `${title}, ${below}: open with Enter` : `${opTitle(model, n.op)} ${below}${model.changedOps.has(n.op) ? ' (changed)' : ''}`),
      n.box !== undefined && !n.rest ? s('rect', { class: 'shadow', x: 4, y: 4, width: NODE_WIDTH, height: NODE_HEIGHT, rx: 5 }) : null,
      s('rect', { class: 'body', width: NODE_WIDTH, height: NODE_HEIGHT, rx: 5 }),
      kind ? s('rect', { width: 5, height: NODE_HEIGHT, rx: 2, style: `fill:${kind.color}` }) : null,
      s('text', { x: 11, y: 14, class: 'name' }, shorten((kind ? `${kind.letter} ` : '') + title, 23)),
      s('text', { x: 11, y: 27, class: 'type' }, shorten(below, 24)),
    );
  };
  const toggle = i => {
    const n = scene.nodes[i];
    if (n.box === undefined) return;
    if (open.has(n.box)) open.delete(n.box);
    else open.add(n.box);
    arrange();
    draw();
  };
  const choose = i => {
    const n = scene.nodes[i];
    svg.focus({ preventScroll: true });
    if (n.box !== undefined) {
      if (scene.owner[state.op] === i) toggle(i);
      else selectOp(model, heaviest(model, n.first, n.last));
    } else selectOp(model, n.op);
  };
  const reveal = () => {
    if (state.op === undefined) return draw();
    const i = scene.owner[state.op];
    if (i < 0) return draw();
    const n = scene.nodes[i];
    const [width, height] = [svg.clientWidth / view.scale, svg.clientHeight / view.scale];
    if (n.x < view.x || n.x + NODE_WIDTH > view.x + width || n.y < view.y || n.y + NODE_HEIGHT > view.y + height) {
      view = { ...view, x: n.x - width / 2 + NODE_WIDTH / 2, y: n.y - height / 2 };
    }
    draw();
  };
  const zoom = factor => {
    const [cx, cy] = [view.x + svg.clientWidth / 2 / view.scale, view.y + svg.clientHeight / 2 / view.scale];
    const scale = Math.min(2, Math.max(0.05, view.scale * factor));
    view = { scale, x: cx - svg.clientWidth / 2 / scale, y: cy - svg.clientHeight / 2 / scale };
    draw();
  };
  const fit = (least = 0.15) => {
    const scale = Math.min(1, Math.max(least, Math.min(svg.clientWidth / (scene.width + 40), svg.clientHeight / (scene.height + 40))));
    // What is too wide to fit starts at its first box.
    const center = scene.width * scale > svg.clientWidth && scene.nodes.length ? scene.nodes[0].x + NODE_WIDTH / 2 : scene.width / 2;
    view = { scale, x: center - svg.clientWidth / 2 / scale, y: -16 };
    draw();
  };
  svg.addEventListener('wheel', event => {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) return zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    view = { ...view, x: view.x + event.deltaX / view.scale, y: view.y + event.deltaY / view.scale };
    draw();
  }, { passive: false });
  let drag = null;
  svg.addEventListener('pointerdown', event => (drag = { x: event.clientX, y: event.clientY, view }));
  svg.addEventListener('pointermove', event => {
    if (!drag || event.buttons === 0) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (Math.abs(dx) + Math.abs(dy) < 4) return;
    view = { ...drag.view, x: drag.view.x - dx / view.scale, y: drag.view.y - dy / view.scale };
    draw();
  });
  svg.addEventListener('pointerup', () => (drag = null));
  svg.addEventListener('keydown', event => {
    const at = state.op === undefined ? -1 : scene.owner[state.op];
    const move = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move) choose(Math.min(scene.nodes.length - 1, Math.max(0, at + move)));
    else if (event.key === 'Enter' && at >= 0) toggle(at);
    else if (event.key === '+' || event.key === '=') zoom(1.25);
    else if (event.key === '-') zoom(1 / 1.25);
    else if (event.key === '0') fit();
    else return;
    event.preventDefault();
  });
  const button = quietButton;
  const all = what => {
    const { outline } = model.data;
    open.clear();
    if (what) for (let i = 1; i < outline.kind.length; i++) open.add(i);
    arrange();
    fit();
    reveal();
  };
  const bar = h('div', { class: 'panebar' }, button('−', 'Zoom out', () => zoom(1 / 1.25)), button('+', 'Zoom in', () => zoom(1.25)), button('Fit', 'Fit the graph', () => fit()), button('Open all', 'Open every loop and layer', () => all(true)), button('Close all', 'Close every loop and layer', () => all(false)), note);
  openSome(model, open);
  arrange();
  const box = h('div', { class: 'graphbox' }, bar, svg);
  box.reveal = reveal;
  box.fit = fit;
  let first = true;
  sized(svg, () => {
    if (first) {
      first = false;
      fit(0.8);
    }
    reveal();
  });
  return box;
}

/** Opens boxes from the outside in, as long as few enough are in sight for a first look. */
function openSome(model, open) {
  const { outline } = model.data;
  for (let depth = 0; depth < 3; depth++) {
    const boxes = graphNodes(model, open).nodes.filter(n => n.box !== undefined && !n.rest && !open.has(n.box));
    const size = n => (outline.kind[n.box] === 'repeat' ? (n.last - n.first + 1) / outline.times[n.box] : n.last - n.first + 1);
    const now = graphNodes(model, open).nodes.length;
    const fitting = boxes.filter(n => now + size(n) <= 60);
    if (fitting.length === 0) return;
    open.add(fitting[0].box);
  }
}

/** The operation of a range that sends most, or else takes longest. */
function heaviest(model, first, last) {
  let best = first;
  for (let i = first; i <= last; i++) {
    if (model.sent[i] > model.sent[best] || (model.sent[i] === model.sent[best] && model.time[i] > model.time[best])) best = i;
  }
  return best;
}
