// The queue of actions, as the leading tab sends it: first in, first out, numbered at first send, answered once.
import { REMINDER_TYPES } from './reminderbook.js';
import { DOSE_TYPES } from './account.js';
import { jitter } from './signals.js';

/** Unanswered actions at once. The hub allows 256 of a connection. */
const WINDOW = 64;
const ANSWER_MS = 30_000;
/** How long an action can be undone. */
export const KEPT_MS = 86_400_000;
/** States of rows: queued and sent ones are in the queue; parked ones wait for a person, failed ones to be seen; done
 * ones are answered. */
export const WAITING = ['queued', 'sent'];

/** Whether two rows touch one entity. */
export const meets = (row, other) => row.entities.some((one) => other.entities.includes(one));

/** Whether the hub takes a `resolve` of that type's conflicts. Else the change is sent again. */
export const isResolvable = (type) => DOSE_TYPES.includes(type) || REMINDER_TYPES.includes(type);

export class Queue {
  /** `host`: `{store, fence, line, isReady(), user, onFailure(error), onAnswer(row, answer)}`. */
  constructor(host) {
    Object.assign(this, { host, flying: new Map(), isOver: false, attempt: 0 });
  }

  stop() {
    this.isOver = true;
    this.reset();
  }

  /** The line is gone: what had no answer is sent again on the next one, with its key and its number. */
  reset() {
    this.flying.clear();
    this.isPaused = false;
    clearTimeout(this.timer);
    clearTimeout(this.patience);
  }

  /** Sends what may be sent. */
  async pump() {
    if (this.isOver || this.isPumping || this.isPaused || !this.host.isReady()) {
      this.isWanted = this.isPumping;
      return;
    }
    this.isPumping = true;
    try {
      do {
        this.isWanted = false;
        const rows = await this.number();
        for (const row of rows) {
          if (this.isOver || this.isPaused || !this.host.isReady()) break;
          if (this.flying.has(row.key)) continue;
          if (!this.host.line.send('sync:action', this.envelope(row))) break;
          this.flying.set(row.key, row);
        }
        this.watch();
      } while (this.isWanted);
    } catch (error) {
      this.host.onFailure(error);
      if (!this.isOver && error.code !== 'fence_lost') this.pause(1000 + jitter(this.attempt++));
    } finally {
      this.isPumping = false;
    }
  }

  /** If no answer comes, the line is of no use. */
  watch() {
    clearTimeout(this.patience);
    if (this.flying.size) this.patience = setTimeout(() => this.host.line.again(), ANSWER_MS);
  }

