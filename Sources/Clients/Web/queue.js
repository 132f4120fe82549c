// The queue of actions, as the leading tab sends it: first in, first out, numbered at first send, answered once.
import { REMINDER_TYPES } from './reminderbook.js';
import { DOSE_TYPES } from './account.js';
import { jitter, Pace } from './signals.js';

/** Unanswered actions at once. The hub allows 256 of a connection. */
const WINDOW = 128;
const ANSWER_MS = 30_000;
/** A transaction of the store costs as much as many rows: answers that come faster are settled together. */
const SETTLE_MS = 100;
/** How long an action can be undone. */
export const KEPT_MS = 86_400_000;
/** States of rows: queued and sent ones are in the queue; parked ones wait for a person, failed ones to be seen; done
 * ones are answered. */
export const WAITING = ['queued', 'sent'];

/** Whether two rows touch one entity. */
export const meets = (row, other) => row.entities.some((one) => other.entities.includes(one));

/** What a row holds that waits for a person: of an action on several doses those in conflict. The others are decided. */
export function held({ entities, answer }) {
  const doses = (answer?.items ?? []).filter(({ status }) => status === 'conflict').map((one) => `dose:${one.occurrenceId}`);
  return doses.length ? doses : entities;
}

/** Whether a row has to wait behind another one that waits for a person. */
export const holds = (row, other) => row.state === 'parked' && held(row).some((one) => other.entities.includes(one));

/**
 * Whether a decision of that type's conflicts is told by a `resolve`. Else the change is sent again: it is folded as any
 * other is, and a person may have edited it.
 */
export const isResolvable = (type) => DOSE_TYPES.includes(type) || REMINDER_TYPES.includes(type);

export class Queue {
  /** `host`: `{store, fence, line, isReady(), user, onFailure(error), onAnswer(row, answer)}`. */
  constructor(host) {
    Object.assign(this, { host, flying: new Map(), heard: [], isOver: false, attempt: 0 });
    this.pace = new Pace(SETTLE_MS, WINDOW / 4, () => this.settleAll());
  }

