// A measured run from a trace of Chrome or Perfetto that the reader opens in the page.

/** Categories of events by the number of their activity: computing, moving, waiting, allocating. */
const CATEGORIES = ['step', 'collective', 'waiting', 'allocation'];
const ACTIVITIES = ['computing', 'moving', 'waiting', 'allocating'];

/** Complete events (X) and pairs of begin and end (B, E), in the columns that trace.rs writes. */
function readTrace(text) {
  const trace = JSON.parse(text);
  const list = Array.isArray(trace) ? trace : trace.traceEvents;
  if (!Array.isArray(list)) throw new Error('there is no list of events in it');
  const events = [];
  const open = new Map();
  const processes = new Map();
  const nanoseconds = us => Math.round(Number(us || 0) * 1000);
  for (const e of list) {
    const key = `${e.pid} ${e.tid}`;
    const add = (from, start, length) => events.push({ name: String(from.name ?? ''), process: Number(e.pid) || 0, thread: Number(e.tid) || 0, start, length: Math.max(0, length), activity: Math.max(0, CATEGORIES.indexOf(from.cat)), bytes: Number((from.args || {}).bytes) || 0 });
    if (e.ph === 'X') add(e, nanoseconds(e.ts), nanoseconds(e.dur));
    else if (e.ph === 'B') open.set(key, [...(open.get(key) || []), e]);
    else if (e.ph === 'E' && (open.get(key) || []).length) {
      const from = open.get(key).pop();
      add(from, nanoseconds(from.ts), nanoseconds(e.ts) - nanoseconds(from.ts));
    } else if (e.ph === 'M' && e.name === 'process_name' && !processes.has(Number(e.pid))) processes.set(Number(e.pid), String(e.args && e.args.name));
  }
  events.sort((a, b) => a.process - b.process || a.thread - b.thread || a.start - b.start || b.length - a.length);
  const names = [...new Set(events.map(e => e.name))];
  const number = new Map(names.map((name, i) => [name, i]));
  const first = events.reduce((least, e) => Math.min(least, e.start), Infinity);
  const column = cell => events.map(cell);
  return {
    names,
    processes: [...processes.entries()],
    events: { process: column(e => e.process), thread: column(e => e.thread), start: column(e => e.start - first), length: column(e => e.length), name: column(e => number.get(e.name)), activity: column(e => e.activity), bytes: column(e => e.bytes) },
  };
}

/** A button that reads a trace from the reader's disk; `done` is told when the model has it. */
function traceOpener(model, done) {
  const input = h('input', {
    type: 'file',
    accept: '.json,application/json',
    class: 'hidden',
    'aria-label': 'Chrome trace',
    tabindex: -1,
    onchange: async () => {
      const file = input.files[0];
      if (!file) return;
      try {
        model.data.run = readTrace(await file.text());
        model.measured = null;
        done();
      } catch (error) {
        note.textContent = `${file.name} is not a trace: ${error.message}`;
      }
    },
  });
  const note = h('span', { class: 'dim', role: 'alert' });
  return h('span', null, input, quietButton('Open trace', 'Show a measured run from a Chrome or Perfetto trace', () => input.click()), note);
}
