// The last events: kinds and sizes. The data of one only where the hub allows it, and the log names each look.
import { ask } from './access.js';
import { h } from './dom.js';
import { bytes, time } from './plots.js';
import { clock, field, form, isInUse, reveal, table } from './tables.js';

const SOURCES = { database: 'database', backend: 'backend', client: 'client' };

export class Events {
  constructor(container, hub, explain) {
    this.hub = hub;
    this.explain = explain;
    this.channel = h('input', { type: 'search', placeholder: 'all', autocomplete: 'off' });
    this.name = h('input', { type: 'search', placeholder: 'all', autocomplete: 'off' });
    this.bytes = h('input', { type: 'number', min: 0, placeholder: '0' });
    this.table = h('table', { 'aria-label': 'The last events' });
    container.append(
      form({ class: 'filters' }, () => this.look(true),
        field('Channel begins with', this.channel), field('Kind has', this.name), field('Bytes at least', this.bytes),
        h('button', { type: 'submit' }, 'Look')),
      h('p', {},
        h('button', { type: 'button', 'aria-pressed': 'false', onclick: (event) => this.#hold(event.target) }, 'Hold')),
      h('div', { class: 'scroll' }, this.table),
      h('p', { class: 'muted' },
        `What loops remember of the last ${Math.round(hub.traceSeconds / 60)} minutes, at most 200 events.`));
  }

  #hold(button) {
    this.held = !this.held;
    button.setAttribute('aria-pressed', String(this.held));
  }

  /** While a payload is open, or the list is held or in use, it stays as it is: also where that began before the answer. */
  async look(isAsked = false) {
    const stays = () => !isAsked && (this.held || isInUse(this.table) || this.table.querySelector('pre'));
    if (stays()) return;
    const { events } = await ask('events', { channel: this.channel.value, name: this.name.value, bytes: this.bytes.value });
    if (stays()) return;
    table(this.table, ['Time', 'Channel', '#Number', 'Kind', '#Size', 'From', '#After commit', ''], events.map((event) => [
      h('span', { class: 'mono' }, clock(event.age)), h('code', {}, event.channel),
      event.offset === null ? '' : `${event.offset}`,
      event.name, bytes(event.bytes), event.app ? `${SOURCES[event.source]}, app ${event.app}` : SOURCES[event.source],
      event.committed === null ? '' : time((event.committed - event.age) / 1e6), this.#actions(event)]), 'None yet.');
  }

  #actions(event) {
    const cell = h('span');
    if (event.offset === null) return cell;
    const explain = () => this.explain(event.channel, event.offset, event.epoch);
    cell.append(h('button', { type: 'button', class: 'small', onclick: explain }, 'Its way'));
    if (this.hub.payloads) {
      const button = h('button', { type: 'button', class: 'small', onclick: () => this.#open(event, cell, button) }, 'Data');
      cell.append(' ', button);
    }
    return cell;
  }

  async #open({ channel, offset, epoch }, cell, button) {
    button.disabled = true;
    let text;
    try {
      const { events } = await ask('payload', { channel, offset, epoch }, { method: 'POST' });
      text = events[0]?.o === offset ? JSON.stringify(events[0].data, null, 2) : 'The log does not have it any more.';
    } catch (error) {
      text = error.message;
      button.disabled = false;
    }
    reveal(cell, text);
  }
}