  stop() {
    this.isOver = true;
    this.pace.stop();
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

  /** The first actions that wait, one of an entity at a time: if it conflicts, those after it wait for the person. */
  next(rows) {
    const next = [];
    const touched = new Set();
    for (const row of rows) {
      if (!WAITING.includes(row.state)) continue;
      if (next.length >= WINDOW || row.entities.some((one) => touched.has(one))) break;
      next.push(row);
      for (const one of row.entities) touched.add(one);
    }
    return next;
  }

  /** Gives the next actions their numbers, in a transaction that holds only for the leader; returns what is to be sent. */
  async number() {
    const { store, fence } = this.host;
    // A transaction for many: as long as half of them have no answer, the hub is busy.
    if (this.flying.size > WINDOW / 2) return [];
    if (this.next(store.mirror.actions.values()).every((row) => this.flying.has(row.key))) return [];
    return store.write(async (work) => {
      const next = this.next(work.all('actions'));
      let last = work.get('meta', 'n') ?? 0;
      for (const [index, row] of next.entries()) {
        if (row.n !== null) continue;
        last += 1;
        next[index] = { ...row, n: last, state: 'sent', base: this.base(work, row) };
        await work.put('actions', next[index]);
      }
      if (last !== work.get('meta', 'n')) await work.put('meta', last, 'n');
      return next;
    }, { fence, strict: true });
  }

  /**
   * What the person saw, and what this device itself has changed since: own actions never conflict with each other. Of
   * reminders the hub knows what a device changed: a later revision would hide what others changed in between.
   */
  base(work, { base, entities }) {
    if (!base || entities[0]?.startsWith('reminder:')) return base;
    const own = work.get('meta', 'own') ?? {};
    if (Number.isInteger(base.rev)) return { ...base, rev: Math.max(base.rev, own[entities[0]] ?? 0) };
    return Object.fromEntries(Object.entries(base).map(
      ([id, seen]) => [id, { ...seen, rev: Math.max(seen.rev, own[`dose:${id}`] ?? 0) }]));
  }

  // Answers.

  /** Answers are worked off in their order, all that are here in one transaction. */
  answered(answer) {
    if (this.isOver || !this.flying.has(answer.key)) return;
    this.heard.push(answer);
    // Nothing is to be waited for when all have answered.
    if (this.heard.length >= this.flying.size) this.pace.now();
    else this.pace.want(this.heard.length);
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
      const own = new Map(Object.entries(work.get('meta', 'own') ?? {}));
      let isNew = false;
      for (const answer of answers) {
        const stored = work.byKey(answer.key);
        if (!stored || !WAITING.includes(stored.state)) continue;
        const made = revisions(stored, answer);
        for (const [entity, rev] of made) {
          own.delete(entity);
          own.set(entity, rev);
          isNew = true;
        }
        const row = { ...stored, undo: stored.undo?.map((entry) => told(entry, made)) };
        if (answer.status === 'conflict') await this.park(work, row, answer);
        else if (answer.status === 'rejected') await this.fail(work, row, answer);
        else await this.finish(work, row, answer);
      }
      // The newest stay: an action that waits longer names what the person saw.
      if (isNew) await work.put('meta', Object.fromEntries([...own].slice(-2000)), 'own');
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
      const stored = work.byKey(row.key);
      if (stored) await work.put('actions', { ...stored, retries: stored.retries + 1 });
    }, { fence: this.host.fence });
    const wait = Math.min(60_000, Math.max(answer.afterMs ?? 0, 50));
    this.pause(wait + jitter(this.attempt++, { baseMs: wait / 2, capMs: wait }));
    this.flying.delete(row.key);
  }

  /** The first action gets the number that the hub expects, and those after it the next ones. Keys stay. */
  async renumber({ key }, expected) {
    await this.host.store.write(async (work) => {
      const rows = work.all('actions').filter((row) => WAITING.includes(row.state) && row.n !== null);
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
    const decision = stored.type === 'resolve' ? work.byKey(stored.payload.of) : null;
    if (stored.type === 'resolve') await decided(work, stored.payload.of);
    if (stored.type === 'undo') {
      const target = work.byKey(stored.payload.targetKey);
      if (target?.state === 'done') await work.put('actions', { ...target, isUndone: true });
    }
    const row = { ...stored, state: 'done', answer: undefined, until: answer.positions ?? {}, at: Date.now() };
    const rest = answer.status === 'partial' ? answer.result?.items?.filter(isOpen) ?? [] : [];
    if (rest.length) {
      // Of several doses, some are done. What is in conflict waits for the person; else what the hub refuses is shown.
      row.state = rest.some((item) => item.status === 'conflict') ? 'parked' : 'failed';
      row.answer = { ...brief(answer), items: rest };
    }
    await work.put('actions', row);
    // What waited behind a decision that is a conflict again acted before it.
    if (row.state === 'parked') await this.hold(work, row, null, decision?.id ?? row.id);
  }

  /** A person must decide. Later actions on the same entity wait with it; all others go on. */
  async park(work, stored, answer) {
    const followed = stored.type === 'resolve' ? stored.payload.of : null;
    const target = followed && work.byKey(followed);
    // Of several doses, some are done, which can be undone as before, or refused, which is shown.
    if (target && (target.until || isRefused(target))) await settled(work, target);
    else if (target) work.delete('actions', target.id);
    const row = { ...stored, state: 'parked', answer: brief(answer) };
    await work.put('actions', row);
    await this.hold(work, row, followed);
  }

  /** What is behind a conflict waits for the person. What waits makes wait in turn what touches the same: it acted first. */
  async hold(work, conflict, followed, since = conflict.id) {
    const waiting = [conflict];
    for (const row of work.all('actions')) {
      const isLater = row.state === 'queued' && row.id > since && row.n === null && row.type !== 'resolve';
      if (followed && row.behind === followed) await work.put('actions', { ...row, behind: conflict.key });
      else if (!isLater || !waiting.some((one) => holds(one, row))) continue;
      else await work.put('actions', { ...row, state: 'parked', behind: conflict.key });
      waiting.push({ ...row, state: 'parked' });
    }
  }

  /** The hub refuses it for good: it is shown until the person has seen it. */
  async fail(work, stored, answer) {
    await reopen(work, stored);
    await work.put('actions', { ...stored, state: 'failed', answer: brief(answer) });
  }
}

/**
 * A conflict is decided. Until the decision's events are here, what it decides is still folded: the conflict stays for it,
 * and as long as it can be undone.
 */
async function decided(work, key) {
  const target = work.byKey(key);
  if (target?.state === 'parked') await settled(work, target);
  await release(work, key);
}

/** Nothing of a conflict waits for a person any more. What the hub refused besides is shown now. */
export async function settled(work, { decidedBy, ...row }) {
  await work.put('actions', { ...row, state: isRefused(row) ? 'failed' : 'done', at: Date.now() });
}

const isRefused = ({ answer }) => answer?.items?.some(({ status }) => status === 'rejected') ?? false;

const isOpen = ({ status }) => status === 'conflict' || status === 'rejected';

/** A decision that is not told, or that the hub refuses, decides nothing: its conflict waits for another one. */
export async function reopen(work, { type, payload }) {
  const target = type === 'resolve' ? work.byKey(payload.of) : null;
  if (!target) return;
  const { decidedBy, ...open } = target;
  await work.put('actions', open);
}

/** Lets go what waited behind a conflict, unless it meets another one that came before it. */
export async function release(work, key) {
  const target = work.byKey(key);
  if (target?.state === 'parked' && !target.until) work.delete('actions', target.id);
  for (const row of work.all('actions').filter((one) => one.behind === key)) {
    const { behind, ...free } = row;
    const other = work.all('actions').find((one) => one.id < row.id && holds(one, row));
    await work.put('actions', other ? { ...row, behind: other.behind ?? other.key } : { ...free, state: 'queued' });
  }
}

/** The revisions that an action of this device has made, by entities. */
function revisions({ entities }, { status, result }) {
  if (!['applied', 'partial'].includes(status)) return new Map();
  const items = (result?.items ?? []).filter((item) => item.occurrence)
    .map((item) => [`dose:${item.occurrenceId}`, item.occurrence.rev]);
  return new Map(Number.isInteger(result?.rev) && entities.length ? [[entities[0], result.rev], ...items] : items);
}

/** How to take back what was done to a dose, with the revision that the hub has told. */
function told(entry, made) {
  const rev = made.get(`dose:${entry.dose}`);
  if (rev === undefined) return entry;
  // A note that was there already is no change: its revision is an older one.
  const isNoteOld = entry.noteRev === null || (entry.statusRev !== null && entry.noteRev !== entry.statusRev);
  return { ...entry, statusRev: entry.statusRev === null ? null : rev, noteRev: isNoteOld ? entry.noteRev : rev };
}

const brief = ({ status, code, message, path, conflict, result }) => ({
  status, code, message, path, conflict, ...(result?.items && { items: result.items }),
});
