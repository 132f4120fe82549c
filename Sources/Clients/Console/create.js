// An event by hand, to ordinary channels. Users' channels have what the database has, and nothing else.
import { ask } from './access.js';
import { h, plural, say } from './dom.js';
import { field, form } from './tables.js';

export class Create {
  constructor(container, apps) {
    this.app = h('select', {}, ...apps.map(({ id }) => h('option', { value: id }, id)));
    this.channels = h('input', { required: true, autocomplete: 'off', placeholder: 'news, or several with spaces between' });
    this.name = h('input', { required: true, autocomplete: 'off', placeholder: 'hello' });
    this.data = h('textarea', { required: true, spellcheck: 'false' });
    this.data.value = '{"text": "Hello"}';
    this.result = h('p', { role: 'status' });
    container.append(form({ class: 'fields' }, () => this.send(),
      field('App', this.app), field('Channels', this.channels), field('Event', this.name), field('Data', this.data),
      h('p', {}, h('button', { type: 'submit', class: 'main' }, 'Send')), this.result,
      h('p', { class: 'muted' }, 'Events of users’ channels come from the database alone.')));
  }

  async send() {
    const channels = this.channels.value.trim().split(/\s+/);
    const body = JSON.stringify({ name: this.name.value, channels, data: this.data.value });
    try {
      const { published } = await ask('publish', { app: this.app.value }, { method: 'POST', body });
      const counts = published.map(({ channel, connections }) => (
        `${plural(connections, 'connection')}${published.length > 1 ? ` of ${channel}` : ''}`));
      say(this.result, `Sent to ${counts.join(', ')}.`);
    } catch (error) {
      say(this.result, error.message);
    }
  }

  async look() {}
}
