// Elements from names, attributes and children. Text only ever becomes text nodes.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
  return element;
}

/** A button that looks like a link: it selects something. */
const link = (text, act, title) => h('button', { class: 'link', type: 'button', title, onclick: act }, text);

/** Hands a text to the reader as a file. */
function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const anchor = h('a', { href: url, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Says something to screen readers. */
function announce(text) {
  const live = document.getElementById('live');
  if (live) live.textContent = text;
}

function sized(element, draw) {
  new ResizeObserver(() => {
    if (element.isConnected && element.clientWidth > 0) draw();
  }).observe(element);
}

/** A small button. What a sign means is said; words speak for themselves. */
const quietButton = (text, label, act) =>
  h('button', { type: 'button', class: 'quiet', title: label, 'aria-label': text.length > 1 ? null : label, onclick: act }, text);
