// Measures pages of the explorer in Chromium: sizes, times to open and to react, heap, requests, errors, findings of axe-core.
//
//   npm install --prefix /tmp/explorer puppeteer-core axe-core
//   NODE_PATH=/tmp/explorer/node_modules node bench/explorer/measure.js PAGE.html …
//
// Prints one JSON object a page. The browser is `chromium`, or what MESHWORK_CHROMIUM names.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const puppeteer = require('puppeteer-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const VIEWS = ['overview', 'program', 'value', 'communication', 'memory', 'time', 'roofline', 'compare'];
const browserPath = () => process.env.MESHWORK_CHROMIUM || ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(fs.existsSync);
const round = n => Math.round(n * 10) / 10;

/** Time of `act` in the page until the next frame is there. */
const reaction = (page, act) =>
  page.evaluate(async source => {
    const began = performance.now();
    new Function(source)();
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - began;
  }, act);

async function measure(browser, file) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 800 });
  const requests = [];
  const errors = [];
  page.on('request', r => requests.push(r.url().slice(0, 80)));
  page.on('console', m => m.type() === 'error' && errors.push(m.text()));
  page.on('pageerror', e => errors.push(e.message));
  const began = Date.now();
  await page.goto(`file://${path.resolve(file)}`);
  await page.waitForFunction(() => document.documentElement.dataset.ready, { timeout: 60000 });
  const open = Date.now() - began;
  const own = await page.evaluate(() => ({ ops: explorer.model.count, ready: explorer.ready, decode: explorer.decoded }));
  const select = {};
  for (const view of VIEWS) {
    const first = await reaction(page, `select({ view: '${view}' })`);
    const times = [];
    for (let k = 1; k <= 5; k++) times.push(await reaction(page, `selectOp(explorer.model, Math.floor(explorer.model.count * ${k} / 6))`));
    select[view] = { first: round(first), worst: round(Math.max(...times)) };
  }
  await reaction(page, `select({ view: 'program', side: 'graph' })`);
  // Everything open and as many shapes in sight as there can be.
  const opened = await reaction(page, `[...document.querySelectorAll('.panebar button')].find(b => b.textContent === 'Open all').click()`);
  await reaction(page, `selectOp(explorer.model, Math.floor(explorer.model.count / 2))`);
  const frames = [];
  let shapes = 0;
  for (let k = 0; k < 10; k++) {
    frames.push(await reaction(page, `document.querySelector('.graph').dispatchEvent(new WheelEvent('wheel', { deltaY: ${k % 2 ? 120 : 40}, deltaX: 10 }))`));
    shapes = Math.max(shapes, await page.evaluate(() => document.querySelectorAll('.graph *').length));
  }
  await page.evaluate(() => searchOps(explorer.model, 'warm'));
  const search = await page.evaluate(() => { const t = performance.now(); const n = searchOps(explorer.model, 'dot communicates x').length + searchOps(explorer.model, 'dot_general').length; return [performance.now() - t, n]; });
  await page.evaluate(() => window.gc && gc());
  const heap = (await page.metrics()).JSHeapUsedSize;
  const findings = {};
  await page.evaluate(axe);
  for (const theme of ['light', 'dark']) {
    for (const view of VIEWS) {
      const found = await page.evaluate(async (view, theme) => {
        document.documentElement.dataset.theme = theme;
        select({ view });
        await new Promise(done => setTimeout(done, 60));
        const result = await axe.run(document, { resultTypes: ['violations'] });
        return result.violations.filter(v => v.impact === 'serious' || v.impact === 'critical').map(v => `${v.id}: ${v.nodes.length}, as ${v.nodes[0].html.slice(0, 120)}`);
      }, view, theme);
      if (found.length) findings[`${view} ${theme}`] = found;
    }
  }
  await page.close();
  return { page: path.basename(file), bytes: fs.statSync(file).size, ops: own.ops, open_ms: open, ready_ms: round(own.ready), decode_ms: round(own.decode), select_ms: select, open_all_ms: round(opened), frame_ms: round(Math.max(...frames)), shapes, search_ms: round(search[0]), heap_mb: round(heap / 1e6), requests: requests.length, errors, serious: findings };
}

async function main() {
  const browser = await puppeteer.launch({ executablePath: browserPath(), args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--js-flags=--expose-gc'] });
  for (const file of process.argv.slice(2)) console.log(JSON.stringify(await measure(browser, file)));
  await browser.close();
}

main();
