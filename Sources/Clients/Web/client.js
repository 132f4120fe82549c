// The client: one for each signed-in user, in each tab.
import { append, cancel, decide, decision, dismiss, requeue, rowByKey, rowOf, textsOf, told } from './acting.js';
import { OwnChannels } from './channels.js';
import { Line, PusherLine } from './line.js';
import { counting, day, foldDoses, medications, month, nextEdge, nextReminder, reminders } from './overlay.js';
import { KEPT_MS, Queue, WAITING } from './queue.js';
import { Api, Session, tokensOf } from './session.js';
import { CarillonError, insist, Pace, Signal } from './signals.js';
import { FenceLost, Store } from './store.js';
import { channelOf, Stream, sweep } from './streams.js';
import { Leadership } from './tabs.js';
import { dayAt, dayText, ofMilliseconds, ownZone, zoneOffset } from './times.js';

const TOPICS = ['adherence', 'reminders', 'medications'];
const LOOK_MS = 10_000;

export class Carillon {
  #store = null;
  #lead = null;
  #months = new Map();
  #plain;
  #edge = null;
  #pace = new Pace(0, Infinity, () => { if (!this.isOver) this.#compute(); });

  /**
   * `hub`: its address, such as `https://hub.example.com`; `key`: the app's; `user`: the user's id; `token()`: a fresh token
   * of the user, from the app's backend. `pusher`: the app's own pusher-js, to be used in place of a connection. `device`:
   * a name, where one browser plays several devices: each has a store of its own.
   */
  constructor({ hub, key, user, token, pusher = null, topics = TOPICS, device = null, ...more }) {
    if (!hub || !user || typeof token !== 'function' || !(key || pusher)) {
      throw new CarillonError('invalid', 'hub, user, token, and key or pusher are needed');
    }
    this.user = user;
    this.topics = topics;
    this.options = { hub, key, token: tokensOf(user, token), pusher, ...more };
    this.name = `carillon:${new URL(hub).origin}:${user}${device === null ? '' : `:${device}`}`;
    this.now = more.now ?? Date.now;
    this.api = new Api({ hub, user, token: this.options.token, ...(more.fetch && { fetch: more.fetch }) });
    this.connection = new Signal('offline');
    this.conflicts = new Signal([]);
    this.failures = new Signal([]);
    this.queueLength = new Signal(0);
    this.lastSyncAt = new Signal(null);
    this.problem = new Signal(null);
    this.storage = new Signal({ state: 'opening' });
    this.zoneChanged = new Signal(null);
    this.isLeader = new Signal(false);
    this.#plain = this.#ownChannels();
    this.values = { today: new Signal(undefined), reminders: new Signal(undefined), medications: new Signal(undefined) };
  }

