// The wire: the messages of both phones, the newest first.
import { h } from './dom.js';

const ROWS_MAX = 300;
const ARROWS = { in: '←', out: '→', http: '⇄', cut: '✕', mended: '✓' };
const WORDS = { in: 'received', out: 'sent', http: 'request', cut: 'cut', mended: 'mended' };

export class Wire {
  #waiting = [];
  #isPaused = false;

  constructor(list, pause, clear) {
    this.list = list;
    pause.addEventListener('click', () => {
      this.#isPaused = !this.#isPaused;
      pause.setAttribute('aria-pressed', this.#isPaused);
      pause.textContent = this.#isPaused ? 'Go on' : 'Pause';
      this.#draw();
    });
    clear.addEventListener('click', () => {
      this.#waiting = [];
      list.replaceChildren();
    });
  }

  /** A row is drawn with the next frame, all of a burst at once. */
  add(phone, row) {
    const wasEmpty = this.#waiting.length === 0;
    this.#waiting.push({ phone, at: new Date(), ...row });
    if (this.#waiting.length > ROWS_MAX) this.#waiting.shift();
    if (wasEmpty && !this.#isPaused) requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    if (this.#isPaused) return;
    this.list.prepend(...this.#waiting.reverse().map(drawn));
    this.#waiting = [];
    while (this.list.childElementCount > ROWS_MAX) this.list.lastElementChild.remove();
  }
}

function drawn({ phone, at, way, event, channel, offset, size, data }) {
  const parts = [
    h('time', { datetime: at.toISOString() }, clock(at)),
    h('span', { class: 'who' }, phone),
    h('span', { class: 'way', role: 'img', 'aria-label': WORDS[way] }, ARROWS[way]),
    h('span', { class: 'event' }, event),
    h('span', { class: 'channel' }, channel ?? ''),
    offset === null || offset === undefined ? h('span', { class: 'offset' })
      : h('span', { class: 'offset' }, h('span', { class: 'unseen' }, 'offset '), `${offset}`),
    h('span', { class: 'size' }, size ? `${size} B` : ''),
  ];
  if (data === undefined) return h('li', { class: `row ${way}`, 'data-phone': phone },
    h('div', { class: 'line' }, ...parts));
  const details = h('details', {}, h('summary', { class: 'line' }, ...parts));
  // Made when it is opened: most rows never are.
  details.addEventListener('toggle', () => {
    if (details.childElementCount === 1) details.append(h('pre', {}, JSON.stringify(data, null, 2)));
  });
  return h('li', { class: `row ${way}`, 'data-phone': phone }, details);
}

const clock = (at) => `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
