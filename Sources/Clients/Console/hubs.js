// The hubs with which this one shares ordinary channels, as Redis knows them.
import { ask } from './access.js';
import { h, say } from './dom.js';
import { bytes, count } from './plots.js';
import { isInUse, table } from './tables.js';

/** Redis is asked this seldom, in milliseconds. */
const INTERVAL = 5000;

const many = (number, one) => `${count(number)} ${one}${number === 1 ? '' : 's'}`;
const seconds = (age) => `${(age / 1e6).toFixed(1)} s ago`;

export class Hubs {
  #asked = 0;

  constructor(element) {
    this.state = h('p', { class: 'muted' });
    this.list = h('table', { 'aria-label': 'Hubs' });
    element.replaceChildren(h('h2', {}, 'Hubs'), this.state, h('div', { class: 'scroll' }, this.list));
    element.hidden = false;
  }

  /** A Redis that is away is told here, and takes nothing else from the page. */
  async look() {
    if (Date.now() - this.#asked < INTERVAL) return;
    this.#asked = Date.now();
    try {
      this.#show(await ask('hubs'));
    } catch (error) {
      if (error.status === 401) throw error;
      say(this.state, error.message);
    }
  }

  #show(group) {
    const most = group.memoryMost ? ` of ${bytes(group.memoryMost)}` : '';
    const beat = group.beatAge === null ? 'no beat yet' : `last beat ${seconds(group.beatAge)}`;
    say(this.state, `${group.server}, ${bytes(group.memory)}${most}. ${many(group.channels, 'channel')}, `
      + `${many(group.webhooks, 'webhook')} waiting, ${beat}.`);
    if (isInUse(this.list)) return;
    table(this.list, ['Hub', 'Version, host and process', 'Heard'], group.hubs.map((hub) => [
      h('code', {}, hub.number), hub.about || '–',
      `${seconds(hub.silence)}${hub.isLate ? ', taken for dead' : ''}${hub.isThisOne ? ', this one' : ''}`,
    ]), 'No hub is there.');
  }
}
