// Today: the doses, how far the day is, and the streaks.
import { dayName, h, percent, plural, s, say, set, show, statusName } from './dom.js';

const MARKS = { scheduled: '', taken: '✓', missed: '!', made_up: '↺', skipped: '–' };
const ROUND = 2 * Math.PI * 26;

export class TodayView {
  #undos = new Map();

  constructor(phone) {
    this.phone = phone;
    this.ring = s('circle', { class: 'done', cx: 32, cy: 32, r: 26, 'stroke-dasharray': `0 ${ROUND}` });
    this.drawing = s(
      'svg', { class: 'ring', viewBox: '0 0 64 64', role: 'img' }, s('circle', { cx: 32, cy: 32, r: 26 }), this.ring,
      this.share = s('text', { x: 32, y: 37, 'text-anchor': 'middle' }));
    this.date = h('h3');
    this.all = h('button', { type: 'button', class: 'small', onclick: () => this.#markAll() });
    this.list = h('ol', { class: 'doses', 'aria-label': 'Doses of today' });
    this.empty = h('p', { class: 'muted' }, 'Loading …');
    this.element = h(
      'div', {}, h('div', { class: 'summary' }, this.drawing, this.streaks = streaks()),
      h('div', { class: 'line-up' }, this.date, this.all), this.list, this.empty);
  }

  update(today) {
    this.empty.hidden = today !== undefined && today.occurrences.length > 0;
    if (!today) return;
    say(this.empty, 'No dose today.');
    say(this.date, dayName(today.date));
    const done = today.occurrences.filter(({ status }) => status === 'taken' || status === 'made_up').length;
    const count = today.occurrences.length;
    set(this.ring, 'stroke-dasharray', `${count ? (ROUND * done) / count : 0} ${ROUND}`);
    set(this.drawing, 'aria-label', `${done} of ${plural(count, 'dose')} taken`);
    say(this.share, `${done}/${count}`);
    showStreaks(this.streaks, today.stats);
    this.open = today.occurrences.filter(({ status }) => status === 'scheduled');
    this.all.hidden = this.open.length < 2;
    say(this.all, `Mark all ${this.open.length} as taken`);
    show(this.list, today.occurrences, () => new DoseRow(this));
  }

  async act(type, dose) {
    const at = new Date().toISOString();
    const payload = { occurrenceId: dose.id, ...(type === 'markTaken' ? { takenAt: at } : { at }) };
    // Before the dose changes: the button stays where it is, and so does the focus.
    const acting = this.phone.act(type, payload).then(({ key }) => key);
    this.#undos.set(dose.id, acting);
    const key = await acting;
    const name = type === 'markTaken' ? 'taken' : 'made up';
    this.phone.offer(`${title(dose)} ${name}`, () => this.undo([dose.id], key));
    this.update(this.phone.client.today().value);
  }

  async #markAll() {
    const ids = this.open.map(({ id }) => id);
    const { key } = await this.phone.act('bulkMarkAll', { occurrenceIds: ids, takenAt: new Date().toISOString() });
    for (const id of ids) this.#undos.delete(id);
    this.phone.offer(`${plural(ids.length, 'dose')} marked as taken`, () => this.undo(ids, key));
  }

  /** Whether this phone has done something with the dose that it can take back. */
  canUndo(dose) {
    return this.#undos.has(dose.id) && (dose.status === 'taken' || dose.status === 'made_up');
  }

  async undo(ids, key = this.#undos.get(ids[0])) {
    for (const id of ids) this.#undos.delete(id);
    await this.phone.undo(await key);
    this.update(this.phone.client.today().value);
  }
}

export const title = (dose) => dose.productName ?? 'A dose';

/** One dose: what it is, what became of it, and the one thing to do about it. */
class DoseRow {
  constructor(view) {
    this.view = view;
    this.mark = h('span', { class: 'mark', 'aria-hidden': 'true' });
    this.name = h('strong');
    this.about = h('span', { class: 'about' });
    this.waits = h('span', { class: 'waits' }, 'waits for the hub');
    this.button = h('button', { type: 'button', onclick: () => this.#press() });
    this.element = h('li', { class: 'dose' }, this.mark, h('div', { class: 'what' }, this.name, this.about, this.waits),
      this.button);
  }

  update(dose) {
    this.dose = dose;
    set(this.element, 'data-status', dose.status);
    set(this.element, 'data-id', dose.id);
    say(this.mark, MARKS[dose.status] ?? '');
    say(this.name, title(dose));
    const time = dose.timeLocal.slice(11, 16);
    say(this.about, [time, dose.dose ?? dose.strength, statusName[dose.status]].filter(Boolean).join(' · '));
    this.waits.hidden = !dose.isPending;
    const [word, does] = this.#action(dose);
    // Another phone may have done what the person is about to do.
    if (word === null && document.activeElement === this.button) this.view.phone.focus();
    this.button.hidden = word === null;
    this.does = does;
    say(this.button, word ?? '');
    set(this.button, 'aria-label', word && `${word}: ${title(dose)}, ${time}`);
    set(this.button, 'class', word === 'Take' ? 'main' : '');
  }

  #action(dose) {
    const { view } = this;
    if (view.canUndo(dose)) return ['Undo', () => view.undo([dose.id])];
    if (dose.status === 'scheduled') return ['Take', () => view.act('markTaken', dose)];
    if (dose.status === 'missed') return ['Make up', () => view.act('makeUp', dose)];
    return [null, null];
  }

  #press() {
    const { does } = this;
    does?.();
  }
}

/** Streaks, as both the day and the month show them. */
export function streaks() {
  const list = h('dl', { class: 'streaks' });
  list.values = ['Streak', 'Best', '30 days'].map((name) => {
    const value = h('dd', {}, '–');
    list.append(h('div', {}, h('dt', {}, name), value));
    return value;
  });
  return list;
}

export function showStreaks(list, stats) {
  const [now, best, average] = list.values;
  say(now, stats ? plural(stats.currentStreakDays, 'day') : '–');
  say(best, stats ? plural(stats.bestStreakDays, 'day') : '–');
  say(average, percent(stats?.avg30DaysPct));
}
