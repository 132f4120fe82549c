// Prometheus' text format, as far as this hub writes it, and what two readings say of the time between them.

/** One reading: the series of each name. */
export class Reading {
  #series = new Map();

  constructor(text, at = Date.now()) {
    this.at = at;
    for (const line of text.split('\n')) {
      if (line === '' || line.startsWith('#')) continue;
      const [, name, labels, value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      if (name === undefined) continue;
      if (!this.#series.has(name)) this.#series.set(name, []);
      this.#series.get(name).push({ labels: read(labels ?? ''), value: Number(value) });
    }
  }

  all(name) { return this.#series.get(name) ?? []; }

  /** The sum of the series of that name which have these labels; null where there is none. */
  sum(name, wanted = {}) {
    const found = this.all(name)
      .filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value));
    return found.length ? found.reduce((sum, { value }) => sum + value, 0) : null;
  }

  /** The values of a label. */
  values(name, label) { return [...new Set(this.all(name).map(({ labels }) => labels[label]))]; }
}

function read(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value.replace(/\\(.)/g, '$1');
  return labels;
}

/** How much a counter rose each second. */
export function rate(before, now, name, wanted) {
  const [from, to] = [before?.sum(name, wanted), now.sum(name, wanted)];
  if (from === null || from === undefined || to === null || now.at <= before.at) return null;
  return Math.max(0, to - from) / ((now.at - before.at) / 1000);
}
