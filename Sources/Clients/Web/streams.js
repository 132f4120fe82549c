// The user's channels, as the leading tab keeps them: resumes each from its stored position, fetches a snapshot where that
// does not reach, and writes each event and its position in one transaction.
import { foldEvent, KINDS, putDay, putList, putMonth } from './entities.js';
import { jitter, Pace } from './signals.js';
import { dayNumber, dayText } from './times.js';

const BATCH = 200;
/** A transaction of the store costs as much as many events: those that come faster are stored together. */
const STORE_MS = 100;
/** So many events wait for a snapshot at most; beyond that, another one is cheaper. */
const HELD_MAX = 5000;
/** Days ahead whose doses are kept for times without a network, besides today. */
const DAYS_AHEAD = 2;

/** What actions on a topic touch. */
const OWN = { adherence: ['dose'], reminders: ['reminder'], medications: ['medication', 'stack', 'schedule', 'settings'] };

/** `user.<id>.<topic>`, as the hub writes it. */
export function channelOf(user, topic) {
  const id = [...new TextEncoder().encode(user)].map((byte) => {
    const character = String.fromCharCode(byte);
    return /[-A-Za-z0-9_@,.;]/.test(character) ? character : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }).join('');
  return `user.${id}.${topic}`;
}

export class Stream {
  /** `host`: `{store, fence, api, line, own(key), today(), onFailure(error), onCaughtUp()}`. */
  constructor(host, user, topic) {
    Object.assign(this, { host, topic, name: channelOf(user, topic), inbox: [], isOver: false, attempt: 0 });
    this.phase = 'idle';
    /** Doses of which the hub has no texts, each with the number that it had here: asked again when that has changed. */
    this.gone = new Map();
    this.pace = new Pace(STORE_MS, BATCH / 2, () => this.pump());
  }

  get position() {
    return this.host.store.mirror.positions.get(this.name) ?? null;
  }

  get isLive() {
    return this.phase === 'live' && !this.inbox.length && !this.isPumping;
  }

  /** The line is open, and perhaps new. */
  joined() {
    this.phase = 'joining';
    this.inbox = [];
    this.host.line.subscribe(this.name);
  }

  left() {
    if (this.phase !== 'stopped') this.phase = 'idle';
    this.serial = (this.serial ?? 0) + 1;
    this.gone.clear();
    clearTimeout(this.timer);
  }

  stop() {
    this.left();
    this.pace.stop();
    this.isOver = true;
  }

  /** Where this device stands, for a resume; null where it needs a snapshot. */
  wish() {
    const { position } = this;
    if (!position || this.phase === 'fetching' || this.phase === 'stopped') return null;
    this.phase = 'resuming';
    this.isCut = false;
    return { epoch: position.epoch, offset: position.offset };
  }

  subscribed({ sync } = {}) {
    if (this.phase === 'fetching' || this.phase === 'resuming') return;
    const { position } = this;
    if (!position) this.snapshot();
    else if (sync && (sync.offset !== position.offset || sync.epoch !== position.epoch)) this.resume();
    else this.caughtUp();
  }

  resume() {
    const position = this.wish();
    if (position) this.host.line.send('sync:resume', { v: 1, channels: { [this.name]: position } });
  }

  resumed(told) {
    if (this.phase === 'fetching') return;
    if (told.recovered) {
      this.attempt = 0;
      this.replay = told.offset;
      this.phase = 'live';
      this.pump();
      this.caughtUp();
    } else if (told.reason === 'store_unavailable') {
      this.later(() => this.resume());
    } else if (told.reason === 'forbidden') {
      this.phase = 'stopped';
      this.host.line.unsubscribe(this.name);
    } else {
      this.snapshot();
    }
  }

