// One phone: a client of its own, with a store and a network of its own, and three pages.
import { h, plural, say, set } from './dom.js';
import { ConflictDialog } from './conflict.js';
import { MonthView } from './month.js';
import { RemindersView } from './reminders.js';
import { TodayView } from './today.js';

const STATES = {
  offline: 'Reconnecting', connecting: 'Connecting', signing_in: 'Signing in', connected: 'Connected', refused: 'Refused',
  closed: 'Closed',
};

export class Phone {
  constructor(element, client, network) {
    Object.assign(this, { element, client, network, id: element.id, name: element.querySelector('h2').textContent });
    this.state = h('span', { class: 'state' });
    this.away = h('button', {
      type: 'button', role: 'switch', class: 'switch', 'aria-checked': 'false',
      'aria-labelledby': `${this.id}-name ${this.id}-away`,
      onclick: () => this.turn(!network.isDown),
    });
    const bar = element.querySelector('.bar');
    bar.append(this.state, h('span', { class: 'away' }, h('span', { id: `${this.id}-away` }, 'Offline'), this.away));
    this.pages = { Today: new TodayView(this), Month: new MonthView(this), Reminders: new RemindersView(this) };
    this.news = h('p', { class: 'unseen', role: 'status' });
    this.notice = new Notice(this);
    this.dialog = new ConflictDialog(this);
    this.tabs = new Tabs(this);
    this.covered = [this.tabs.panel, this.tabs.list, this.notice.element];
    this.screen = h('div', { class: 'screen' }, this.tabs.panel, this.notice.element, this.tabs.list, this.dialog.element);
    element.append(this.screen, this.news);
    const [today, reminders] = [client.today(), client.reminders()];
    const day = () => { this.pages.Today.update(today.value); this.pages.Month.update(today.value); };
    today.subscribe(day);
    reminders.subscribe((value) => this.pages.Reminders.update(value));
    client.conflicts.subscribe((value) => this.dialog.update(value));
    client.failures.subscribe(([first]) => this.#refused(first));
    client.connection.subscribe(() => this.#stateIs());
    client.queueLength.subscribe(() => this.#stateIs());
    this.#stateIs();
  }

  get waits() { return this.client.queueLength.value; }

  /** Cuts this phone's network, or mends it. */
  turn(isDown) {
    if (isDown === this.network.isDown) return;
    if (isDown) this.network.cut();
    else this.network.mend();
    set(this.away, 'aria-checked', `${isDown}`);
    this.#stateIs();
    this.onTurn?.();
  }

  async act(type, payload) {
    try {
      return await this.client.act(type, payload);
    } catch (error) {
      this.notice.show(error.message);
      throw error;
    }
  }

  async undo(key) {
    await this.client.undo(key);
    this.notice.hide();
  }

  /** Tells what was done, with a way back. It stays until the next one: nobody has to hurry. */
  offer(text, undo) {
    this.announce(text);
    this.notice.show(text, ['Undo', undo]);
  }

  announce(text) {
    say(this.news, `${this.name}: ${text}`);
  }

  /** The focus goes to the page that is open. */
  focus() {
    this.tabs.panel.focus();
  }

  #refused(failure) {
    if (failure) this.notice.show(failure.message ?? `The hub refuses this: ${failure.code}`,
      ['OK', () => this.client.dismiss(failure.key)]);
  }

  #stateIs() {
    const { isDown } = this.network;
    const state = isDown ? 'Offline' : STATES[this.client.connection.value];
    const waits = this.waits ? ` · ${this.waits} waiting` : '';
    say(this.state, state + waits);
    set(this.element, 'data-state', isDown ? 'down' : this.client.connection.value);
    if (this.wasState !== state) this.announce(state + (this.waits ? `, ${plural(this.waits, 'action')} waiting` : ''));
    this.wasState = state;
  }
}

/** The line at the bottom: what was done, and a button. */
class Notice {
  constructor(phone) {
    this.phone = phone;
    this.text = h('span');
    this.button = h('button', { type: 'button', class: 'small' });
    this.button.addEventListener('click', () => this.#press());
    this.element = h('div', { class: 'notice', hidden: true }, this.text, this.button);
  }

  show(text, [word, does] = ['OK', () => {}]) {
    say(this.text, text);
    say(this.button, word);
    set(this.button, 'aria-label', word === 'Undo' ? `Undo: ${text}` : null);
    this.does = does;
    this.element.hidden = false;
  }

  hide() {
    if (this.element.contains(document.activeElement)) this.phone.focus();
    this.element.hidden = true;
  }

  #press() {
    const { does } = this;
    this.hide();
    does?.();
  }
}

/** The pages, as tabs (ARIA Authoring Practices, "Tabs"). */
class Tabs {
  constructor(phone) {
    const { id, pages } = phone;
    this.tabs = Object.keys(pages).map((name) => h(
      'button', { type: 'button', role: 'tab', id: `${id}-${name}`, 'aria-controls': `${id}-panel`,
        onclick: () => this.open(name) }, name));
    this.pages = pages;
    this.list = h('div',
      { class: 'tabs', role: 'tablist', 'aria-label': `Pages of ${phone.name}`, onkeydown: (event) => this.#key(event) },
      ...this.tabs);
    this.panel = h('div', { class: 'panel', role: 'tabpanel', id: `${id}-panel`, tabindex: 0 },
      ...Object.values(pages).map(({ element }) => element));
    this.open('Today');
  }

  open(name) {
    for (const tab of this.tabs) {
      const isOpen = tab.textContent === name;
      set(tab, 'aria-selected', `${isOpen}`);
      tab.tabIndex = isOpen ? 0 : -1;
      this.pages[tab.textContent].element.hidden = !isOpen;
      if (isOpen) set(this.panel, 'aria-labelledby', tab.id);
    }
    this.panel.scrollTop = 0;
  }

  #key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const { length } = this.tabs;
    const index = this.tabs.indexOf(document.activeElement) + steps[event.key];
    const tab = this.tabs[Number.isFinite(index) ? (index + length) % length : index < 0 ? 0 : length - 1];
    this.open(tab.textContent);
    tab.focus();
  }
}
