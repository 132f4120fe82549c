// A month as a heat map: one cell for each day.
import { dayName, h, monthName, percent, say, set } from './dom.js';
import { showStreaks, streaks } from './today.js';

const WEEKDAYS = [['Mon', 'Monday'], ['Tue', 'Tuesday'], ['Wed', 'Wednesday'], ['Thu', 'Thursday'], ['Fri', 'Friday'],
  ['Sat', 'Saturday'], ['Sun', 'Sunday']];

export class MonthView {
  constructor(phone) {
    this.phone = phone;
    this.title = h('h3', { 'aria-live': 'polite' });
    const step = (by, word, sign) => h('button',
      { type: 'button', class: 'small', 'aria-label': word, onclick: () => this.#turn(by) }, sign);
    this.body = h('tbody');
    this.caption = h('caption', { class: 'unseen' });
    this.table = h(
      'table', { class: 'heat' }, this.caption,
      h('thead', {}, h('tr', {}, ...WEEKDAYS.map(([short, long]) => h('th', { scope: 'col', abbr: long }, short)))),
      this.body);
    this.element = h(
      'div', {}, h('div', { class: 'line-up' }, step(-1, 'The month before', '‹'), this.title,
        step(1, 'The next month', '›')),
      this.table,
      h('p', { class: 'legend', 'aria-hidden': 'true' },
        'none ', ...[0, 1, 2, 3, 4].map((level) => h('i', { 'data-level': level })), ' all'),
      this.streaks = streaks());
  }

  /** The month of today at first; then what the person has turned to. */
  update(today) {
    if (!today) return;
    this.today = today.date;
    showStreaks(this.streaks, today.stats);
    if (!this.name) this.#open(today.date.slice(0, 7));
    else this.#draw();
  }

  #turn(by) {
    if (!this.name) return;
    const [year, month] = this.name.split('-').map(Number);
    this.#open(new Date(Date.UTC(year, month - 1 + by, 15)).toISOString().slice(0, 7));
  }

  #open(name) {
    this.name = name;
    this.ends?.();
    const value = this.phone.client.month(name);
    this.ends = value.subscribe(() => this.#draw());
    this.#draw();
  }

  #draw() {
    const { name } = this;
    say(this.title, monthName(name));
    const days = this.phone.client.month(name).value;
    say(this.caption, days ? `Doses taken in ${monthName(name)}` : `${monthName(name)} is not on this phone yet`);
    const [year, month] = name.split('-').map(Number);
    if (this.drawn !== name) {
      this.drawn = name;
      this.#lay(year, month);
    }
    const known = new Map((days ?? []).map((one) => [one.date, one]));
    for (const [date, cell] of this.cells) {
      const summary = known.get(date);
      set(cell, 'data-level', level(summary));
      set(cell, 'data-today', date === this.today);
      set(cell.firstElementChild, 'aria-label', described(date, summary));
      set(cell, 'title', described(date, summary));
    }
  }

  /** Empty cells of a month, week by week. */
  #lay(year, month) {
    this.cells = new Map();
    const count = new Date(Date.UTC(year, month, 0)).getUTCDate();
    const before = (new Date(Date.UTC(year, month - 1, 1)).getUTCDay() + 6) % 7;
    const all = Array.from({ length: Math.ceil((before + count) / 7) * 7 }, (_, index) => {
      const number = index - before + 1;
      if (number < 1 || number > count) return h('td', { class: 'no' });
      const date = `${this.name}-${String(number).padStart(2, '0')}`;
      const cell = h('td', {}, h('span', { role: 'img' }, `${number}`));
      this.cells.set(date, cell);
      return cell;
    });
    this.body.replaceChildren(...Array.from(
      { length: all.length / 7 }, (_, week) => h('tr', {}, ...all.slice(week * 7, week * 7 + 7))));
  }
}

/** From nothing taken (0) to everything (4); null where nothing was due. */
function level(summary) {
  if (!summary || summary.adherencePct === null || summary.adherencePct === undefined) return null;
  if (summary.adherencePct >= 100) return 4;
  return Math.min(3, Math.ceil(summary.adherencePct / 33.4));
}

function described(date, summary) {
  if (!summary || !summary.scheduledCount) return `${dayName(date)}: no dose`;
  const taken = summary.takenCount + summary.madeUpCount;
  const share = summary.adherencePct === null ? 'still open' : percent(summary.adherencePct);
  return `${dayName(date)}: ${taken} of ${summary.scheduledCount} taken, ${share}`;
}