  later(act) {
    const { serial } = this;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { if (serial === this.serial && !this.isOver) act(); }, 500 + jitter(this.attempt));
    this.attempt += 1;
  }

  // Events.

  take(event, data) {
    if (!data?._sync?.o || this.phase === 'stopped') return;
    this.inbox.push([event, data]);
    if (this.phase === 'fetching' && this.inbox.length > HELD_MAX) this.drop();
    this.pace.want(this.inbox.length);
  }

  /** The hub will tell again what was here. */
  drop() {
    this.inbox = [];
    this.isCut = true;
  }

  async pump() {
    if (this.isPumping || this.phase === 'fetching') return;
    this.isPumping = true;
    try {
      while (this.inbox.length && this.phase !== 'fetching' && !this.isOver) {
        const batch = this.inbox.splice(0, BATCH);
        if (await this.apply(batch) === 'gap' && this.phase === 'live') this.resume();
      }
    } catch (error) {
      // Nothing of the batch is stored, and neither is its position. Until it is told again, nothing is confirmed.
      this.drop();
      if (['joining', 'live'].includes(this.phase)) this.phase = 'resuming';
      this.host.onFailure(error);
      if (!this.isOver && error.code !== 'fence_lost') this.later(() => this.resume());
    } finally {
      this.isPumping = false;
    }
    if (!this.isOver) this.caughtUp();
  }

  /** Writes events that follow the stored position, and the new position, in one transaction. */
  apply(batch) {
    return this.host.store.write(async (work) => {
      const position = work.get('positions', this.name);
      if (!position) return 'none';
      let { offset } = position;
      for (const [event, data] of batch) {
        const { o } = data._sync;
        if (o <= offset) continue;
        if (o !== offset + 1) return 'gap';
        await foldEvent(work, event, data, this.host.own);
        offset = o;
        await work.put('positions', { ...position, offset });
      }
      return 'done';
    }, { fence: this.host.fence });
  }

  caughtUp() {
    if (this.phase === 'joining') this.phase = 'live';
    if (!this.isLive || (this.position?.offset ?? -1) < (this.replay ?? 0)) return;
    this.host.onCaughtUp(this);
  }

  // Snapshots.

  /** Fetches all that this topic keeps. Events that come meanwhile wait. */
  async snapshot() {
    if (this.phase === 'fetching' || this.phase === 'stopped') return;
    this.phase = 'fetching';
    const { serial } = this;
    const answered = this.answered();
    const isOld = () => serial !== this.serial || this.isOver;
    try {
      const parts = await this.fetchAll();
      if (isOld()) return;
      const [{ epoch, offset }] = parts;
      if (parts.some((part) => part.epoch !== epoch)) throw new Error('the epoch has changed meanwhile');
      await this.host.store.write(async (work) => {
        await this.settle(work, answered, { epoch, offset });
        for (const kind of KINDS[this.topic]) work.clear(kind);
        for (const part of parts) await part.put(work);
        // Several answers: the first is the oldest. What is newer in the others is known by its number.
        await work.put('positions', { channel: this.name, topic: this.topic, epoch, offset });
      }, { fence: this.host.fence });
      this.replay = offset;
      this.attempt = 0;
    } catch (error) {
      if (isOld()) return;
      this.host.onFailure(error);
      this.phase = 'joining';
      if (error.status === 403) this.phase = 'stopped';
      else if (error.code !== 'fence_lost') this.later(() => this.snapshot());
      return;
    }
    this.phase = 'live';
    if (this.isCut) this.resume();
    this.pump();
  }

  /** The keys of actions that the hub has answered with events of this channel: what is asked for now has them in it. */
  answered() {
    return [...this.host.store.mirror.actions.values()].filter((row) => row.until?.[this.name]).map((row) => row.key);
  }

  /** A snapshot that is behind what was answered before it: the hub has gone back, and those events do not come. */
  async settle(work, answered, position) {
    const isBehind = (one) => one?.epoch === position.epoch && one.offset > position.offset;
    for (const row of answered.map((key) => work.byKey(key))) {
      const until = row?.until;
      if (isBehind(until?.[this.name])) await work.put('actions', { ...row, until: { ...until, [this.name]: position } });
    }
    if (!isBehind(work.get('positions', this.name))) return;
    // Nor has it the revisions that this device has made.
    const own = Object.entries(work.get('meta', 'own') ?? {})
      .filter(([entity]) => !OWN[this.topic].includes(entity.split(':')[0]));
    await work.put('meta', Object.fromEntries(own), 'own');
  }

  async fetchAll() {
    const { api } = this.host;
    if (this.topic !== 'adherence') {
      const part = await api.get(this.topic);
      return [{ ...part, put: (work) => putList(work, this.topic, part) }];
    }
    const first = await api.get('adherence/today');
    const parts = [{ ...first, put: (work) => putDay(work, first) }];
    const today = dayNumber(first.body.summary.date);
    for (let day = today + 1; day <= today + DAYS_AHEAD; day += 1) {
      const part = await api.get(`adherence/today?date=${dayText(day)}`);
      parts.push({ ...part, put: (work) => putDay(work, part) });
    }
    for (const month of this.host.months()) {
      const part = await api.get(`adherence/month?month=${month}`);
      parts.push({ ...part, put: (work) => putMonth(work, month, part) });
    }
    return parts;
  }

  /** Fetches days and months that somebody watches and that are not here, and the texts that other devices have written. */
  async complete() {
    if (this.topic !== 'adherence' || !this.isLive || this.isOver) return;
    // What is fetched now may be of an old line, or of an old note. A call that comes meanwhile is served after it.
    this.isWanted = this.isCompleting;
    if (this.isCompleting) return;
    this.isCompleting = true;
    const { api, store } = this.host;
    const { serial } = this;
    try {
      const today = dayNumber(this.host.today());
      for (let day = today; day <= today + DAYS_AHEAD; day += 1) {
        const date = dayText(day);
        if (!store.mirror.kind('loaded').has(`day:${date}`)) {
          await this.add(await api.get(`adherence/today?date=${date}`), serial, putDay);
        }
      }
      for (const month of this.host.months()) {
        if (!store.mirror.kind('loaded').has(`month:${month}`)) {
          const part = await api.get(`adherence/month?month=${month}`);
          await this.add(part, serial, (work) => putMonth(work, month, part));
        }
      }
      for (const row of [...store.mirror.kind('dose').values()].filter((one) => this.isNoteWanted(one))) {
        await this.completeNote(row, serial);
      }
    } catch (error) {
      if (serial === this.serial && !this.isOver) {
        this.host.onFailure(error);
        // One timer: a resume that waits goes first, and ends with this.
        if (this.isLive) this.later(() => this.complete());
        this.isWanted = false;
      }
    } finally {
      this.isCompleting = false;
    }
    if (this.isWanted || serial !== this.serial) this.complete();
  }

  isNoteWanted(row) { return row.isNoteOld && row.value && this.gone.get(row.id) !== row.o; }

  /** Fetches the texts of a dose. One that the hub does not have holds up no other. */
  async completeNote({ id, o }, serial) {
    try {
      const part = await this.host.api.get(`adherence/occurrence/${encodeURIComponent(id)}`);
      await this.add(part, serial, (work) => this.putNote(work, id, part.body));
    } catch (error) {
      if (error.status !== 404) throw error;
      // Of an old line it says nothing: the dose may have come back since.
      if (serial === this.serial) this.gone.set(id, o);
    }
  }

  add(part, serial, put) {
    return this.host.store.write(async (work) => {
      const position = work.get('positions', this.name);
      if (serial !== this.serial || position?.epoch !== part.epoch) return;
      await put(work, part);
    }, { fence: this.host.fence });
  }

  async putNote(work, id, body) {
    const row = work.get('entities', ['dose', id]);
    if (!row?.value || row.value.rev > body.rev) return;
    const { note, reason } = body;
    await work.put('entities', { ...row, isNoteOld: false, value: { ...row.value, note, reason: reason ?? null } });
  }
}

/** What no event may change any more: rows that say only that something is deleted, older than all positions. */
export async function sweep(store, fence) {
  await store.write(async (work) => {
    for (const topic of Object.keys(KINDS)) {
      const position = work.all('positions').find((one) => one.topic === topic);
      for (const kind of KINDS[topic]) {
        for (const row of work.kind(kind)) {
          if (row.value === null && position && row.o < position.offset - 1000) work.delete('entities', [kind, row.id]);
        }
      }
    }
  }, { fence });
}
