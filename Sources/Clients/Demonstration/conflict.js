// A conflict: what this phone wanted, what another device has made of it meanwhile, and the person's decision.
import { h, say, set, statusName } from './dom.js';
import { label, repeats } from './reminders.js';
import { title } from './today.js';

const FIELDS = {
  label: 'Text', time: 'Time', enabled: 'On', repeat: 'Days', repeatOn: 'Days', status: 'Dose', note: 'Note',
};

export class ConflictDialog {
  constructor(phone) {
    this.phone = phone;
    const id = `${phone.id}-conflict`;
    this.name = h('h3', { id: `${id}-name` });
    this.about = h('p', { id: `${id}-about` });
    this.body = h('tbody');
    this.mine = h('button', { type: 'button', onclick: () => this.#decide('keep_local') }, 'Keep mine');
    this.theirs = h('button', { type: 'button', class: 'main', onclick: () => this.#decide('accept_server') },
      'Take theirs');
    this.element = h(
      'div', { class: 'conflict', role: 'alertdialog', 'aria-labelledby': `${id}-name`,
        'aria-describedby': `${id}-about`, hidden: true },
      h('div', { class: 'sheet' }, this.name, this.about,
        h('table', { 'aria-labelledby': `${id}-name` }, h('thead', {}, h('tr', {},
          h('th', { scope: 'col' }), h('th', { scope: 'col' }, 'Mine'), h('th', { scope: 'col' }, 'Theirs'))), this.body),
        h('div', { class: 'buttons' }, this.mine, this.theirs)));
  }

  /** Shows the first of the conflicts, over the phone's pages. The focus comes here if it was in this phone. */
  update(conflicts) {
    const [first] = conflicts;
    const wasOpen = !this.element.hidden;
    if (first?.key === this.key && wasOpen) return;
    this.key = first?.key;
    const wasHere = this.phone.element.contains(document.activeElement);
    this.element.hidden = !first;
    for (const part of this.phone.covered) part.inert = Boolean(first);
    if (!first) {
      if (wasOpen && wasHere) this.phone.focus();
      return;
    }
    this.#fill(first, conflicts.length);
    if (wasHere) this.mine.focus();
    this.phone.announce(`${this.name.textContent} ${this.about.textContent}`);
  }

  #fill({ type, conflict }, count) {
    const { server, local, fields } = conflict;
    const rule = type.endsWith('Reminder') || type.endsWith('ReminderOccurrence');
    say(this.name, `${rule ? label(server ?? local) : title(server ?? {})}: which one?`);
    const more = count > 1 ? ` ${count - 1} more to decide.` : '';
    say(this.about, `Another phone has ${server ? 'changed' : 'deleted'} this while yours was away.${more}`);
    const names = fields?.length ? fields.map(({ name }) => name)
      : rule ? Object.keys(local ?? {}).filter((name) => FIELDS[name]) : ['status'];
    this.body.replaceChildren(...names.map((name) => h(
      'tr', {}, h('th', { scope: 'row' }, FIELDS[name] ?? name), h('td', {}, worded(name, local)),
      h('td', {}, worded(name, server)))));
    set(this.element, 'data-of', conflict.entity?.id);
  }

  async #decide(choice) {
    const { key } = this;
    try {
      await this.phone.client.resolve(key, choice);
    } catch (error) {
      // Another tab has decided it; the value is about to say so.
      if (error.code !== 'no_conflict') throw error;
    }
  }
}

function worded(name, side) {
  const value = side?.[name];
  if (!side) return 'gone';
  if (name === 'status') return statusName[value] ?? String(value);
  if (name === 'enabled') return value ? 'on' : 'off';
  if (name === 'repeat' || name === 'repeatOn') return repeats(side);
  if (name === 'time') return String(value).slice(0, 5);
  return value === null || value === undefined ? 'nothing'
    : typeof value === 'object' ? JSON.stringify(value) : String(value);
}
