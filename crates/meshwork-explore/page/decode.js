// From the packed text in the page to the data: base64, inflate, JSON, then absolute numbers.

async function decode(packed) {
  if (typeof DecompressionStream === 'undefined') throw new Error('this browser cannot inflate; use one of the last three years');
  const text = atob(packed.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return absolute(JSON.parse(await new Response(stream).text()));
}

/** Undoes what data.rs does to the columns that point to rows. */
function absolute(data) {
  const ops = data.plan.ops;
  const { values } = data.plan;
  for (const name of ['line', 'alive']) ops[name] = sums(ops[name]);
  values.line = sums(values.line);
  ops.place = withLines(ops.place, ops.line);
  values.name = withLines(values.name, values.line);
  ops.start = sums(ops.start).map(n => n / 1e12);
  for (const name of ['operands', 'until', 'parent', 'value', 'collective']) ops[name] = ops[name].map(fromRow);
  for (const name of ['types', 'result_bytes']) ops[name] = shared(ops[name]);
  values.sharding = shared(values.sharding);
  data.device_line = sums(data.device_line);
  const links = data.why.links;
  for (const name of ['next', 'value', 'from', 'through']) links[name] = links[name].map(fromRow);
  return data;
}

/** The mark at the end of a text stands for its line. */
const withLines = (texts, lines) => texts.map((text, i) => (text.endsWith('\ue000') ? `${text.slice(0, -1)}line ${lines[i]}` : text));

/** Equal cells as one object: a large program has few different ones. */
function shared(cells) {
  const known = new Map();
  return cells.map(cell => {
    const key = JSON.stringify(cell);
    if (!known.has(key)) known.set(key, cell);
    return known.get(key);
  });
}

function sums(differences) {
  let sum = 0;
  return differences.map(n => (sum += n));
}

/** Numbers are relative to their row; those written as text stand for themselves. */
function fromRow(cell, row) {
  if (Array.isArray(cell)) return cell.map(n => fromRow(n, row));
  return typeof cell === 'string' ? Number(cell) : cell + row;
}
