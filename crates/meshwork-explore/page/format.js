// Numbers as people read them, with the units of `meshwork explain`.

function humanBytes(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${bytes.toFixed(0)} B` : `${bytes.toFixed(1)} ${units[unit]}`;
}

function humanSeconds(seconds) {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toFixed(2)} ms`;
  return `${(seconds * 1e6).toFixed(seconds >= 1e-5 || seconds === 0 ? 1 : 2)} µs`;
}

function humanCount(count) {
  const units = ['', 'K', 'M', 'G', 'T', 'P'];
  let unit = 0;
  while (count >= 1000 && unit + 1 < units.length) {
    count /= 1000;
    unit += 1;
  }
  return unit === 0 ? `${count.toFixed(0)} ` : `${count.toFixed(1)} ${units[unit]}`;
}

/** The largest of any number of numbers, at least `least`. */
function mostOf(numbers, least) {
  let most = least;
  for (const n of numbers) if (n > most) most = n;
  return most;
}

const humanFlops = count => `${humanCount(count)}FLOP`;
const percent = share => (share >= 0.0995 || share === 0 ? `${(share * 100).toFixed(0)} %` : `${(share * 100).toFixed(1)} %`);
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
/** `reduce at src/model/block.rs:12` without the folders. */
const brief = text => text.replace(/ at \S*\/([^/\s]+:\d+)/g, ' at $1');
const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;
