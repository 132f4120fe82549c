// Connections and channels, as they are now.
import { ask } from './access.js';
import { h, plural } from './dom.js';
import { bytes, count } from './plots.js';
import { field, form, isInUse, table } from './tables.js';

/** A page with filters and a table, asked again while it is looked at. Selected text stays. */
class List {
  constructor(container, name, note, ...fields) {
    this.table = h('table', { 'aria-label': name });
    this.note = h('p', { class: 'muted' }, note);
    container.append(form({ class: 'filters' }, () => this.look(true), ...fields, h('button', { type: 'submit' }, 'Look')),
      h('div', { class: 'scroll' }, this.table), this.note);
  }
}

export class Connections extends List {
  constructor(container) {
    const user = h('input', { type: 'search', placeholder: 'all', autocomplete: 'off' });
    super(container, 'Connections', 'At most 100 of each loop. What waits is what a socket has not taken.',
      field('User', user));
    this.user = user;
  }

  async look(isAsked = false) {
    if (!isAsked && isInUse(this.table)) return;
    const { connections } = await ask('connections', { user: this.user.value });
    table(this.table, ['Socket', 'User', 'App', 'Kind', 'Address', 'Channels', '#Waits', 'Reads'], connections.map((one) => [
      h('code', {}, one.socket), one.user ?? '–', one.app ?? '–', one.kind, one.address,
      h('span', { class: 'mono' }, one.channels.join(', ') + (one.channelCount > one.channels.length
        ? ` and ${one.channelCount - one.channels.length} more` : '')),
      bytes(one.unsentBytes), one.isBehind ? 'behind, by pages' : 'live']), 'Nobody.');
  }
}

export class Channels extends List {
  constructor(container, apps) {
    const app = h('select', {}, ...apps.map(({ id }) => h('option', { value: id }, id)));
    const prefix = h('input', { type: 'search', placeholder: 'all', autocomplete: 'off' });
    super(container, 'Channels', '', field('App', app), field('Name begins with', prefix));
    Object.assign(this, { app, prefix });
  }

  async look(isAsked = false) {
    if (!isAsked && isInUse(this.table)) return;
    const { channels, isComplete } = await ask('channels', { app: this.app.value, prefix: this.prefix.value });
    table(this.table, ['Channel', '#Connections', '#Users'], channels.map((one) => [
      h('code', {}, one.name), count(one.connections), one.users === null ? '' : count(one.users)]), 'None.');
    this.note.textContent = isComplete
      ? plural(channels.length, 'channel') : `The first ${channels.length} that were found.`;
  }
}
