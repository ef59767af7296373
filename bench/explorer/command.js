// What `meshwork explore` writes, checked without a browser: sizes, time to make, truth, comparison, same bytes.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');
const zlib = require('node:zlib');
const { spawnSync } = require('node:child_process');

const ROOT = path.resolve(__dirname, '../..');
const decoder = fs.readFileSync(path.join(ROOT, 'crates/meshwork-explore/page/decode.js'), 'utf8');
const { absolute } = vm.runInNewContext(`${decoder}; ({ absolute })`, {});

/** Runs the command; returns { status, out, err }. */
function meshwork(binary, args) {
  const done = spawnSync(binary, args, { encoding: 'utf8', maxBuffer: 1 << 30 });
  if (done.error) throw done.error;
  return { status: done.status, out: done.stdout, err: done.stderr };
}

/** Processor seconds of a command, by bash: this machine may be busy with other things. */
function processorSeconds(binary, args) {
  const line = [binary, ...args].map(a => `'${a.replaceAll("'", "'\\''")}'`).join(' ');
  const done = spawnSync('bash', ['-c', `TIMEFORMAT='%U %S'; time ${line} >/dev/null 2>&1`], { encoding: 'utf8' });
  const [user, system] = done.stderr.trim().split(/\s+/).slice(-2).map(Number);
  return user + system;
}

const packedOf = html => /<script id="data" type="text\/plain">([^<]*)</.exec(html)[1];

/** The data of a page, and the same as the page decodes it. */
function dataOf(html) {
  const text = zlib.inflateRawSync(Buffer.from(packedOf(html), 'base64')).toString('utf8');
  // Objects of this realm, so that they compare.
  return JSON.parse(JSON.stringify(absolute(JSON.parse(text))));
}

/** Bytes of a page, and of all in it but its data. */
function sizes(file) {
  const html = fs.readFileSync(file, 'utf8');
  return { bytes: Buffer.byteLength(html), code: Buffer.byteLength(html) - packedOf(html).length };
}

/** Where two values differ first, or null. Numbers of the simulated start are whole picoseconds. */
function difference(a, b, at = '') {
  if (typeof a === 'number' && typeof b === 'number') return Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b), 1e-3) ? null : `${at}: ${a} and ${b}`;
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return a === b ? null : `${at}: ${JSON.stringify(a)} and ${JSON.stringify(b)}`;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  for (const key of keys) {
    if (!(key in a) || !(key in b)) return `${at}.${key} is missing`;
    const found = difference(a[key], b[key], `${at}.${key}`);
    if (found) return found;
  }
  return null;
}

/** Programs of a folder that have a mesh and that `explain` takes. */
function programs(folder, wanted = () => true) {
  return fs.readdirSync(folder).filter(name => name.endsWith('.mlir') && wanted(name)).sort().map(name => path.join(folder, name));
}

/** What is wrong with the page of a program: its numbers against `explain --json` and the lock. */
function untruths(binary, file, page) {
  const said = meshwork(binary, ['explain', file, '--json']);
  if (said.status !== 0) return [`explain: ${said.err.split('\n')[0]}`];
  const made = meshwork(binary, ['explore', file, '--out', page]);
  if (made.status !== 0) return [`explore: ${made.err.split('\n')[0]}`];
  const data = dataOf(fs.readFileSync(page, 'utf8'));
  const bad = [];
  const found = difference(data.plan, JSON.parse(said.out));
  if (found) bad.push(`plan${found}`);
  // The lock's totals from the page's data.
  const lock = meshwork(binary, ['explain', file, '--write-lock', '-']).out;
  for (const [kind, total] of Object.entries(data.plan.totals)) {
    const line = `sent ${kind}: ${total.wire_bytes.toFixed(0)} B in ${total.count}`;
    if (!lock.includes(line)) bad.push(`the lock has no "${line}"`);
  }
  if (!lock.includes(`peak: ${data.plan.peak.bytes} B`)) bad.push(`the lock has no peak of ${data.plan.peak.bytes} B`);
  data.plan.collectives.forEach((c, i) => {
    if (c.causes.length === 0 || !c.causes.every(x => x.reason)) bad.push(`collective ${i} has no cause`);
  });
  return bad;
}

/** What is wrong with the comparison of two programs: the page's list against what `--check` says. */
function uncompared(binary, was, is, folder) {
  const [lock, page] = [path.join(folder, 'was.lock'), path.join(folder, 'is.html')];
  meshwork(binary, ['explain', was, '--write-lock', lock]);
  const said = meshwork(binary, ['explain', is, '--check', lock]);
  const lines = said.err.split('\n').filter(l => /^ {2}[~+-] /.test(l)).map(l => l.slice(2));
  const bad = [];
  for (const other of [lock, was]) {
    const made = meshwork(binary, ['explore', is, '--against', other, '--out', page]);
    if (made.status !== 0) return [`explore: ${made.err.split('\n')[0]}`];
    const { changes } = dataOf(fs.readFileSync(page, 'utf8')).against;
    const shown = changes.map(([name, a, b]) => (a === null ? `+ ${name}: ${b}` : b === null ? `- ${name}: ${a}` : `~ ${name}: ${a} -> ${b}`));
    if (JSON.stringify(shown) !== JSON.stringify(lines)) bad.push(`${path.basename(was)} and ${path.basename(is)}: ${JSON.stringify(shown).slice(0, 200)} and ${JSON.stringify(lines).slice(0, 200)}`);
    if ((said.status === 0) !== (changes.length === 0)) bad.push(`${path.basename(is)}: --check ended with ${said.status}, the page has ${changes.length} changes`);
  }
  return bad;
}

module.exports = { ROOT, meshwork, processorSeconds, sizes, programs, untruths, uncompared };
