// Opens pages with `#selftest` in Firefox and WebKit, and reads the reports that the pages write.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { spawn } = require('node:child_process');

const pause = ms => new Promise(done => setTimeout(done, ms));
const found = list => list.find(file => file && fs.existsSync(file));
const firefoxPath = () => found([process.env.MESHWORK_FIREFOX, '/usr/bin/firefox-esr', '/usr/bin/firefox']);
const webkitDriver = () => found([process.env.MESHWORK_WEBKIT_DRIVER, '/usr/bin/WebKitWebDriver']);
const miniBrowser = () => found([4.1, 6.0].map(v => `/usr/lib/x86_64-linux-gnu/webkit2gtk-${v.toFixed(1)}/MiniBrowser`).concat('/usr/lib/x86_64-linux-gnu/webkitgtk-6.0/MiniBrowser'));

/** `{ browser, reports: [{ page, checks, failed }] }` for each page, or `{ skipped: why }`. */
async function firefox(pages) {
  const executablePath = firefoxPath();
  if (!executablePath) return { skipped: 'Firefox is not installed (apt-get install firefox-esr)' };
  const puppeteer = require('puppeteer-core');
  const browser = await puppeteer.launch({ browser: 'firefox', executablePath, headless: true, extraPrefsFirefox: { 'browser.shell.checkDefaultBrowser': false } });
  try {
    const reports = [];
    for (const file of pages) {
      const page = await browser.newPage();
      await page.goto(`file://${path.resolve(file)}#selftest`);
      await page.waitForSelector('#report', { timeout: 120000 });
      reports.push({ page: path.basename(file), ...JSON.parse(await page.$eval('#report', e => e.textContent)) });
      await page.close();
    }
    return { browser: await browser.version(), reports };
  } finally {
    await browser.close();
  }
}

/** One request of the WebDriver protocol. */
function driver(port, method, route, body) {
  const text = body === undefined ? '' : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const request = http.request({ port, host: '127.0.0.1', method, path: route, headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } }, response => {
      let all = '';
      response.on('data', part => (all += part));
      response.on('end', () => {
        try {
          const { value } = JSON.parse(all);
          if (response.statusCode >= 400) reject(new Error(`${route}: ${value.error}: ${value.message}`));
          else resolve(value);
        } catch (error) {
          reject(new Error(`${route}: ${error.message}: ${all.slice(0, 200)}`));
        }
      });
    });
    request.on('error', reject);
    request.end(text);
  });
}

async function webkit(pages) {
  const [binary, program] = [miniBrowser(), webkitDriver()];
  if (!binary || !program) return { skipped: 'WebKitGTK is not installed (apt-get install webkit2gtk-driver)' };
  const started = [];
  const run = (command, args, env) => {
    const child = spawn(command, args, { stdio: 'ignore', env: { ...process.env, ...env } });
    child.on('error', () => {});
    started.push(child);
    return child;
  };
  let display = process.env.DISPLAY;
  if (!display) {
    if (!found(['/usr/bin/Xvfb'])) return { skipped: 'WebKit needs a display: set DISPLAY, or apt-get install xvfb' };
    display = `:${90 + (process.pid % 900)}`;
    run('Xvfb', [display, '-screen', '0', '1280x900x24', '-nolisten', 'tcp']);
    await pause(1500);
  }
  const port = 20000 + (process.pid % 20000);
  try {
    // A container has no user namespaces for its sandbox, and no GPU.
    run(program, [`--port=${port}`], { DISPLAY: display, WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1', WEBKIT_DISABLE_COMPOSITING_MODE: '1', WEBKIT_DISABLE_DMABUF_RENDERER: '1', LIBGL_ALWAYS_SOFTWARE: '1', GDK_BACKEND: 'x11' });
    await pause(1000);
    const { sessionId, capabilities } = await driver(port, 'POST', '/session', { capabilities: { alwaysMatch: { 'webkitgtk:browserOptions': { binary, args: ['--automation'] } } } });
    const session = `/session/${sessionId}`;
    const reports = [];
    for (const file of pages) {
      await driver(port, 'POST', `${session}/url`, { url: `file://${path.resolve(file)}#selftest` });
      let text = null;
      for (let waited = 0; waited < 120000 && text === null; waited += 300) {
        text = await driver(port, 'POST', `${session}/execute/sync`, { script: "const e = document.getElementById('report'); return e ? e.textContent : null", args: [] });
        if (text === null) await pause(300);
      }
      if (text === null) throw new Error(`${file} wrote no report within two minutes`);
      reports.push({ page: path.basename(file), ...JSON.parse(text) });
    }
    await driver(port, 'DELETE', session).catch(() => {});
    return { browser: `${capabilities.browserName} ${capabilities.browserVersion}`, reports };
  } finally {
    for (const child of started.reverse()) child.kill();
  }
}

module.exports = { firefox, webkit };

if (require.main === module) {
  const pages = process.argv.slice(2);
  (async () => {
    for (const run of [firefox, webkit]) console.log(run.name, JSON.stringify(await run(pages).catch(error => ({ failed: error.message }))));
  })();
}
