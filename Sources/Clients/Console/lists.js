// Connections and channels, as they are now.
import { ask } from './access.js';
import { h, plural, say } from './dom.js';
import { bytes, count } from './plots.js';
import { field, form, isInUse, reveal, table } from './tables.js';

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
    this.result = h('p', { role: 'status', tabindex: -1 });
    this.who = h('strong');
    this.dialog = h('dialog', { 'aria-labelledby': 'end-what' },
      h('p', { id: 'end-what' }, 'End all connections of ', this.who, ' to this hub?'),
      h('p', { class: 'muted' }, 'On WebSockets, clients do not come back until their app connects again. '
        + 'A token that is good lets them in again: sync.revoke keeps a user out. '
        + 'The log names the address that ended them.'),
      h('p', { class: 'buttons' }, h('button', { type: 'button', class: 'main', onclick: () => this.#end() }, 'End them'),
        h('button', { type: 'button', onclick: () => this.dialog.close() }, 'Leave them')));
    container.append(this.result, this.dialog);
  }

  #ask(one) {
    this.one = one;
    say(this.who, `user ${one.user} of app ${one.app}`);
    this.dialog.showModal();
  }

  async #end() {
    const { user, app } = this.one;
    this.dialog.close();
    try {
      const { ended } = await ask('terminate', { user, app }, { method: 'POST' });
      say(this.result, `${plural(ended, 'connection')} of user ${user} ended.`);
    } catch (error) {
      say(this.result, error.message);
    }
    await this.look(true);
    // The button that was pressed is gone.
    this.result.focus();
  }

  async look(isAsked = false) {
    const stays = () => !isAsked && isInUse(this.table);
    if (stays()) return;
    const { connections } = await ask('connections', { user: this.user.value });
    if (stays()) return;
    const columns = ['Socket', 'User', 'App', 'Kind', 'Address', 'Channels', '#Waits', 'Reads', ''];
    table(this.table, columns, connections.map((one) => [
      h('code', {}, one.socket), one.user ?? '–', one.app ?? '–', one.kind, one.address,
      h('span', { class: 'mono' }, one.channels.join(', ') + (one.channelCount > one.channels.length
        ? ` and ${one.channelCount - one.channels.length} more` : '')),
      bytes(one.unsentBytes), one.isBehind ? 'behind, by pages' : 'live',
      one.user && one.app ? h('button', { type: 'button', class: 'small', onclick: () => this.#ask(one) }, 'End …') : '',
    ]), 'Nobody.');
  }
}

export class Channels extends List {
  constructor(container, apps) {
    const app = h('select', {}, ...apps.map(({ id }) => h('option', { value: id }, id)));
    const prefix = h('input', { type: 'search', placeholder: 'all', autocomplete: 'off' });
    super(container, 'Channels', '', field('App', app), field('Name begins with', prefix));
    Object.assign(this, { app, prefix });
  }

  /** While somebody's names are open, the list stays as it is. */
  async look(isAsked = false) {
    const stays = () => !isAsked && (isInUse(this.table) || this.table.querySelector('pre'));
    if (stays()) return;
    const { channels, isComplete } = await ask('channels', { app: this.app.value, prefix: this.prefix.value });
    if (stays()) return;
    table(this.table, ['Channel', '#Connections', '#Users', ''], channels.map((one) => [
      h('code', {}, one.name), count(one.connections), one.users === null ? '' : count(one.users),
      one.users === null ? '' : this.#who(one.name)]), 'None.');
    this.note.textContent = isComplete
      ? plural(channels.length, 'channel') : `The first ${channels.length} that were found.`;
  }

  /** The users of a presence channel. */
  #who(channel) {
    const cell = h('span');
    cell.append(h('button', { type: 'button', class: 'small', onclick: async ({ target }) => {
      target.disabled = true;
      let text;
      try {
        const { count: all, users } = await ask('members', { app: this.app.value, channel });
        text = [...users, ...(all > users.length ? [`and ${all - users.length} more`] : [])].join('\n');
      } catch (error) {
        text = error.message;
        target.disabled = false;
      }
      reveal(cell, text);
    } }, 'Who?'));
    return cell;
  }
}