  pause(milliseconds) {
    this.isPaused = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.isPaused = false; this.pump(); }, milliseconds);
  }

  /** Sends nothing before what is in the air has been answered: its numbers are old. */
  pauseUntilQuiet() {
    if (!this.isPaused) this.pause(200);
  }

  envelope({ key, n, type, payload, base, clientTime, tz }) {
    const deviceId = this.host.store.mirror.meta.get('device');
    return { v: 1, key, deviceId, n, type, payload, ...(base && { base }), clientTime, tz };
  }

  /** Gives the next actions their numbers, in a transaction that holds only for the leader; returns what is to be sent. */
  async number() {
    const first = [...this.host.store.mirror.actions.values()].find((row) => WAITING.includes(row.state));
    if (!first || this.flying.size >= WINDOW) return [];
    return this.host.store.write(async (work) => {
      const rows = (await work.all('actions', IDBKeyRange.lowerBound(first.id), 4 * WINDOW))
        .filter((row) => WAITING.includes(row.state));
      let last = await work.get('meta', 'n') ?? 0;
      const before = last;
      const next = [];
      for (const row of rows) {
        // One action on an entity at a time: if it conflicts, those after it wait for the person.
        if (next.length >= WINDOW || next.some((other) => meets(row, other))) break;
        next.push(row);
        if (row.n !== null) continue;
        last += 1;
        Object.assign(row, { n: last, state: 'sent', base: await this.base(work, row) });
        await work.put('actions', row);
      }
      if (last !== before) await work.put('meta', last, 'n');
      return next;
    }, { fence: this.host.fence, strict: true });
  }

  /** What the person saw, and what this device itself has changed since: own actions never conflict with each other. */
  async base(work, { base, entities }) {
    if (!base) return base;
    const own = await work.get('meta', 'own') ?? {};
    if (Number.isInteger(base.rev)) return { ...base, rev: Math.max(base.rev, own[entities[0]] ?? 0) };
    return Object.fromEntries(Object.entries(base).map(
      ([id, seen]) => [id, { ...seen, rev: Math.max(seen.rev, own[`dose:${id}`] ?? 0) }]));
  }

  // Answers.

  /** Answers are worked off in their order, all that are here in one transaction. */
  answered(answer) {
    if (this.isOver || !this.flying.has(answer.key)) return;
    (this.heard ??= []).push(answer);
    this.settleAll();
  }

  async settleAll() {
    if (this.isSettling) return;
    this.isSettling = true;
    while (this.heard.length && !this.isOver) {
      const answers = this.heard.splice(0);
      try {
        await this.settle(answers.filter((one) => one.status !== 'retry'));
        for (const answer of answers) if (answer.status === 'retry') await this.retry(answer);
      } catch (error) {
        // Nothing is written: these are asked again, with their keys.
        for (const { key } of answers) this.flying.delete(key);
        this.host.onFailure(error);
        if (!this.isOver && error.code !== 'fence_lost') this.pause(1000 + jitter(this.attempt++));
      }
    }
    this.isSettling = false;
    if (!this.isOver) this.pump();
  }

  async settle(answers) {
    if (!answers.length) return;
    await this.host.store.write(async (work) => {
      for (const answer of answers) {
        const stored = await work.byKey(answer.key);
        if (!stored || !WAITING.includes(stored.state)) continue;
        await keepRevisions(work, stored, answer);
        if (answer.status === 'conflict') await this.park(work, stored, answer);
        else if (answer.status === 'rejected') await this.fail(work, stored, answer);
        else await this.finish(work, stored, answer);
      }
    }, { fence: this.host.fence });
    this.attempt = 0;
    for (const answer of answers) {
      const row = this.flying.get(answer.key);
      this.flying.delete(answer.key);
      if (row) this.host.onAnswer(row, answer);
    }
    this.watch();
  }

  async retry(answer) {
    const row = this.flying.get(answer.key);
    if (!row) return;
    // It counts as in the air until it may be sent again, and is known by its new number.
    if (answer.code === 'out_of_order') {
      // Of several in the air, only the first one's answer says where to go on.
      await this.renumber(row, answer.expected);
      this.flying.delete(row.key);
      if (this.flying.size) this.pauseUntilQuiet();
      return;
    }
    await this.host.store.write(async (work) => {
      const stored = await work.byKey(row.key);
      if (stored) await work.put('actions', { ...stored, retries: stored.retries + 1 });
    }, { fence: this.host.fence });
    const wait = Math.min(60_000, Math.max(answer.afterMs ?? 0, 50));
    this.pause(wait + jitter(this.attempt++, { baseMs: wait / 2, capMs: wait }));
    this.flying.delete(row.key);
  }

  /** The first action gets the number that the hub expects, and those after it the next ones. Keys stay. */
  async renumber({ key }, expected) {
    await this.host.store.write(async (work) => {
      const rows = (await work.all('actions')).filter((row) => WAITING.includes(row.state) && row.n !== null);
      if (rows[0]?.key !== key || rows[0].n === expected) return;
      let n = expected - 1;
      for (const row of rows) {
        n += 1;
        await work.put('actions', { ...row, n });
      }
      await work.put('meta', n, 'n');
    }, { fence: this.host.fence, strict: true });
  }

  /** Kept until its events are here, and for a day so that it can be undone. */
  async finish(work, stored, answer) {
    if (stored.type === 'resolve') await release(work, stored.payload.of);
    if (stored.type === 'undo') {
      const target = await work.byKey(stored.payload.targetKey);
      if (target?.state === 'done') await work.put('actions', { ...target, isUndone: true });
    }
    const rest = answer.status === 'partial'
      ? { partial: answer.result?.items?.filter((item) => ['conflict', 'rejected'].includes(item.status)) ?? [] } : {};
    await work.put('actions', {
      ...stored, ...rest, state: rest.partial?.length ? 'failed' : 'done', answer: rest.partial?.length ? brief(answer) : undefined,
      until: answer.positions ?? {}, at: Date.now(),
    });
  }

  /** A person must decide. Later actions on the same entity wait with it; all others go on. */
  async park(work, stored, answer) {
    const followed = stored.type === 'resolve' ? stored.payload.of : null;
    if (followed) {
      const target = await work.byKey(followed);
      if (target) await work.delete('actions', target.id);
    }
    await work.put('actions', { ...stored, state: 'parked', answer: brief(answer) });
    for (const row of await work.all('actions')) {
      if (followed && row.behind === followed) await work.put('actions', { ...row, behind: stored.key });
      else if (row.state === 'queued' && row.id > stored.id && row.n === null && meets(row, stored) && row.type !== 'resolve') {
        await work.put('actions', { ...row, state: 'parked', behind: stored.key });
      }
    }
  }

  /** The hub refuses it for good: it is shown until the person has seen it. */
  async fail(work, stored, answer) {
    await work.put('actions', { ...stored, state: 'failed', answer: brief(answer) });
  }

}

/** Lets go what waited behind a conflict. */
export async function release(work, key) {
  const target = await work.byKey(key);
  if (target && ['parked', 'failed'].includes(target.state)) await work.delete('actions', target.id);
  for (const row of await work.all('actions')) {
    if (row.behind === key) {
      const { behind, ...free } = row;
      await work.put('actions', { ...free, state: 'queued' });
    }
  }
}

/** The revisions that this device's own actions have made. */
async function keepRevisions(work, row, answer) {
  const made = [];
  if (Number.isInteger(answer.result?.rev) && row.entities.length) made.push([row.entities[0], answer.result.rev]);
  for (const item of answer.result?.items ?? []) {
    if (item.occurrence) made.push([`dose:${item.occurrenceId}`, item.occurrence.rev]);
  }
  if (!made.length || !['applied', 'partial'].includes(answer.status)) return;
  const own = { ...await work.get('meta', 'own') };
  for (const [entity, rev] of made) {
    delete own[entity];
    own[entity] = rev;
  }
  // The newest stay: an action that waits longer names what the person saw.
  const kept = Object.entries(own).slice(-2000);
  await work.put('meta', Object.fromEntries(kept), 'own');
  for (const entry of row.undo ?? []) {
    const rev = made.find(([entity]) => entity === `dose:${entry.dose}`)?.[1];
    if (rev === undefined) continue;
    if (entry.statusRev !== null) entry.statusRev = rev;
    if (entry.noteRev !== null) entry.noteRev = rev;
  }
}

const brief = ({ status, code, message, path, conflict, result }) => ({
  status, code, message, path, conflict, ...(result?.items && { items: result.items }),
});
