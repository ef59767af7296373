// Measures every row of the explorer's acceptance table and says which hold. `scripts/explorer-measure` makes what it needs.
//
//   NODE_PATH=… node bench/explorer/measure.js --meshwork BINARY --programs FOLDER [--corpus FOLDER] [--pages FOLDER] [--out FOLDER]
//
// FOLDER of programs: gpt_2, gpt_32, gpt_32_located and gpt_152 of bench/gpt.py. Corpus: programs whose numbers are compared
// with `explain --json`, besides the golden ones. Pages: those that the tests of meshwork-explore leave behind.
'use strict';
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { ROOT, meshwork, processorSeconds, sizes, programs, untruths, uncompared } = require('./command.js');
const { launch, open, times, leaks, findings, layouts, farFromSource } = require('./chromium.js');
const { walk } = require('./keyboard.js');
const { firefox, webkit } = require('./browsers.js');

const { values: options } = parseArgs({ options: { meshwork: { type: 'string' }, programs: { type: 'string' }, corpus: { type: 'string' }, pages: { type: 'string' }, out: { type: 'string' }, only: { type: 'string' } } });
const binary = path.resolve(options.meshwork || path.join(ROOT, 'target/release/meshwork'));
const folder = path.resolve(options.programs || path.join(ROOT, 'target/bench/programs'));
const out = path.resolve(options.out || fs.mkdtempSync(path.join(os.tmpdir(), 'explorer-')));
fs.mkdirSync(out, { recursive: true });

const rows = [];
/** A row of the table: what was asked for, what was measured. `holds` is null if it could not be measured. */
function row(area, asked, measured, holds, details = []) {
  rows.push({ area, asked, measured, holds });
  const sign = holds === null ? 'SKIPPED' : holds ? 'ok' : 'FAILED';
  console.log(`| ${area} | ${asked} | ${measured} | ${sign} |`);
  details.slice(0, 8).forEach(detail => console.log(`|  |  | ${String(detail).replaceAll('|', '\\|').slice(0, 300)} |  |`));
}
const none = list => (list.length === 0 ? 'none' : `${list.length}`);
const ms = n => `${n.toFixed(n < 10 ? 1 : 0)} ms`;
const kb = n => `${(n / 1000).toFixed(0)} kB`;
const source = name => path.join(folder, `${name}.mlir`);
const pageOf = name => path.join(out, `${name}.html`);
const goldens = () => [...programs(path.join(ROOT, 'examples/mlir')), ...programs(path.join(ROOT, 'tests/golden'), name => /^(explain|why)_/.test(name))];

function make() {
  for (const name of ['gpt_2', 'gpt_32', 'gpt_32_located', 'gpt_152']) {
    const made = meshwork(binary, ['explore', source(name), '--out', pageOf(name)]);
    if (made.status !== 0) throw new Error(`${name}: ${made.err}`);
  }
  const train = path.join(ROOT, 'tests/golden/explain_train.mlir');
  const before = path.join(out, 'before.mlir');
  fs.writeFileSync(before, fs.readFileSync(train, 'utf8').replace('[{"y"}, {}]', '[{}, {}]'));
  const trace = path.join(out, 'trace.json');
  fs.writeFileSync(trace, JSON.stringify([{ ph: 'X', name: 'dot_general at line 13', pid: 0, tid: 0, ts: 1, dur: 2 }, { ph: 'X', name: 'wait for all_reduce at line 13', cat: 'waiting', pid: 0, tid: 0, ts: 3, dur: 1 }, { ph: 'X', name: 'all_reduce at line 13', cat: 'collective', pid: 0, tid: 0, ts: 4, dur: 2 }]));
  const made = meshwork(binary, ['explore', train, '--against', before, '--profile', trace, '--budget', '60000', '--what-if', 'x=2,y=8', '--what-if', 'x=1,y=8', '--out', pageOf('train')]);
  if (made.status !== 0) throw new Error(made.err);
}

