// The demonstration: two phones of the user `demo`, each with a client of its own, and what they say to the hub.
import { Carillon } from '/client/carillon.js';
import { plural, say, set } from './dom.js';
import { Network } from './network.js';
import { Phone } from './phone.js';
import { Wire } from './wire.js';

const $ = (id) => document.getElementById(id);

/** Tokens of the user, fresh ones before they expire. Each phone asks by its own network. */
class Tokens {
  #kept = null;

  constructor(network) {
    this.network = network;
  }

  async fresh() {
    if (this.#kept && this.#kept.until > Date.now()) return this.#kept;
    const answer = await this.network.fetch('/demo/token', { method: 'POST' });
    if (!answer.ok) throw new Error((await answer.json()).error);
    const { token, key, user, zone, seconds } = await answer.json();
    this.#kept = { token, key, user, zone, until: Date.now() + (seconds - 90) * 1000 };
    return this.#kept;
  }
}

/** The lowest number that no other tab has: each pair of phones has stores of its own. It is kept while the page is open. */
async function pair() {
  for (let number = 1; ; number += 1) {
    const isMine = await new Promise((resolve, reject) => {
      navigator.locks.request(`carillon-demo-${number}`, { ifAvailable: true }, (lock) => {
        resolve(Boolean(lock));
        return lock ? new Promise(() => {}) : undefined;
      }).catch(reject);
    });
    if (isMine) return number;
  }
}

async function begin() {
  const wire = new Wire($('rows'), $('pause'), $('clear'));
  const number = await pair();
  const phones = await Promise.all([['left', 'A'], ['right', 'B']].map(async ([id, letter]) => {
    const network = new Network((row) => wire.add(letter, row));
    const tokens = new Tokens(network);
    const { key, user, zone } = await tokens.fresh();
    const client = new Carillon({
      hub: location.origin, key, user, device: `${letter}${number}`, token: async () => (await tokens.fresh()).token,
      // The phones are where their user is, wherever this browser is.
      zone, deviceZone: () => client.zone, WebSocket: network.WebSocket, fetch: network.fetch,
    });
    return new Phone($(id), client, network);
  }));
  const [left, right] = phones;
  for (const phone of phones) {
    phone.onTurn = () => told(left, right);
    const { client } = phone;
    for (const value of [client.today(), client.reminders(), client.connection, client.queueLength, client.conflicts]) {
      value.subscribe(() => told(left, right));
    }
  }
  $('cut').addEventListener('click', () => phones.forEach((phone) => phone.turn(true)));
  $('mend').addEventListener('click', () => phones.forEach((phone) => phone.turn(false)));
  await Promise.all(phones.map(({ client }) => client.start()));
  globalThis.phones = phones;
}

/** What a phone shows, one text for each thing. */
function shown({ client }) {
  const doses = client.today().value?.occurrences ?? [];
  const rules = client.reminders().value?.items ?? [];
  return new Map([
    ...doses.map(({ id, status }) => [`dose ${id}`, status]),
    ...rules.map(({ id, label, time, enabled }) => [`reminder ${id}`, JSON.stringify([label, time, enabled])]),
  ]);
}

/** Whether both phones show the same, and whether the hub has all of it. */
function told(left, right) {
  const isKnown = [left, right].every(({ client }) => client.today().value && client.reminders().value);
  for (const phone of [left, right]) {
    set($(`${phone.id}-link`), 'data-state', phone.network.isDown ? 'down' : phone.client.connection.value);
  }
  const down = [left, right].filter(({ network }) => network.isDown).length;
  $('cut').disabled = down === 2;
  $('mend').disabled = down === 0;
  if (!isKnown) return;
  const [one, other] = [shown(left), shown(right)];
  const differ = [...new Set([...one.keys(), ...other.keys()])].filter((id) => one.get(id) !== other.get(id)).length;
  const decisions = left.client.conflicts.value.length + right.client.conflicts.value.length;
  const waits = left.waits + right.waits;
  const [state, text] = decisions ? ['ask', `${plural(decisions, 'conflict')} to decide`]
    : differ ? ['no', `They differ in ${plural(differ, 'place')}`]
      : waits ? ['wait', `Same on both, ${waits} not sent`] : ['yes', 'Both phones agree'];
  set(document.querySelector('.hub'), 'data-agree', state);
  say($('agreement'), text);
}

begin().catch((error) => {
  console.error(error);
  $('trouble').hidden = false;
  say($('trouble'), `The demonstration cannot start: ${error.message}`);
});
