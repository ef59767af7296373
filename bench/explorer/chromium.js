// Opens a page in Chromium and measures it: times to open and to react, heap, requests, errors, policy, accessibility.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const puppeteer = require('puppeteer-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const VIEWS = ['overview', 'program', 'value', 'communication', 'memory', 'time', 'roofline', 'compare', 'whatif'];
const browserPath = () => process.env.MESHWORK_CHROMIUM || ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(fs.existsSync);

const launch = () => puppeteer.launch({ executablePath: browserPath(), args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--js-flags=--expose-gc'] });

/** Time of `act` in the page until the next frame is there. */
const reaction = (page, act) =>
  page.evaluate(async source => {
    const began = performance.now();
    new Function(source)();
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - began;
  }, act);

/** An open page, with what it asked for and what went wrong; `ms` is the time until it is usable. */
async function open(browser, file, { width = 1280, height = 800, zoom = 1 } = {}) {
  const page = await browser.newPage();
  // The size of text that the reader has chosen in the browser.
  if (zoom !== 1) await (await page.createCDPSession()).send('Page.setFontSizes', { fontSizes: { standard: 16 * zoom, fixed: 13 * zoom } });
  await page.setViewport({ width, height });
  const [requests, errors] = [[], []];
  page.on('request', r => requests.push(r.url().slice(0, 80)));
  page.on('console', m => m.type() === 'error' && errors.push(m.text()));
  page.on('pageerror', e => errors.push(e.message));
  const began = Date.now();
  await page.goto(`file://${path.resolve(file)}`);
  await page.waitForFunction(() => document.documentElement.dataset.ready, { timeout: 60000, polling: 20 });
  return { page, requests, errors, ms: Date.now() - began };
}

/** Times of one page. Everything that is timed is done twice, and the faster one counts: the machine may be busy. */
async function times(browser, file) {
  const { page, requests, errors, ms } = await open(browser, file);
  const ops = await page.evaluate(() => explorer.model.count);
  const select = {};
  const twice = async act => Math.min(await reaction(page, act), await reaction(page, act));
  for (const view of VIEWS) {
    await reaction(page, `select({ view: '${view}' })`);
    const all = [];
    for (let k = 1; k <= 5; k++) {
      const at = `Math.floor(explorer.model.count * ${k} / 6)`;
      all.push(Math.min(await reaction(page, `selectOp(explorer.model, ${at})`), await reaction(page, `selectOp(explorer.model, ${at} + 1)`)));
    }
    select[view] = Math.max(...all);
  }
  await reaction(page, `select({ view: 'program', side: 'graph' })`);
  // Everything open and as many shapes in sight as there can be.
  await reaction(page, `[...document.querySelectorAll('.panebar button')].find(b => b.textContent === 'Open all').click()`);
  await reaction(page, `selectOp(explorer.model, Math.floor(explorer.model.count / 2))`);
  const frames = [];
  let shapes = 0;
  const wheel = (x, y, more = '') => `document.querySelector('.graph').dispatchEvent(new WheelEvent('wheel', { deltaX: ${x}, deltaY: ${y}${more} }))`;
  for (let k = 0; k < 30; k++) await reaction(page, wheel(0, 10, ', ctrlKey: true'));
  for (let k = 0; k < 10; k++) {
    frames.push(await twice(wheel(10, k % 2 ? 120 : 40)));
    shapes = Math.max(shapes, await page.evaluate(() => document.querySelectorAll('.graph *').length));
  }
  // The first search also makes the index.
  const search = await page.evaluate(() => { const t = performance.now(); searchOps(explorer.model, 'dot communicates x'); return performance.now() - t; });
  await page.evaluate(() => window.gc && gc());
  const heap = (await page.metrics()).JSHeapUsedSize;
  await page.close();
  return { ops, open: ms, select, frame: Math.max(...frames), shapes, search, heap, requests, errors };
}

/** What the content security policy lets through, of what a page might try. */
async function leaks(browser, file) {
  const { page } = await open(browser, file);
  const found = await page.evaluate(async () => {
    const blocked = new Set();
    document.addEventListener('securitypolicyviolation', event => blocked.add(event.effectiveDirective));
    const add = (tag, attributes) => document.body.append(Object.assign(document.createElement(tag), attributes));
    const attempts = {
      'connect-src': () => fetch('https://example.com/').catch(() => {}),
      'img-src': () => add('img', { src: 'https://example.com/a.png' }),
      'script-src-elem': () => add('script', { src: 'https://example.com/a.js' }),
      'style-src-elem': () => add('link', { rel: 'stylesheet', href: 'https://example.com/a.css' }),
      'frame-src': () => add('iframe', { src: 'https://example.com/' }),
    };
    for (const act of Object.values(attempts)) await act();
    await new Promise(done => setTimeout(done, 300));
    return Object.keys(attempts).filter(name => !blocked.has(name));
  });
  await page.close();
  return found;
}

/** Serious findings of axe-core, among them too little contrast, in all views, light and dark. */
async function findings(browser, file) {
  const { page } = await open(browser, file);
  await page.evaluate(axe);
  const out = [];
  for (const theme of ['light', 'dark']) {
    for (const view of VIEWS) {
      const found = await page.evaluate(
        async (view, theme) => {
          document.documentElement.dataset.theme = theme;
          selectOp(explorer.model, Math.max(0, explorer.model.opOfCollective[0] ?? 0), { view });
          await new Promise(done => setTimeout(done, 60));
          const result = await axe.run(document, { resultTypes: ['violations'] });
          return result.violations.filter(v => v.impact === 'serious' || v.impact === 'critical').map(v => `${view} ${theme}: ${v.id} × ${v.nodes.length}, as ${v.nodes[0].html.slice(0, 100)}`);
        },
        view,
        theme,
      );
      out.push(...found);
    }
  }
  await page.close();
  return out;
}

/** Text that its box cuts off, or a page that scrolls sideways. */
const overflow = page =>
  page.evaluate(() => {
    const out = [];
    if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1) out.push(`the page is ${document.documentElement.scrollWidth} px wide`);
    for (const e of document.querySelectorAll('.tabs button, .total b, .panehead h2, .quiet, .card h2')) {
      const box = e.getBoundingClientRect();
      if (box.width > 0 && (box.right > innerWidth + 1 || e.scrollWidth > e.clientWidth + 2)) out.push(`${e.textContent.slice(0, 30)} is cut off`);
    }
    // Rows of text and tables do not cover each other.
    for (const row of document.querySelectorAll('.vspace > *')) {
      const tallest = Math.max(...[...row.children].map(e => e.getBoundingClientRect().height));
      if (row.clientHeight > 0 && tallest > row.clientHeight + 2) {
        out.push(`rows of ${row.clientHeight} px have text of ${Math.round(tallest)} px`);
        break;
      }
    }
    const stage = document.getElementById('stage').getBoundingClientRect();
    if (stage.height < 200) out.push(`the view is ${Math.round(stage.height)} px high`);
    return out;
  });

/** How the page looks where there is little room, on paper, and without motion. */
async function layouts(browser, file) {
  const out = [];
  for (const [name, width, height, zoom] of [['1024 px wide', 1024, 768, 1], ['text at 200 %', 1280, 900, 2]]) {
    const { page } = await open(browser, file, { width, height, zoom });
    for (const view of VIEWS) {
      await reaction(page, `selectOp(explorer.model, 0, { view: '${view}' })`);
      for (const bad of await overflow(page)) out.push(`${name}, ${view}: ${bad}`);
    }
    await page.close();
  }
  const { page } = await open(browser, file);
  await page.emulateMediaType('print');
  const paper = await page.evaluate(() => {
    const shown = selector => [...document.querySelectorAll(selector)].some(e => getComputedStyle(e).display !== 'none');
    return { nav: shown('nav'), buttons: shown('.quiet'), stage: shown('#stage'), clipped: getComputedStyle(document.querySelector('#app')).height !== 'auto' && document.querySelector('.overview').scrollHeight > document.querySelector('.overview').clientHeight + 2 };
  });
  if (paper.nav || paper.buttons || !paper.stage || paper.clipped) out.push(`on paper: ${JSON.stringify(paper)}`);
  const pdf = await page.pdf({ format: 'A4' });
  if (pdf.length < 5000) out.push(`on paper: ${pdf.length} bytes of PDF`);
  await page.emulateMediaType('screen');
  await page.emulateMediaFeatures([{ name: 'prefers-reduced-motion', value: 'reduce' }]);
  const moving = await page.evaluate(() => [...document.querySelectorAll('*')].filter(e => getComputedStyle(e).transitionDuration !== '0s' || getComputedStyle(e).animationName !== 'none').length);
  if (moving) out.push(`${moving} elements move though the reader wants no motion`);
  for (const scheme of ['light', 'dark']) {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = Number(/\d+/.exec(background)[0]) < 128;
    if (dark !== (scheme === 'dark')) out.push(`${scheme} is not followed: ${background}`);
  }
  await page.close();
  return out;
}

/** Collectives that do not lead to a source line in two clicks: its row, then a link beside it. */
async function farFromSource(browser, file) {
  const { page, errors } = await open(browser, file);
  const bad = await page.evaluate(async () => {
    const out = [];
    const { model } = explorer;
    for (let c = 0; c < model.collectives.length; c++) {
      select({ view: 'communication', op: undefined, collective: undefined, line: undefined });
      selectCollective(model, c);
      const links = [...document.querySelectorAll('.inspector .cause button.link, .inspector dd button.link')].filter(b => !b.closest('details'));
      const reached = links.some(link => {
        link.click();
        const line = state.line;
        const there = state.view === 'program' && line > 0 && line <= model.textLines.length;
        if (!there) selectCollective(model, c, { view: 'communication' });
        return there;
      });
      if (!reached) out.push(`collective ${c}, ${model.collectives[c].kind} for ${model.collectives[c].causes[0].op}`);
    }
    return out;
  });
  await page.close();
  return [...bad, ...errors];
}

module.exports = { VIEWS, launch, open, times, leaks, findings, layouts, farFromSource };
