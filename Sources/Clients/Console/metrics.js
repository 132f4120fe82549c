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
    const found = this.all(name).filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value));
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

/** A quantile of what a histogram took between the readings, within a bucket by a straight line. */
export function quantile(before, now, name, share) {
  const bounds = [...new Map(now.all(`${name}_bucket`).map(({ labels }) => [labels.le, Number(labels.le.replace('+Inf', 'Infinity'))]))];
  const counts = bounds.map(([le]) => (now.sum(`${name}_bucket`, { le }) ?? 0) - (before?.sum(`${name}_bucket`, { le }) ?? 0));
  const total = counts.at(-1);
  if (!total || total < 0) return null;
  const index = counts.findIndex((count) => count >= share * total);
  const [lower, below] = index > 0 ? [bounds[index - 1][1], counts[index - 1]] : [0, 0];
  const upper = bounds[index][1];
  if (upper === Infinity) return lower;
  return lower + (upper - lower) * ((share * total - below) / (counts[index] - below));
}
