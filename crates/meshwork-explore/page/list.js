// A list of which only the rows in sight exist.

const ROW = 22;

/** How much larger than usual the reader's text is. */
const textScale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;

/** `draw(i)` makes row i, `usualHeight` pixels high with text of the usual size. Returns the element with `show(i)`, `refresh()` and `setCount(n)`. */
function virtualList({ count, draw, role, label, usualHeight = ROW, width, onkey }) {
  const rowHeight = Math.round(usualHeight * textScale());
  const space = h('div', { class: 'vspace' });
  const box = h('div', { class: 'vlist', role, 'aria-label': label, tabindex: 0 }, space);
  let rows = count;
  let from = 0;
  let to = 0;
  const refresh = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / rowHeight) - 8);
    const last = Math.min(rows, Math.ceil((box.scrollTop + Math.max(box.clientHeight, 400)) / rowHeight) + 8);
    [from, to] = [first, last];
    const shown = [];
    for (let i = first; i < last; i++) {
      const row = draw(i);
      row.style.top = `${i * rowHeight}px`;
      row.style.height = `${rowHeight}px`;
      shown.push(row);
    }
    replace(space, shown);
  };
  box.setCount = n => {
    rows = n;
    space.style.height = `${n * rowHeight}px`;
    if (width) space.style.minWidth = width;
    refresh();
  };
  box.refresh = refresh;
  box.shows = i => i >= from && i < to;
  box.show = i => {
    const top = i * rowHeight;
    if (top < box.scrollTop + rowHeight || top > box.scrollTop + box.clientHeight - 2 * rowHeight) {
      box.scrollTop = Math.max(0, top - box.clientHeight / 3);
    }
    refresh();
  };
  box.page = () => Math.max(1, Math.floor(box.clientHeight / rowHeight) - 1);
  box.addEventListener('scroll', () => {
    const first = Math.floor(box.scrollTop / rowHeight);
    const last = Math.ceil((box.scrollTop + box.clientHeight) / rowHeight);
    if (first < from || last > to) refresh();
  });
  if (onkey) {
    box.addEventListener('keydown', event => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: box.page(), PageUp: -box.page(), Home: -rows, End: rows }[event.key];
      if (step === undefined && event.key !== 'Enter') return;
      event.preventDefault();
      onkey(step, event.key);
    });
  }
  sized(box, refresh);
  box.setCount(count);
  return box;
}