function size() {
  const of = name => sizes(pageOf(name));
  row('size', 'code ≤ 150 kB', kb(of('gpt_2').code), of('gpt_2').code <= 150e3);
  row('size', '≤ 400 kB for 2,000 operations', kb(of('gpt_2').bytes), of('gpt_2').bytes <= 400e3);
  row('size', '≤ 1.0 MB for the GPT step of 32 layers', kb(of('gpt_32').bytes), of('gpt_32').bytes <= 1e6);
  row('size', '≤ 2 MB with locations', kb(of('gpt_32_located').bytes), of('gpt_32_located').bytes <= 2e6);
}

function speed() {
  const best = args => Math.min(...Array.from({ length: 5 }, () => processorSeconds(binary, args)));
  const explain = best(['explain', source('gpt_32')]);
  const explore = best(['explore', source('gpt_32'), '--out', pageOf('gpt_32')]);
  row('make', '≤ 2 × explain', `${explore.toFixed(2)} s of processor time, explain ${explain.toFixed(2)} s`, explore <= 2 * explain);
  row('make', '≤ 0.5 s', `${explore.toFixed(2)} s`, explore <= 0.5);
}

async function reactions(browser) {
  const of = {};
  for (const name of ['gpt_2', 'gpt_32', 'gpt_152']) of[name] = await times(browser, pageOf(name));
  row('open', 'usable ≤ 1.5 s', `${ms(of.gpt_32.open)} (32 layers)`, of.gpt_32.open <= 1500);
  row('open', '100,000 operations ≤ 6 s', `${ms(of.gpt_152.open)} (152 layers, ${of.gpt_152.ops.toLocaleString('en')} operations on a device)`, of.gpt_152.open <= 6000);
  row('open', 'heap ≤ 150 MB', `${(of.gpt_152.heap / 1e6).toFixed(0)} MB (152 layers)`, of.gpt_152.heap <= 150e6);
  const slowest = name => Object.entries(of[name].select).sort((a, b) => b[1] - a[1])[0];
  const [view, time] = slowest('gpt_32');
  row('react', 'selection in all views ≤ 100 ms', `${ms(time)} (${view})`, time <= 100, Object.entries(of.gpt_152.select).filter(([, t]) => t > 100).map(([v, t]) => `152 layers, ${v}: ${ms(t)}`));
  row('react', 'frame ≤ 50 ms with 3,000 shapes', `${ms(of.gpt_32.frame)} with ${of.gpt_32.shapes} shapes`, of.gpt_32.frame <= 50);
  row('react', 'search ≤ 50 ms', ms(of.gpt_32.search), of.gpt_32.search <= 50);
  const requests = Math.max(...Object.values(of).map(t => t.requests.length));
  row('net', '1 request', String(requests), requests === 1);
  const errors = Object.values(of).flatMap(t => t.errors);
  row('net', '0 console errors', none(errors), errors.length === 0, errors);
  const leak = await leaks(browser, pageOf('gpt_2'));
  row('net', 'the policy blocks all else', none(leak), leak.length === 0, leak);
}

async function elsewhere() {
  const own = options.pages && fs.existsSync(options.pages) ? fs.readdirSync(options.pages).filter(f => f.endsWith('.html')).map(f => path.join(options.pages, f)) : [];
  const pages = [pageOf('train'), pageOf('gpt_2'), pageOf('gpt_32'), ...own];
  for (const [name, run] of [['Firefox', firefox], ['WebKit', webkit]]) {
    const result = await run(pages).catch(error => ({ error: error.message }));
    if (result.skipped) row('net', `opens in ${name}`, result.skipped, null);
    else if (result.error) row('net', `opens in ${name}`, result.error, false);
    else {
      const bad = result.reports.flatMap(r => r.failed.map(f => `${r.page}: ${f.name} ${f.detail}`));
      row('net', `opens in ${name}`, `${result.browser}: ${result.reports.length} pages, ${result.reports.reduce((n, r) => n + r.checks, 0)} checks, ${bad.length} failed`, bad.length === 0, bad);
    }
  }
}

