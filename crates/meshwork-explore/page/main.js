// The page: a head with the totals, tabs for the views, the view, and what is selected.

const TITLES = { overview: 'Overview', program: 'Program', value: 'Values', communication: 'Communication', memory: 'Memory', time: 'Time', roofline: 'Roofline', compare: 'Compare', whatif: 'What if' };
const MAKERS = { overview: overviewView, program: programView, value: valueView, communication: communicationView, memory: memoryView, time: timeView, roofline: rooflineView, compare: compareView, whatif: whatIfView };

function totals(model) {
  const { plan } = model;
  const runs = plan.collectives.reduce((n, c) => n + c.times, 0);
  const axes = plan.mesh.axes.map(a => `${a.name}=${a.size}`).join(' × ');
  const item = (value, name, was) => h('div', { class: 'total' }, h('b', null, value), h('span', null, name), was ? h('span', { class: 'was' }, was) : null);
  const mesh = m => m.axes.map(a => `${a.name}=${a.size}`).join(' × ');
  const wasMesh = model.before && model.before.mesh && mesh(model.before.mesh) !== axes ? `was ${mesh(model.before.mesh) || 'one device'}` : '';
  return h(
    'div',
    { class: 'totals' },
    item(String(deviceCount(plan.mesh)), `device${deviceCount(plan.mesh) === 1 ? '' : 's'}${axes ? ` (${axes})` : ''}`, wasMesh),
    item(humanBytes(plan.wire_bytes), `sent in ${plural(runs, 'collective')}`, wasText(model, 'wire_bytes', humanBytes)),
    item(humanSeconds(plan.seconds), 'of communication, simulated', wasText(model, 'seconds', humanSeconds)),
    item(humanFlops(plan.flops), 'per device', wasText(model, 'flops', humanFlops)),
    item(humanBytes(plan.peak.bytes), 'of memory at the peak', wasText(model, 'peak', humanBytes)),
  );
}

const KEYS = [
  ['/', 'search operations'],
  ['1 – 9', 'the views'],
  ['arrows', 'move in text, tables, graph and charts'],
  ['Enter', 'open a box of the graph, next match of a search'],
  ['+ −', 'zoom the graph or the lanes of time'],
  ['0', 'fit the graph, show all of the time'],
  ['t', 'light or dark'],
  ['?', 'this list'],
];

function build(model) {
  const views = {};
  const stage = h('main', { id: 'stage', tabindex: -1 });
  const tabs = h('div', { role: 'tablist', 'aria-label': 'views', class: 'tabs' });
  const side = inspector(model);
  const help = h('dialog', { 'aria-label': 'keys' }, h('h2', null, 'Keys'), h('dl', { class: 'keys' }, KEYS.map(([key, what]) => [h('dt', null, h('kbd', null, key)), h('dd', null, what)])), h('form', { method: 'dialog' }, h('button', null, 'Close')));
  const theme = () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    document.documentElement.dataset.theme = dark ? 'light' : 'dark';
  };
  const tab = (name, i) =>
    h('button', { type: 'button', role: 'tab', id: `tab-${name}`, 'aria-selected': String(state.view === name), 'aria-controls': 'stage', tabindex: state.view === name ? 0 : -1, title: `${TITLES[name]} (${i + 1})`, onclick: () => select({ view: name }) }, TITLES[name]);
  tabs.addEventListener('keydown', event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (VIEWS.indexOf(state.view) + step + VIEWS.length) % VIEWS.length;
    select({ view: VIEWS[next] });
    document.getElementById(`tab-${VIEWS[next]}`).focus();
  });
  const show = change => {
    const name = state.view;
    const fresh = !views[name];
    views[name] ||= MAKERS[name](model);
    if (stage.dataset.view !== name) {
      stage.dataset.view = name;
      stage.setAttribute('aria-labelledby', `tab-${name}`);
      const focused = document.activeElement && document.activeElement.getAttribute('role') === 'tab';
      replace(stage, views[name].box);
      replace(tabs, VIEWS.map(tab));
      if (focused) document.getElementById(`tab-${name}`).focus();
    }
    document.body.classList.toggle('wide', name === 'overview' || name === 'whatif');
    views[name].update(fresh ? { ...state } : change);
    side.update();
    if (change.op !== undefined && change.op < model.count) announce(`selected ${opTitle(model, change.op)}`);
  };
  listeners.push(show);
  stage.setAttribute('role', 'tabpanel');
  document.addEventListener('keydown', event => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/') {
      event.preventDefault();
      select({ view: 'program' });
      document.getElementById('search').focus();
    } else if (event.key === '?') help.showModal();
    else if (event.key === 't') theme();
    else if (/^[1-9]$/.test(event.key)) select({ view: VIEWS[Number(event.key) - 1] });
  });
  replace(
    document.getElementById('app'),
    h('header', null, h('div', { class: 'brand' }, h('h1', { title: model.data.title }, shorten(model.data.title, 60)), h('span', { class: 'dim' }, model.data.generator)), totals(model), h('div', { class: 'tools' }, quietButton('◐', 'Light or dark', theme), quietButton('?', 'Keys', () => help.showModal()))),
    h('nav', { 'aria-label': 'views' }, tabs),
    h('div', { class: 'body' }, stage, side.box),
    help,
    h('div', { id: 'live', class: 'hidden', 'aria-live': 'polite' }),
  );
  addEventListener('popstate', () => followHash(model));
  followHash(model);
}

async function start() {
  const began = performance.now();
  try {
    const data = await decode(document.getElementById('data').textContent);
    const decoded = performance.now();
    const model = makeModel(data);
    if (location.hash === '#selftest') return selftest(model);
    build(model);
    window.explorer = { model, state: () => state, decoded: decoded - began, ready: performance.now() };
    document.documentElement.dataset.ready = Math.round(performance.now());
  } catch (error) {
    replace(document.getElementById('app'), h('p', { class: 'empty', role: 'alert' }, `This page cannot be shown: ${error.message}`));
    throw error;
  }
}

start();
