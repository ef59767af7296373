// A table that sorts, copies and scrolls, of which only the rows in sight exist.

/**
 * `columns`: { name, title, width, align, cell(row), sort(row), text(row) }. `rows` are any values; `selected(row)` marks one,
 * `onselect(row)` is told of a choice.
 */
function dataTable({ label, columns, rows, selected, onselect, sortBy, height }) {
  let order = rows.slice();
  let by = sortBy || null;
  let down = true;
  // Widths grow with the reader's text.
  const grid = columns.map(c => (c.width || '1fr').replace(/(\d+)px/g, (_, n) => `${n / 16}rem`)).join(' ');
  const head = h('div', { class: 'thead', role: 'row' });
  const isChosen = row => Boolean(selected && selected(row));
  const list = virtualList({
    count: order.length,
    usualHeight: 26,
    role: 'rowgroup',
    label: `rows of ${label}`,
    draw: i => {
      const row = order[i];
      const chosen = isChosen(row);
      const cells = columns.map(c => h('div', { role: 'cell', class: c.align === 'right' ? 'num' : '', title: c.hint && c.hint(row) }, c.cell(row)));
      return h(
        'div',
        { class: chosen ? 'trow chosen' : 'trow', role: 'row', 'aria-rowindex': i + 2, 'aria-selected': onselect ? String(chosen) : null, style: `grid-template-columns:${grid}`, onclick: onselect && (() => onselect(row)) },
        cells,
      );
    },
    onkey: (step, key) => {
      if (!onselect || order.length === 0) return;
      const now = order.findIndex(isChosen);
      if (key === 'Enter') {
        if (now >= 0) onselect(order[now]);
        return;
      }
      const next = Math.min(order.length - 1, Math.max(0, (now < 0 ? (step > 0 ? -1 : order.length) : now) + step));
      onselect(order[next]);
      list.show(next);
    },
  });
  const sort = () => {
    const column = columns.find(c => c.name === by);
    order = rows.slice();
    if (column) {
      const value = column.sort || column.text;
      const compare = (a, b) => (typeof a === 'number' ? a - b : String(a).localeCompare(String(b)));
      order.sort((a, b) => (down ? -1 : 1) * compare(value(a), value(b)));
    }
    replace(
      head,
      columns.map(c =>
        h(
          'div',
          { role: 'columnheader', class: c.align === 'right' ? 'num' : '', 'aria-sort': c.name === by ? (down ? 'descending' : 'ascending') : 'none' },
          h(
            'button',
            {
              type: 'button',
              title: c.title ? `${c.title}. Sort` : 'Sort',
              onclick: () => {
                [by, down] = by === c.name ? [by, !down] : [c.name, Boolean(c.sort)];
                sort();
              },
            },
            c.name,
            c.name === by ? (down ? ' ↓' : ' ↑') : '',
          ),
        ),
      ),
    );
    head.style.gridTemplateColumns = grid;
    list.setCount(order.length);
  };
  const copy = h('button', { type: 'button', class: 'quiet', onclick: () => copyText(tsv()) }, 'Copy as TSV');
  const plain = (c, row) => String(c.text ? c.text(row) : c.cell(row));
  const tsv = () => [columns.map(c => c.name), ...order.map(row => columns.map(c => plain(c, row)))].map(cells => cells.join('\t')).join('\n');
  const box = h('div', { class: 'table', role: 'table', 'aria-label': label, 'aria-rowcount': rows.length + 1 }, head, list);
  if (height) box.style.height = height.replace(/([\d.]+)px/, (_, n) => `${n / 16}rem`);
  const whole = h('div', { class: 'tablebox' }, h('div', { class: 'tabletop' }, h('span', { class: 'caption' }, label), h('span', { class: 'dim' }, plural(rows.length, 'row')), copy), box);
  whole.setRows = next => {
    rows = next;
    box.setAttribute('aria-rowcount', rows.length + 1);
    whole.querySelector('.dim').textContent = plural(rows.length, 'row');
    sort();
  };
  whole.refresh = () => {
    const at = order.findIndex(isChosen);
    if (at >= 0) list.show(at);
    else list.refresh();
  };
  whole.tsv = tsv;
  sort();
  return whole;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h('textarea', { style: 'position:fixed;opacity:0' });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  announce('copied');
}
