// Why did a user not get an event? The way of one event, from its row to the sockets of the user's devices.
import { ask } from './access.js';
import { h, plural, say, set } from './dom.js';
import { bytes, time } from './plots.js';
import { clock, field, form, table } from './tables.js';

const STATES = {
  written: 'Its socket took the event.', queued: 'The event waits for its socket, which takes nothing at the moment.',
  behind: 'It reads too slowly, and is to get the event by a page of the log.',
  caught: 'It read too slowly, and has caught up by pages of the log.',
  gone: 'It left before its socket took the event. When it comes back, it asks for what it missed.',
  replayed: 'It came back later, and the event was replayed to it.',
  lost: 'It was told that what it missed cannot be had, and to fetch a snapshot.',
  handed: 'It was in the channel, and was handed the event.',
  present: 'It is in the channel. When it came is not remembered.',
};

/** What is well; `present` is neither. */
const KINDS = { written: 'yes', caught: 'yes', replayed: 'yes', handed: 'yes', later: 'yes', present: '' };

export class Way {
  constructor(container) {
    this.user = h('input', { required: true, autocomplete: 'off', placeholder: '42' });
    this.topic = h('input', { required: true, value: 'adherence', autocomplete: 'off' });
    this.number = h('input', {
      placeholder: 'the last one', autocomplete: 'off', pattern: '(\\S+:)?[0-9]+',
      title: 'A number, or a position: epoch:number',
    });
    this.verdict = h('p', { class: 'verdict', role: 'status', tabindex: -1 });
    this.steps = h('ol', { class: 'steps' });
    this.last = h('table', { 'aria-label': 'The last events in the log' });
    this.list = h('div', { hidden: true }, h('h2', {}, 'The last events in the log'),
      h('div', { class: 'scroll' }, this.last));
    container.append(
      form({ class: 'filters' }, () => this.look(),
        field('User', this.user), field('Topic', this.topic), field('Number of the event', this.number),
        h('button', { type: 'submit', class: 'main' }, 'Why?')),
      this.verdict, this.steps, this.list);
  }

  /** Of the event with that number of that epoch in `user.ID.TOPIC`. */
  async explain(channel, offset, epoch) {
    const [, user, topic] = /^user\.(.+)\.([a-z_]+)$/.exec(channel);
    this.user.value = decoded(user);
    this.topic.value = topic;
    this.number.value = epoch ? `${epoch}:${offset}` : offset;
    await this.look();
    // The button that was pressed is gone.
    this.verdict.focus();
  }

  async look() {
    const channel = `user.${encoded(this.user.value)}.${this.topic.value}`;
    const { epoch: now, top, events } = await ask('log', { channel });
    // A number alone is one of the epoch in which the database is. A position of a device or an answer names its own.
    const [, epoch = now, offset = top] = /^(?:(\S+):)?(\d+)$/.exec(this.number.value.trim()) ?? [];
    if (epoch === now && this.number.value) this.number.value = offset;
    table(this.last, ['#Number', 'Kind', '#Size', 'Time', ''], events.map((event) => [
      `${event.o}`, event.name, bytes(event.bytes), h('span', { class: 'mono' }, clock(event.ageMs * 1000)),
      h('button', { type: 'button', class: 'small', onclick: () => this.explain(channel, event.o, now) }, 'Its way')]),
    'No events.');
    this.list.hidden = false;
    if (Number(offset) === 0) {
      say(this.verdict, 'Nothing was ever committed for this channel.');
      return this.steps.replaceChildren();
    }
    this.#show(await ask('way', { channel, offset, epoch }));
  }

  #show(way) {
    say(this.verdict, `Event ${way.offset}: ${way.verdict}`);
    const { row, home, position, devices, elsewhere } = way;
    const start = home?.committed ?? row.age ?? null;
    const isPast = position?.epoch === way.epoch && position.offset >= way.offset;
    const stands = position && `${position.offset}${position.epoch === way.epoch ? '' : ` of epoch ${position.epoch}`}`;
    const steps = [
      ['Numbered', { found: 'yes', absent: 'no' }[row.state] ?? '', row.age, {
        found: () => `Number ${way.offset} in the log: ${row.name}, ${bytes(row.bytes)}.`,
        absent: () => `Not in the log. The channel stands at ${row.top}.`,
        otherEpoch: () => `Of epoch ${way.epoch}. The log is in ${row.epoch}, where the channel stands at ${row.top}.`,
        unknown: () => 'The database did not answer.',
      }[row.state]()],
      ['Read', home || isPast ? 'yes' : 'no', home?.read,
        home ? 'This hub read it from the log.' : !position ? 'Nobody is in the channel here, so this hub does not read it.'
          : isPast ? 'Read; nothing more is remembered of it.' : `Not read: this hub stands at ${stands}.`],
      ['Homed', home || isPast ? 'yes' : 'no', home?.homed,
        home ? `Loop ${home.loop} owns the channel, and handed it to ${plural(way.subscribers, 'subscriber')}.`
          : !position ? 'No loop has the channel.' : `The channel's owner stands at ${stands}.`],
      ...devices.map((device) => [`Device ${device.socket}`, KINDS[device.state] ?? 'no',
        device.written ?? null, words(device)]),
      ...elsewhere.map((socket) => [`Device ${socket}`, 'no', null,
        'It is connected as this user, and has not subscribed to the channel.']),
    ];
    this.steps.replaceChildren(...steps.map(([name, state, age, says]) => h('li', { 'data-state': state },
      h('span', { class: 'name' }, name), h('span', { class: 'at' }, moment(age, start)),
      h('span', { class: 'says' }, says))));
    set(this.steps, 'data-offset', way.offset);
  }
}

/** The first step by the clock, the others by their distance from it. */
function moment(age, start) {
  if (age === null || age === undefined) return '';
  return start === null || age >= start ? clock(age) : `+${time((start - age) / 1e6)}`;
}

function words(device) {
  const says = device.state === 'later'
    ? `It came later, at number ${device.since}: what is before is in its snapshot.` : STATES[device.state];
  const waits = device.unsentBytes ? ` ${bytes(device.unsentBytes)} wait for it now.` : '';
  return `${says}${waits}${device.isConnected ? '' : ' It is not connected any more.'}`;
}

/** As users' ids are written in names of channels. */
const encoded = (user) => [...new TextEncoder().encode(user)]
  .map((byte) => (/[-A-Za-z0-9_@,.;]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte)
    : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`)).join('');

const decoded = (name) => new TextDecoder().decode(Uint8Array.from(
  name.match(/=[0-9A-F]{2}|./g) ?? [], (part) => (part.length === 3 ? parseInt(part.slice(1), 16) : part.charCodeAt(0))));