async function truth(browser) {
  const files = [...goldens(), ...(options.corpus ? programs(path.resolve(options.corpus)) : [])];
  const [bad, far] = [[], []];
  const page = pageOf('truth');
  let collectives = 0;
  for (const file of files) {
    const name = path.basename(file);
    const wrong = untruths(binary, file, page);
    bad.push(...wrong.map(w => `${name}: ${w}`));
    if (wrong.some(w => w.startsWith('explain:') || w.startsWith('explore:'))) continue;
    far.push(...(await farFromSource(browser, page)).map(w => `${name}: ${w}`));
    collectives += 1;
  }
  row('truth', 'numbers equal explain --json and the lock', `${files.length} programs, wrong: ${none(bad)}`, bad.length === 0, bad);
  row('truth', 'every collective has a cause, and its line in 2 clicks', `${collectives} programs, not so: ${none(far)}`, far.length === 0, far);
  if (!options.corpus) row('truth', '77 JAX programs', 'no --corpus', null);
}

async function placements() {
  const page = options.pages && path.join(options.pages, 'cases.html');
  if (!page || !fs.existsSync(page)) return row('rank', '500 random placements equal shards()', 'run the tests of meshwork-explore first', null);
  const browser = await launch();
  const tab = await browser.newPage();
  await tab.goto(`file://${path.resolve(page)}#selftest`);
  await tab.waitForSelector('#report', { timeout: 120000 });
  const report = JSON.parse(await tab.$eval('#report', e => e.textContent));
  const count = await tab.evaluate(() => JSON.parse(document.getElementById('cases').textContent).length);
  await browser.close();
  row('rank', '500 random placements equal shards()', `${count} cases, failed: ${none(report.failed)}`, report.failed.length === 0 && count >= 500, report.failed.map(f => f.detail));
}

function comparisons() {
  const files = goldens();
  const bad = [];
  let pairs = 0;
  for (const was of files) {
    for (const is of files) {
      bad.push(...uncompared(binary, was, is, out));
      pairs += 1;
    }
  }
  row('compare', 'page diff = --check diff in all golden pairs', `${pairs} pairs, wrong: ${none(bad)}`, bad.length === 0, bad);
}

async function access(browser) {
  for (const name of ['train', 'gpt_2']) {
    const { page, errors } = await open(browser, pageOf(name));
    const lost = [...(await walk(page)), ...errors];
    await page.close();
    row('access', 'every action by keyboard', `${name}: ${none(lost)} missing`, lost.length === 0, lost);
  }
  for (const name of ['train', 'gpt_2']) {
    const found = await findings(browser, pageOf(name));
    row('access', '0 serious findings of axe-core, contrast ≥ 4.5', `${name}, 9 views, light and dark: ${none(found)}`, found.length === 0, found);
  }
  const bad = [...(await layouts(browser, pageOf('train'))), ...(await layouts(browser, pageOf('gpt_2')))];
  row('access', '1024 px, text at 200 %, paper, no motion, light and dark', none(bad), bad.length === 0, bad);
}

function same() {
  const twice = [0, 1].map(k => {
    meshwork(binary, ['explore', source('gpt_32'), '--out', pageOf(`same_${k}`)]);
    // The title is the name of the program, not of the page.
    return fs.readFileSync(pageOf(`same_${k}`), 'utf8');
  });
  row('same', 'two runs give the same bytes', twice[0] === twice[1] ? 'equal' : 'different', twice[0] === twice[1]);
}

async function main() {
  console.log('|  | asked | measured |  |\n|---|---|---|---|');
  const want = part => !options.only || options.only.split(',').includes(part);
  make();
  if (want('size')) size();
  if (want('make')) speed();
  const browser = await launch();
  if (want('react')) await reactions(browser);
  if (want('net')) await elsewhere();
  if (want('truth')) await truth(browser);
  if (want('rank')) await placements();
  if (want('compare')) comparisons();
  if (want('access')) await access(browser);
  if (want('same')) same();
  await browser.close();
  const [failed, skipped] = [rows.filter(r => r.holds === false), rows.filter(r => r.holds === null)];
  console.log(`\n${rows.length - failed.length - skipped.length} of ${rows.length} hold${failed.length ? `, ${failed.length} FAILED` : ''}${skipped.length ? `, ${skipped.length} skipped` : ''}`);
  process.exitCode = failed.length ? 1 : 0;
}

main();
