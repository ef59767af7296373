// Program text with a gutter: only the lines in sight exist, coloured by what the words are.

const LONGEST = 4000;
const WORDS = /(\/\/.*$)|("(?:[^"\\]|\\.)*")|(%[\w$.\-]+(?:[:#]\d+)?)|(@[\w$.\-]+|#[\w$.\-]+)|((?:tensor|tuple)<)|\b((?:stablehlo|chlo|sdy|func|mhlo)\.[\w.]+|module|return|cond|do)\b/g;
const CLASSES = ['', 'comment', 'string', 'name', 'symbol', 'type', 'word'];

function coloured(line) {
  const text = line.length > LONGEST ? `${line.slice(0, LONGEST)}… (${line.length - LONGEST} more characters)` : line;
  const out = [];
  let done = 0;
  for (const match of text.matchAll(WORDS)) {
    if (match.index > done) out.push(text.slice(done, match.index));
    const kind = match.findIndex((part, i) => i > 0 && part !== undefined);
    out.push(h('span', { class: `t-${CLASSES[kind]}` }, match[0]));
    done = match.index + match[0].length;
  }
  if (done < text.length) out.push(text.slice(done));
  return out;
}

/** `sent` and `time` are maps from line to amounts, `changed` a set of lines; `chosen(line)` marks lines. */
function textView({ label, lines, sent, time, changed, chosen, onselect }) {
  const most = mostOf(time.values(), 1e-30);
  const mostSent = mostOf(sent.values(), 1);
  const longest = lines.reduce((n, line) => Math.max(n, Math.min(line.length, LONGEST)), 0);
  const digits = String(lines.length).length;
  let current = 1;
  const list = virtualList({
    count: lines.length,
    usualHeight: 20,
    role: 'listbox',
    label,
    width: `${Math.min(longest, LONGEST) + digits + 22}ch`,
    draw: i => {
      const line = i + 1;
      const mark = chosen(line);
      if (mark === 'main') current = line;
      const [bytes, seconds] = [sent.get(line) || 0, time.get(line) || 0];
      const hint = [bytes ? `${humanBytes(bytes)} sent` : '', seconds ? `${humanSeconds(seconds)} predicted` : ''].filter(Boolean).join(', ');
      return h(
        'div',
        { class: `code${mark ? ` ${mark}` : ''}`, role: 'option', 'aria-selected': String(mark === 'main'), onclick: () => onselect(line) },
        h('span', { class: 'lineno', style: `width:${digits + 1}ch` }, String(line)),
        h('span', { class: 'gutter', title: hint },
          h('span', { class: 'heat time', style: `width:${seconds ? Math.max(6, 100 * Math.sqrt(seconds / most)) : 0}%` }),
          h('span', { class: 'heat sent', style: `width:${bytes ? Math.max(6, 100 * Math.sqrt(bytes / mostSent)) : 0}%` })),
        h('span', { class: 'bytes', title: changed.has(line) ? 'communicates differently than before' : null }, `${changed.has(line) ? 'Δ ' : ''}${bytes ? humanBytes(bytes) : ''}`),
        h('span', { class: 'src' }, coloured(lines[i])),
      );
    },
    onkey: (step, key) => {
      if (key === 'Enter') return;
      current = Math.min(lines.length, Math.max(1, current + step));
      onselect(current);
      list.show(current - 1);
    },
  });
  list.classList.add('text');
  return list;
}
