// Reminders: their rules, and a form for each.
import { h, say, set, show } from './dom.js';

const DAYS = ['', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];

export const repeats = ({ repeat, repeatOn }) => (repeat === 'custom' ? (repeatOn ?? []).map((day) => DAYS[day]).join(', ')
  : { daily: 'every day', weekdays: 'on weekdays' }[repeat] ?? repeat);

export const label = (rule) => rule?.label ?? rule?.preset ?? 'Reminder';

export class RemindersView {
  constructor(phone) {
    this.phone = phone;
    this.list = h('ul', { class: 'reminders', 'aria-label': 'Reminders' });
    this.empty = h('p', { class: 'muted' }, 'Loading …');
    this.element = h(
      'div', {}, h('p', { class: 'muted' },
        'Change the same reminder on both phones while they are offline: one of them asks.'),
      this.list, this.empty);
  }

  update(value) {
    this.empty.hidden = value !== undefined && value.items.length > 0;
    if (!value) return;
    say(this.empty, 'No reminder.');
    // In the order of the day, and stable while somebody edits a time.
    const items = [...value.items].sort((a, b) => (a.id < b.id ? -1 : 1));
    show(this.list, items, () => new ReminderRow(this.phone));
  }
}

class ReminderRow {
  constructor(phone) {
    this.phone = phone;
    const id = crypto.randomUUID();
    this.time = h('span', { class: 'at' });
    this.name = h('strong', { id: `${id}-name` });
    this.about = h('span', { class: 'about' });
    this.waits = h('span', { class: 'waits' }, 'waits for the hub');
    this.isOn = h('button', {
      type: 'button', role: 'switch', class: 'switch', 'aria-label': 'On', 'aria-describedby': `${id}-name`,
      onclick: () => this.#turn(),
    });
    this.edit = h('button', {
      type: 'button', class: 'small', 'aria-expanded': 'false', 'aria-controls': `${id}-form`,
      'aria-describedby': `${id}-name`,
      onclick: () => this.#open(this.form.hidden),
    }, 'Edit');
    this.labelField = h('input', { id: `${id}-label`, name: 'label', maxlength: 60, required: true, autocomplete: 'off' });
    this.timeField = h('input', { id: `${id}-time`, name: 'time', type: 'time', required: true });
    this.form = h(
      'form', { id: `${id}-form`, hidden: true, onsubmit: (event) => this.#save(event),
        onkeydown: (event) => this.#key(event) },
      h('label', { for: `${id}-label` }, 'Text'), this.labelField, h('label', { for: `${id}-time` }, 'Time'), this.timeField,
      h('div', { class: 'buttons' },
        h('button', { type: 'button', class: 'small', onclick: () => this.#open(false) }, 'Cancel'),
        h('button', { type: 'submit', class: 'main small' }, 'Save')));
    this.element = h(
      'li', {}, h('div', { class: 'rule' }, this.time, h('div', { class: 'what' }, this.name, this.about, this.waits),
        this.edit, this.isOn),
      this.form);
  }

  update(rule) {
    this.rule = rule;
    set(this.element, 'data-id', rule.id);
    set(this.element, 'data-off', !rule.enabled);
    say(this.time, rule.time.slice(0, 5));
    say(this.name, label(rule));
    say(this.about, `${repeats(rule)}${rule.enabled ? '' : ' · off'}`);
    this.waits.hidden = !rule.isPending;
    set(this.isOn, 'aria-checked', `${rule.enabled}`);
  }

  #turn() {
    this.phone.act('updateReminder', { id: this.rule.id, enabled: !this.rule.enabled });
  }

  #open(isOpen) {
    this.form.hidden = !isOpen;
    set(this.edit, 'aria-expanded', `${isOpen}`);
    if (!isOpen) { this.edit.focus(); return; }
    this.labelField.value = this.rule.label ?? '';
    this.timeField.value = this.rule.time.slice(0, 5);
    this.labelField.focus();
  }

  #key(event) {
    if (event.key === 'Escape') this.#open(false);
  }

  async #save(event) {
    event.preventDefault();
    const { rule } = this;
    const changes = {};
    if (this.labelField.value !== (rule.label ?? '')) changes.label = this.labelField.value;
    if (this.timeField.value !== rule.time.slice(0, 5)) changes.time = this.timeField.value;
    if (Object.keys(changes).length) await this.phone.act('updateReminder', { id: rule.id, ...changes });
    this.#open(false);
  }
}
