// A walk through the page by keyboard alone: every action that the mouse has.
'use strict';

const VIEWS = ['overview', 'program', 'value', 'communication', 'memory', 'time', 'roofline', 'compare', 'whatif'];

/** Presses keys as a person would; returns what did not work. */
async function walk(page) {
  const bad = [];
  const state = () => page.evaluate(() => ({ ...globalThis.explorer.state(), focus: document.activeElement && (document.activeElement.id || document.activeElement.className || document.activeElement.tagName), title: document.activeElement && document.activeElement.getAttribute('aria-label') }));
  const expect = async (what, test) => {
    const now = await state();
    if (!test(now)) bad.push(`${what}: ${JSON.stringify(now)}`);
  };
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
    await page.evaluate(() => new Promise(done => requestAnimationFrame(() => setTimeout(done))));
  };
  /** Tab until the focus is where `test`, a function of the element in the page, wants it. */
  const tabTo = async (what, test) => {
    for (let k = 0; k < 150; k++) {
      if (await page.evaluate(test)) return true;
      await page.keyboard.press('Tab');
    }
    bad.push(`Tab does not reach ${what}`);
    return false;
  };
  // The start of the document.
  const fresh = async view => {
    await page.evaluate(view => { globalThis.select({ view, op: undefined, collective: undefined, value: undefined, line: undefined, device: undefined }); document.activeElement.blur(); }, view);
  };

  // Views by their numbers and by arrows in the tabs.
  await fresh('overview');
  for (let k = 1; k <= VIEWS.length; k++) {
    await press(String(k));
    await expect(`key ${k}`, s => s.view === VIEWS[k - 1]);
  }
  await press('1');
  await tabTo('the tabs', () => document.activeElement.getAttribute('role') === 'tab');
  await press('ArrowRight');
  await expect('arrow right in the tabs', s => s.view === 'program');
  await press('ArrowLeft');
  await expect('arrow left in the tabs', s => s.view === 'overview');

  // Overview: a collective and an annotation are buttons.
  await fresh('overview');
  await tabTo('the most expensive collective', () => document.activeElement.matches('button.item'));
  await press('Enter');
  await expect('Enter on the most expensive collective', s => s.view === 'communication' && s.collective !== undefined);
  await tabTo('the line of a cause', () => document.activeElement.matches('.inspector .cause button.link'));
  await press('Enter');
  await expect('Enter on the line of a cause', s => s.view === 'program' && s.line > 0);

  // Search, next and previous match.
  await fresh('overview');
  await press('/');
  await expect('/', s => s.view === 'program' && s.focus === 'search');
  await page.keyboard.type('communicates');
  await press('Enter');
  const first = await state();
  await press('Enter');
  await expect('next match', s => s.op !== undefined && s.op !== first.op);
  await page.keyboard.down('Shift');
  await press('Enter');
  await page.keyboard.up('Shift');
  await expect('previous match', s => s.op === first.op);

  // Text, graph, per-device text.
  await fresh('program');
  await tabTo('the text', () => document.activeElement.matches('.text'));
  await press('ArrowDown', 'ArrowDown', 'ArrowDown');
  await expect('arrows in the text', s => s.line > 1);
  await press('End');
  await expect('End in the text', s => s.line > 4);
  await press('Home');
  await tabTo('the zoom of the graph', () => document.activeElement.textContent === 'Open all');
  await press('Enter');
  await tabTo('the graph', () => document.activeElement.matches('.graph'));
  await press('ArrowDown');
  await expect('arrows in the graph', s => s.op !== undefined);
  const before = await page.evaluate(() => document.querySelector('.graph g').getAttribute('transform'));
  await press('+');
  if ((await page.evaluate(() => document.querySelector('.graph g').getAttribute('transform'))) === before) bad.push('+ does not zoom the graph');
  await press('-', '0');
  await page.evaluate(() => document.activeElement.blur());
  await tabTo('the text of a device', () => document.activeElement.matches('.seg') && document.activeElement.textContent === 'Text');
  await press('Enter');
  await expect('the text of a device', s => s.side === 'device');
  await page.evaluate(() => globalThis.select({ side: 'graph' }));

  // Values: rows of the table, the blocks by device.
  await fresh('value');
  await tabTo('the list of values', () => document.activeElement.getAttribute('aria-label') === 'rows of All values');
  await press('ArrowDown', 'ArrowDown');
  await expect('arrows in the list of values', s => s.value !== undefined);
  await tabTo('what each device holds', () => document.activeElement.getAttribute('aria-label') === 'rows of What each device holds');
  await press('ArrowDown');
  await expect('arrows over devices', s => s.device !== undefined);

  // Communication: rows, sorting, grouping, the why chain.
  await fresh('communication');
  await tabTo('the list of collectives', () => document.activeElement.getAttribute('aria-label') === 'rows of Collectives');
  await press('ArrowDown');
  await expect('arrows in the list of collectives', s => s.collective !== undefined);
  await tabTo('a why chain', () => document.activeElement.matches('.inspector summary'));
  await press('Enter');
  if (!(await page.evaluate(() => document.activeElement.closest('details').open))) bad.push('Enter does not open the why chain');
  await page.evaluate(() => document.activeElement.blur());
  await tabTo('the grouping', () => document.activeElement.matches('select'));
  await press('ArrowDown');
  await tabTo('a column', () => document.activeElement.closest('[role=columnheader]'));
  await press('Enter');
  await tabTo('Copy as TSV', () => document.activeElement.textContent === 'Copy as TSV');

  // Charts.
  await fresh('memory');
  await tabTo('the picture of the memory', () => document.activeElement.matches('svg.chart'));
  await press('ArrowRight', 'ArrowRight');
  await expect('arrows in the memory', s => s.op !== undefined);
  await fresh('time');
  await tabTo('the lanes', () => document.activeElement.matches('svg.lanes'));
  await press('+', 'ArrowRight', '-', '0');
  await tabTo('a table of times', () => document.activeElement.getAttribute('aria-label') === 'rows of Operations that take time');
  await press('ArrowDown');
  await expect('arrows in the table of times', s => s.op !== undefined);
  await fresh('roofline');
  await tabTo('the table of the roofline', () => document.activeElement.getAttribute('aria-label') === 'rows of Operations by time');
  await press('ArrowDown');
  await expect('arrows in the table of the roofline', s => s.op !== undefined);
  await fresh('compare');
  if (await page.evaluate(() => Boolean(globalThis.explorer.model.data.against))) await tabTo('the list of changes', () => document.activeElement.getAttribute('aria-label') === 'rows of What changed');

  // Keys and light or dark.
  await fresh('overview');
  await press('?');
  if (!(await page.evaluate(() => document.querySelector('dialog').open))) bad.push('? does not list the keys');
  await press('Escape');
  if (await page.evaluate(() => document.querySelector('dialog').open)) bad.push('Escape does not close the list of keys');
  const theme = await page.evaluate(() => document.documentElement.dataset.theme);
  await press('t');
  if ((await page.evaluate(() => document.documentElement.dataset.theme)) === theme) bad.push('t does not change between light and dark');

  // Whatever a mouse can click is reached by keys: it is a button, a row, or in a picture that takes arrows.
  for (const view of VIEWS) {
    await fresh(view);
    const lost = await page.evaluate(() => {
      const clickable = [...document.querySelectorAll('[onclick], button, select, input')].filter(e => e.tabIndex < 0 && e.getAttribute('role') !== 'tab' && !e.classList.contains('hidden'));
      return clickable.map(e => e.outerHTML.slice(0, 80));
    });
    if (lost.length) bad.push(`${view}: not reached by Tab: ${lost[0]}`);
  }
  return bad;
}

module.exports = { walk };