  /** Opens the store, shows what is in it, and connects. */
  async start() {
    this.isOver = false;
    try {
      if (globalThis.isSecureContext === false) {
        throw new CarillonError('insecure', 'the page\'s address begins with https, but for localhost and 127.0.0.1');
      }
      await this.#open();
    } catch (error) {
      this.#keeps({ state: error.code === 'storage_full' ? 'full' : 'unavailable' });
      throw error;
    }
    navigator.storage?.persist?.().then((isPersisted) => this.#keeps({ isPersisted }), () => {});
    this.onVisible = () => {
      if (globalThis.document?.visibilityState !== 'hidden') this.#store?.refresh().catch(() => {}).then(() => this.#soon());
    };
    globalThis.document?.addEventListener('visibilitychange', this.onVisible);
    return this;
  }

  async #open() {
    this.#store = await Store.open(this.name, {
      onChange: (changes) => this.#changed(changes), onLost: (reason) => this.#lost(reason),
    });
    this.#store.onMessage = (message) => this.#heard(message);
    this.#keeps({ state: 'ok' });
    this.#compute();
    this.#lead = new Leadership(this.#store, {
      onGain: (fence) => this.#gained(fence), onLoss: () => this.#stepDown(), now: this.now,
      ...(this.options.locks !== undefined && { locks: this.options.locks }),
    });
    this.#lead.start();
    this.#store.tell({ ask: 'state' });
  }

  /** Ends this tab's part; the store stays. */
  async close() {
    this.isOver = true;
    clearTimeout(this.#edge);
    this.#pace.stop();
    globalThis.document?.removeEventListener('visibilitychange', this.onVisible);
    await this.#lead?.stop();
    this.#plain.stop();
    this.#store?.close();
    this.connection.set('closed');
  }

  /**
   * Signs the user out and deletes what the device keeps. With actions that no hub has confirmed it asks: it throws
   * `unsent_actions`, and the app calls again with `discard` or `keep` (for the user's next sign-in here).
   */
  async signOut({ unsent = 'ask' } = {}) {
    if (unsent === 'ask') {
      await this.#opened.write(async (work) => {
        const rows = work.all('actions').filter((row) => [...WAITING, 'parked'].includes(row.state));
        if (rows.length) {
          throw new CarillonError('unsent_actions', 'actions of this user are not confirmed', { actions: rows.map(told) });
        }
        await work.put('meta', true, 'isSignedOut');
      }, { strict: true });
    }
    if (unsent !== 'keep') await this.#store?.wipe();
    // The store may stay: it is kept, or this page ends before it deletes it.
    this.#store?.tell({ isSignedOut: true });
    await this.close();
    if (unsent !== 'keep') await Store.remove(this.name);
  }

  /** Deletes what this browser keeps of the user, with all that no hub has confirmed: of a store that cannot be opened. */
  async removeStore() {
    await this.close();
    await Store.remove(this.name);
  }

  // Values.

  /** The doses of today, with summary and statistics. */
  today() { return this.values.today; }

  /** The summaries of a month, such as `2025-11`. */
  month(name) {
    if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(name)) throw new CarillonError('invalid', 'a month is such as 2025-11');
    let value = this.#months.get(name);
    if (!value) {
      this.#months.set(name, value = new Signal(undefined));
      if (this.#store) this.#computeMonth(name, value);
      if (value.value === undefined) this.#want(name);
    }
    return value;
  }

  /** The rules of reminders, and the occurrences that differ from them. */
  reminders() { return this.values.reminders; }

  /** Medications, stacks and settings. */
  medications() { return this.values.medications; }

  /** The user's zone. */
  get zone() {
    return this.#store?.mirror.kind('settings').get('settings')?.value?.timezone ?? this.options.zone ?? ownZone();
  }

  get deviceId() { return this.#mirror.meta.get('device'); }

  get #opened() {
    if (!this.#store) throw new CarillonError('not_started', 'this client has no store yet: await its start()');
    return this.#store;
  }

  get #mirror() { return this.#opened.mirror; }

  // Actions.

  /** Does what the person wants, here at once and on the hub as soon as it can be: `{key, prediction}`. */
  async act(type, payload = {}, { base } = {}) {
    const { row, prediction } = rowOf({
      type, payload, base, mirror: this.#mirror, zone: this.zone, now: this.#instant(),
    });
    await this.#keep((work) => append(work, row));
    return { key: row.key, id: row.payload.id, prediction };
  }

  /** Takes an action back. What was never sent is never sent. */
  async undo(key) {
    let made = null;
    await this.#keep(async (work) => {
      made = null;
      if (!await cancel(work, key)) return;
      const { row } = rowOf({
        type: 'undo', payload: { targetKey: key }, mirror: this.#mirror, zone: this.zone, now: this.#instant(),
      });
      await append(work, row);
      made = row.key;
    });
    return { key: made };
  }

  /** Decides a conflict: `keep_local`, `accept_server` or `merge` with what the person made of both. */
  async resolve(key, choice, merged) {
    const row = rowByKey(this.#mirror, key);
    if (row?.state !== 'parked' || !row.answer) throw new CarillonError('no_conflict', 'that action has no conflict');
    const wanted = decision(row, choice, merged);
    const made = wanted && rowOf({
      ...wanted, mirror: this.#mirror, zone: this.zone, now: this.#instant(),
    }).row;
    await this.#keep((work) => decide(work, key, made));
    return { key: made?.key ?? null };
  }

  /** A refused action has been seen. */
  dismiss(key) {
    return this.#keep((work) => dismiss(work, key));
  }

  /** Answers `zoneChanged`: `convert` moves what follows the user to the new zone, `keep` leaves it. */
  async setZone(choice) {
    const changed = this.zoneChanged.value;
    if (!changed) return;
    if (choice === 'convert') await this.act('updateSettings', { timezone: changed.to });
    else await this.#keep((work) => work.put('meta', changed.to, 'keptZone'));
    this.zoneChanged.set(null);
  }

  /** Any channel of the hub: calls `listener(event, data)`; returns what ends it. */
  subscribe(channel, listener) { return this.#plain.subscribe(channel, listener); }

  // Rows.

  async #keep(work) {
    if (this.isOver) throw new CarillonError('closed', 'this client is closed');
    try {
      const result = await this.#opened.write(work, { strict: true });
      if (this.storage.value.state === 'full') this.#keeps({ state: 'ok' });
      this.#compute();
      return result;
    } catch (error) {
      if (error.code === 'storage_full') this.#keeps({ state: 'full' });
      throw error;
    }
  }

  #keeps(change) { this.storage.set({ ...this.storage.value, ...change }); }

  #rows(states) {
    return [...this.#store?.mirror.actions.values() ?? []].filter((row) => states.includes(row.state));
  }

  #instant() { return ofMilliseconds(this.now()); }

  // Computing.

  #changed(changes) {
    // While the store opens, there is nothing to tell yet.
    if (this.isOver || !this.#lead) return;
    if (changes === null || changes.some(([store]) => store === 'actions')) this.queue?.pump();
    this.#soon();
  }

  #soon() {
    if (this.isDue) return;
    this.isDue = true;
    // After all that this task brings.
    setTimeout(() => { if (this.isDue && !this.isOver) this.#pace.want(); });
  }

  #compute() {
    this.isDue = false;
    this.#pace.stop();
    const begun = performance.now();
    const { mirror } = this.#store;
    const now = this.#instant();
    const { zone } = this;
    const folded = foldDoses(mirror, zone, now);
    this.values.today.set(day(mirror, folded, this.user, this.#date(), now));
    for (const [name, value] of this.#months) this.#computeMonth(name, value, folded);
    this.values.reminders.set(reminders(mirror, zone, now));
    this.values.medications.set(medications(mirror, this.user));
    this.queueLength.set(this.#rows(WAITING).length);
    this.conflicts.set(this.#rows(['parked']).filter((row) => row.answer && !row.decidedBy).map(told));
    this.failures.set(this.#rows(['failed']).map(told));
    this.lastSyncAt.set(mirror.meta.get('lastSyncAt') ?? null);
    this.#compareZones(mirror);
    clearTimeout(this.#edge);
    const edge = Math.min(nextEdge(folded, zone, now), nextReminder(this.values.reminders.value));
    // Where a computer has slept, a timer goes on as if no time had passed: it looks again soon.
    const wait = Math.min(Math.max(edge - this.now(), 1), LOOK_MS);
    this.#edge = setTimeout(() => { this.#compute(); this.#complete(); }, wait);
    this.#complete();
    // A tenth of the time at most, while much changes; what the person does is seen at once.
    this.#pace.everyMs = Math.min(9 * (performance.now() - begun), 500);
  }

  #computeMonth(name, value, folded) {
    const now = this.#instant();
    const { mirror } = this.#store;
    value.set(month(mirror, folded ?? foldDoses(mirror, this.zone, now), name, now));
  }

  #date() {
    const now = this.#instant();
    return dayText(dayAt(now, zoneOffset(this.zone, now) ?? 0));
  }

  #compareZones(mirror) {
    // With the answer that waits in the queue: a person is asked once.
    const settings = this.values.medications.value?.settings;
    const to = this.options.deviceZone?.() ?? ownZone();
    if (!settings || settings.timezone === to || mirror.meta.get('keptZone') === to) this.zoneChanged.set(null);
    else this.zoneChanged.set({ from: settings.timezone, to });
  }

  // Tabs.

  #heard(message) {
    if (message.isSignedOut) {
      this.#store.close();
      this.#lost('replaced');
    }
    if (message.ask === 'state' && this.#lead?.fence !== null) this.#tellState();
    if (message.state !== undefined && this.#lead?.fence === null) {
      this.connection.set(message.state);
      this.problem.set(message.problem);
      // The leader may be another one, which does not know what this tab watches.
      for (const name of this.#months.keys()) this.#store.tell({ want: name });
    }
    if (message.want && this.#lead?.fence !== null) this.#want(message.want);
  }

  #tellState() {
    const { value } = this.problem;
    const problem = value && { code: value.code, message: value.message };
    this.#store.tell({ state: this.connection.value, problem });
  }

  #want(name) {
    this.wanted ??= new Set();
    this.wanted.add(name);
    if (this.line) this.#complete();
    else this.#store?.tell({ want: name });
  }

  #complete() {
    this.streams?.get('adherence')?.complete();
  }

  #gained(fence) {
    if (this.isOver) return;
    this.#plain.stop();
    this.isLeader.set(true);
    const line = this.line = this.#makeLine();
    const host = {
      store: this.#store, fence, api: this.api, line, user: this.user, own: (key) => textsOf(this.#mirror, key),
      today: () => this.#date(), months: () => new Set([...this.#months.keys(), ...this.wanted ?? []]),
      isReady: () => this.session?.isReady === true, onFailure: (error) => this.#failed(error),
      onCaughtUp: () => this.#caughtUp(fence), onAnswer: () => this.#synced(fence),
    };
    this.streams = new Map(this.topics.map((topic) => [topic, new Stream(host, this.user, topic)]));
    this.queue = new Queue(host);
    this.session = new Session({
      line, user: this.user, token: this.options.token, onReady: () => this.#ready(),
      onProblem: (error) => { this.problem.set(error); this.#tellState(); },
    });
    line.onState = (state, more) => this.#lineIs(state, more);
    line.onFrame = (frame) => this.#frame(frame);
    line.start();
    if (line.state !== 'offline') this.#lineIs(line.state, {});
    this.#tidy(fence);
  }

  #makeLine() {
    const { pusher, hub, key, backoff, authorize, WebSocket } = this.options;
    return pusher ? new PusherLine(pusher) : new Line({ hub, key, backoff, authorize, ...(WebSocket && { WebSocket }) });
  }

  #stepDown() {
    this.isLeader.set(false);
    for (const stream of this.streams?.values() ?? []) stream.stop();
    this.queue?.stop();
    this.session?.state('offline');
    if (this.line) this.line.onState = this.line.onFrame = () => {};
    this.line?.stop();
    this.line = this.queue = this.session = this.streams = null;
    if (!this.isOver) {
      this.#plain.listen();
      this.#store.tell({ ask: 'state' });
    }
  }

  #lineIs(state, more) {
    if (state === 'refused') this.problem.set(new CarillonError(state, `the hub said ${more.code}: ${more.reason}`, more));
    this.connection.set(state === 'open' ? 'signing_in' : state);
    this.#tellState();
    this.session.state(state);
    if (state === 'open') {
      // What was there is asked for before the subscribes are answered; all in one message.
      const channels = {};
      for (const stream of this.streams.values()) {
        stream.left();
        stream.joined();
        const position = stream.wish();
        if (position) channels[stream.name] = position;
      }
      this.resumes = channels;
      this.#plain.join(this.line);
    } else {
      for (const stream of this.streams.values()) stream.left();
      this.queue.reset();
    }
  }

  #ready() {
    this.connection.set('connected');
    this.#tellState();
    if (Object.keys(this.resumes).length) this.line.send('sync:resume', { v: 1, channels: this.resumes });
    this.queue.pump();
  }

  #frame({ event, channel, data }) {
    this.session?.hear({ event, data });
    if (event === 'sync:result') this.queue.answered(data);
    if (event === 'sync:resumed') {
      for (const stream of this.streams.values()) {
        const told = data.channels?.[stream.name];
        if (told) stream.resumed(told);
      }
    }
    if (!channel) return;
    for (const stream of this.streams.values()) {
      if (channel !== stream.name) continue;
      if (event === 'pusher_internal:subscription_succeeded') stream.subscribed(data ?? {});
      else stream.take(event, data);
    }
    this.#plain.hear({ event, channel, data });
  }

  #ownChannels() {
    const client = this;
    return new OwnChannels({
      get line() { return client.line; },
      get isOver() { return client.isOver; },
      makeLine: () => this.#makeLine(), user: this.user, token: this.options.token,
      isStream: (name) => this.topics.some((topic) => channelOf(this.user, topic) === name),
    });
  }

  // What the leader notices.

  #failed(error) {
    if (error instanceof FenceLost) this.#lead?.lose();
    else if (error.code === 'storage_full') this.#keeps({ state: 'full' });
    else if (error.code !== 'closed') this.problem.set(error);
  }

  #caughtUp(fence) {
    if (this.storage.value.state === 'full') this.#keeps({ state: 'ok' });
    if ([...this.streams?.values() ?? []].every((stream) => stream.isLive)) this.#synced(fence);
    this.#complete();
  }

  /** The hub has confirmed what is here. */
  #synced(fence) {
    const now = this.now();
    if (now - (this.syncedAt ?? 0) < 1000) return;
    this.syncedAt = now;
    this.#store.write((work) => work.put('meta', new Date(now).toISOString(), 'lastSyncAt'), { fence })
      .catch((error) => this.#failed(error));
  }

  /** Forgets what cannot be undone any more. */
  #tidy(fence) {
    const { mirror } = this.#store;
    const unconfirmed = new Set(counting(mirror));
    const old = this.#rows(['done']).filter((row) => this.now() - row.at > KEPT_MS && !unconfirmed.has(row));
    this.#store.write(async (work) => { for (const row of old) work.delete('actions', row.id); }, { fence })
      .then(() => sweep(this.#store, fence)).catch((error) => this.#failed(error));
  }

  /** The store is gone from under this tab: it was replaced, or the browser has closed it. */
  async #lost(reason) {
    if (this.isOver || !this.#store) return;
    const { mirror, isFull } = this.#store;
    const rows = this.#rows([...WAITING, 'parked', 'failed']);
    const lead = this.#lead;
    this.#lead = null;
    await lead?.stop();
    if (reason === 'replaced') {
      this.isOver = true;
      this.#plain.stop();
      this.#keeps({ state: 'replaced' });
      this.connection.set('closed');
      return;
    }
    this.#keeps(isFull ? { state: 'full' } : { state: 'wiped', kept: 0 });
    try {
      // The browser may still be deleting the old one; a full disk has room again when it has.
      await insist(() => this.#open(), () => this.isOver, isFull ? Infinity : 10);
      // It was closed, and nothing more.
      if (mirror.meta.get('device') === this.deviceId) return;
      // What no hub has confirmed is still in memory.
      await this.#store.write((work) => requeue(work, rows), { strict: true });
      this.#keeps({ state: 'wiped', kept: rows.length });
      this.#compute();
    } catch (error) {
      this.#keeps({ state: 'lost' });
      this.problem.set(error);
    }
  }
}
