// Small plots of the last minutes.
import { h, s, say, set } from './dom.js';

const SAMPLES_MAX = 150;

/** A plot of one value, or of two that belong together. */
export class Plot {
  #samples = [];

  constructor(title, show, { second = null } = {}) {
    this.show = show;
    this.second = second;
    this.value = h('span', { class: 'value' }, '–');
    this.most = h('span', { class: 'most' });
    this.lines = [s('polyline', { class: 'line' }), s('polyline', { class: 'line second' })];
    this.drawing = s('svg', { viewBox: '0 0 100 40', preserveAspectRatio: 'none', role: 'img', 'aria-label': title },
      s('line', { class: 'axis', x1: 0, x2: 100, y1: 40, y2: 40 }), ...this.lines);
    this.title = title;
    this.element = h('figure', { class: 'plot' },
      h('figcaption', {}, h('span', {}, title), this.value), this.drawing, this.most);
  }

  add(...values) {
    this.#samples.push(values);
    if (this.#samples.length > SAMPLES_MAX) this.#samples.shift();
    const most = Math.max(0, ...this.#samples.flat().filter((value) => value !== null && value !== undefined));
    const texts = values.map((value) => (value === null || value === undefined ? '–' : this.show(value)));
    say(this.value, texts.join(' / '));
    say(this.most, `${this.second ? `${this.second} · ` : ''}most ${this.show(most)}`);
    set(this.drawing, 'aria-label', `${this.title}: ${texts.join(' and ')}, at most ${this.show(most)}`);
    for (const [index, line] of this.lines.entries()) {
      const points = this.#samples.map((sample, x) => [x, sample[index]])
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([x, value]) => [SAMPLES_MAX - this.#samples.length + x + 1, most ? 38 * value / most : 0])
        .map(([x, height]) => `${(100 * x) / SAMPLES_MAX},${40 - height}`);
      set(line, 'points', points.join(' '));
    }
  }
}

export const count = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} M`
  : value >= 1e4 ? `${(value / 1e3).toFixed(1)} k`
  : value >= 100 || Number.isInteger(value) ? `${Math.round(value)}` : value.toFixed(1));

export const bytes = (value) => (value >= 2 ** 30 ? `${(value / 2 ** 30).toFixed(2)} GiB`
  : value >= 2 ** 20 ? `${(value / 2 ** 20).toFixed(1)} MiB`
  : value >= 2 ** 10 ? `${(value / 2 ** 10).toFixed(1)} KiB` : `${Math.round(value)} B`);

/** A time in seconds. */
export const time = (value) => (value >= 1 ? `${value.toFixed(2)} s`
  : value >= 1e-3 ? `${(value * 1e3).toFixed(2)} ms` : `${Math.round(value * 1e6)} µs`);

/** How long something has lasted, in seconds: the two largest units. */
export const span = (value) => {
  const units = [['d', 86_400], ['h', 3_600], ['min', 60], ['s', 1]];
  const first = units.findIndex(([, length]) => length === 1 || value >= length);
  const rest = [value, value % units[first][1]];
  return units.slice(first, first + 2)
    .map(([name, length], index) => `${Math.floor(rest[index] / length)} ${name}`).join(' ');
};
