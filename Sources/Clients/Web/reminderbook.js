// Reminder rules and what actions do to them: Values/Care/Reminders, word for word. `Tests/Vectors` hold both, and the SQL
// functions, to the same answers. Fields are by their names on the wire; an absent one is null.
import { SECOND, secondOf, weekday, zoneOffset } from './times.js';

/** The fields that people change, in their order. */
export const FIELDS = [
  'productId', 'stackId', 'appliesTo', 'preset', 'label', 'time', 'timezone', 'tzMode', 'repeat', 'repeatOn',
  'snoozeMinutes', 'delivery', 'enabled', 'scheduleId'];
/** Those whose value a change may take away: of any other, null says nothing. */
const MAY_BE_MISSING = ['preset', 'label', 'repeatOn', 'snoozeMinutes', 'scheduleId'];
/** Types of actions on reminders. */
export const REMINDER_TYPES =
  ['createReminder', 'updateReminder', 'deleteReminder', 'snoozeReminder', 'setReminderOccurrence'];
const TWIN_FIELDS = ['productId', 'stackId', 'time', 'repeat', 'timezone'];
const TWIN_SECONDS = 86_400;
const POST_SECONDS = 600;
const SNOOZE_SECONDS = 14_400;
const SNOOZES_MAX = 10;
const SNOOZE_MINUTES = 10;
const TEMPORARY = 'tmp-';

const same = (left, right) => JSON.stringify(left ?? null) === JSON.stringify(right ?? null);
/** Those of `changes` that are named, over `fields`. */
const setting = (fields, changes, names = named(changes)) => {
  const after = { ...fields };
  for (const name of names) after[name] = changes[name] ?? null;
  return after;
};
const named = (changes) => FIELDS.filter((name) => Object.hasOwn(changes, name) && changes[name] !== undefined);
/** All fields of a rule as it is shown. */
export const fieldsOf = (rule) => Object.fromEntries(FIELDS.map((name) => [name, rule[name] ?? null]));

/** `kept`: the second that the day keeps since its rule's zone changed, wherever it was moved. */
const noException = () => ({ isCancelled: false, movedTo: null, kept: null, snoozedUntil: null, snoozes: 0, rev: 0 });

export class ReminderBook {
  /** `home`: the user's zone. */
  constructor({ home = 'UTC' } = {}) {
    this.home = home;
    this.rules = new Map();
    this.exceptions = new Map();
    this.aliases = new Map();
    this.tombstones = new Map();
    this.revisions = new Map();
    this.decisions = new Map();
    this.stored = new Map();
    /** Rules that were made under a temporary name, as they were then. */
    this.queued = new Map();
    /** What devices asked for and found done, by rule, in order. */
    this.found = new Map();
    this.doneDays = new Set();
  }

  /**
   * Performs an action `{kind, …}` at a second, or gives a repeat its first answer. `newID` names a rule that the hub has
   * to name.
   */
  apply({ key, device = null, action }, now, newID) {
    const known = this.stored.get(key);
    if (known) {
      if (!same(known.action, action)) return { key, status: 'rejected', code: 'key_reused' };
      return { ...known.answer, replayed: true };
    }
    const { pending, ...outcome } = this.perform(action, { key, device, now }, newID);
    const answer = { key, ...outcome };
    this.stored.set(key, { action, answer, pending });
    return answer;
  }

  perform(action, cause, newID) {
    switch (action.kind) {
      case 'create': return this.create(action, cause, newID);
      case 'update': return this.update(action.id, action.fields, action.base ?? null, cause);
      case 'delete': return this.delete(action.id, action.base ?? null, cause);
      case 'snooze': return this.snooze(action, cause);
      case 'set': return this.set(action, cause);
      case 'resolve': return this.resolve(action, cause);
      default: return rejected();
    }
  }

  /** The user is in another zone: rules that follow are too. */
  travel(zone, now) {
    this.home = zone;
    for (const id of [...this.rules.keys()].sort()) {
      const rule = this.rules.get(id);
      if (rule.fields.tzMode === 'follow' && rule.fields.timezone !== zone) this.write(rule, { now, device: null });
    }
  }

  // Rules.

  create({ id = null, clientId = null, fields: given }, cause, newID) {
    const isTemporary = id !== null && id.startsWith(TEMPORARY);
    const ownID = isTemporary ? null : id;
    const names = [clientId, isTemporary ? id : null].filter((name) => name !== null);
    const wanted = this.completed(given);
    for (const known of [ownID, ...names].filter((name) => name !== null)) {
      const rule = this.rule(known);
      if (rule) return this.named(rule, names, cause);
      const tombstone = this.tombstone(known);
      if (tombstone) return this.gone(tombstone, this.normal(given));
    }
    if (!this.isSound(wanted)) return rejected();
    if (ownID === null && (clientId === null || clientId.startsWith(TEMPORARY))) {
      const isPost = names.length === 0;
      const twin = this.twin(wanted, cause.now);
      const id = twin?.id ?? (isPost ? this.queuedTwin(wanted, cause) : null);
      const source = this.queued.get(id);
      if (isPost && source && isOf(source, cause)) source.isPosted = true;
      if (twin) return this.named(twin, names, cause);
      if (id !== null) return { status: 'noop', rule: this.rules.get(id) ?? this.tombstones.get(id).rule };
    }
    const made = { id: ownID ?? newID, clientId: names[0] ?? null, fields: wanted, rev: 1, createdAt: cause.now };
    this.write(made, cause);
    for (const name of names) this.aliases.set(name, made.id);
    const rule = this.rules.get(made.id);
    if (names[0]?.startsWith(TEMPORARY)) {
      this.queued.set(rule.id, { fields: rule.fields, device: cause.device, at: cause.now, isPosted: false });
    }
    return { status: 'applied', rule };
  }

  /**
   * A rule that is there already takes the names that a device has for it, but for those that another one has. The first
   * one stands in the rule.
   */
  named(rule, names, cause) {
    for (const name of names) {
      if (name === rule.id || this.rule(name)) continue;
      const first = this.rules.get(rule.id);
      if (first && first.clientId === null) this.write({ ...first, clientId: name }, cause);
      this.aliases.set(name, rule.id);
    }
    return { status: 'noop', rule: this.rules.get(rule.id) };
  }

  twin(fields, now) {
    return [...this.rules.values()]
      .filter((rule) => isTwin(rule.fields, fields) && now - rule.createdAt < TWIN_SECONDS)
      .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1)).at(-1) ?? null;
  }

  /** The rule, living or deleted, that the device's queue made of the same wish: seed 001 also posts it without a name. */
  queuedTwin(fields, cause) {
    const found = [...this.queued].filter(([id, made]) => !made.isPosted && isOf(made, cause)
      && cause.now - made.at < POST_SECONDS && isTwin(made.fields, fields)
      && (this.rules.has(id) || this.tombstones.has(id)));
    return found.sort(([a, one], [b, other]) => one.at - other.at || (a < b ? -1 : 1))[0]?.[0] ?? null;
  }

  completed(given) {
    const fields = { ...fieldsOf({}), ...this.normal(given) };
    const fill = { appliesTo: given.stackId == null ? 'item' : 'stack', timezone: this.home,
      // Who names another zone than the user's means that one.
      tzMode: (fields.timezone ?? this.home) === this.home ? 'follow' : 'fixed', repeat: 'daily', delivery: 'local',
      enabled: true };
    for (const [name, value] of Object.entries(fill)) fields[name] ??= value;
    return fields;
  }

  /** With what follows: a stack takes the product away, and the reverse; who follows is in the user's zone. */
  normal(changes) {
    const fields = Object.fromEntries(named(changes)
      .filter((name) => changes[name] !== null || MAY_BE_MISSING.includes(name)).map((name) => [name, changes[name]]));
    if (fields.stackId != null) Object.assign(fields, { productId: null, appliesTo: 'stack' });
    else if (fields.productId != null) Object.assign(fields, { stackId: null, appliesTo: 'item' });
    if (fields.tzMode === 'follow') fields.timezone = this.home;
    return fields;
  }

  isSound(fields) {
    const hasStack = fields.stackId != null;
    if (hasStack === (fields.productId != null) || fields.time == null) return false;
    if (fields.appliesTo !== (hasStack ? 'stack' : 'item')) return false;
    return fields.repeat !== 'custom' || (fields.repeatOn?.length ?? 0) > 0;
  }

  update(name, given, base, cause) {
    const changes = this.normal(given);
    const rule = this.rule(name);
    if (!rule) {
      const tombstone = this.tombstone(name);
      if (tombstone) return this.gone(tombstone, changes);
      return {
        status: 'conflict', code: 'gone', conflict: { id: name, day: null, serverRev: null, fields: [] },
        pending: { action: { kind: 'update', id: name, fields: changes }, rev: 0, taken: changes, gone: null },
      };
    }
    const seen = this.base(base, rule, cause);
    const { changed, conflicts } = merge(changes, rule.fields, seen);
    if (conflicts.length) {
      const fields = conflicts.map((field) => ({
        name: field, base: seen.fields?.[field] ?? null, server: rule.fields[field] ?? null, local: changes[field] ?? null,
      }));
      const wanted = setting({}, changes, [...changed, ...conflicts]);
      return {
        status: 'conflict', code: 'field', conflict: { id: rule.id, day: null, serverRev: rule.rev, fields },
        pending: {
          action: { kind: 'update', id: rule.id, fields: wanted }, rev: rule.rev, taken: setting({}, changes, changed),
          gone: null,
        },
      };
    }
    const fields = this.following(setting(rule.fields, changes, changed));
    if (changed.length && !this.isSound(fields)) return rejected();
    if (base !== null && base < rule.rev) this.findDone(changes, rule, cause.device, seen);
    // A wish for another zone alone leaves a rule that follows its user as it was.
    if (!changed.length || same(fields, rule.fields)) return { status: 'noop', rule };
    const isOther = ['productId', 'stackId', 'scheduleId'].some((name) => !same(fields[name], rule.fields[name]));
    this.write({ ...rule, fields, isSilent: rule.isSilent && !isOther }, cause);
    return { status: 'applied', rule: this.rules.get(rule.id) };
  }

  /** Of a rule of which a device knew an older revision: what the device wants and another one did before. */
  findDone(changes, rule, device, seen) {
    const done = named(changes).filter((name) => same(changes[name], rule.fields[name])
      && !(seen.fields && same(seen.fields[name], changes[name])));
    if (device === null || !done.length) return;
    if (!this.found.has(rule.id)) this.found.set(rule.id, []);
    this.found.get(rule.id).push({ rev: rule.rev, device, fields: setting({}, changes, done) });
  }

  delete(name, base, cause) {
    const rule = this.rule(name);
    if (!rule) return { status: 'noop' };
    if (base !== null && this.isChanged(rule, base, cause)) {
      return {
        status: 'conflict', code: 'state', conflict: { id: rule.id, day: null, serverRev: rule.rev, fields: [] },
        pending: { action: { kind: 'delete', id: rule.id }, rev: rule.rev, taken: {}, gone: null },
      };
    }
    this.rules.delete(rule.id);
    for (const days of [this.exceptions, this.decisions]) {
      for (const day of days.keys()) if (ruleOf(day) === rule.id) days.delete(day);
    }
    this.tombstones.set(rule.id, { rule, at: cause.now });
    return { status: 'applied' };
  }

  gone({ rule }, wanted) {
    return {
      status: 'conflict', code: 'gone', conflict: { id: rule.id, day: null, serverRev: null, fields: [] },
      pending: { action: { kind: 'update', id: rule.id, fields: wanted }, rev: rule.rev, taken: wanted, gone: rule },
    };
  }

  // Single days.

  set({ rule: name, day: number, change, base = null }, cause) {
    const rule = this.rule(name);
    if (!rule) return rejected();
    const day = dayKey(rule.id, number);
    if (!this.exceptions.has(day) && !this.isGiven(number, rule)) return rejected();
    const before = this.exceptions.get(day) ?? noException();
    const after = { ...before };
    if (change.kind === 'cancel') after.isCancelled = true;
    else if (change.kind === 'bringBack') after.isCancelled = false;
    else move(after, change.to, number, rule);
    if (same(before, after)) return { status: 'noop', rule };
    if (change.kind === 'move' && (change.to !== null || !after.isCancelled)) {
      // What has passed never comes, also where the day is brought back later.
      const [was, is] = [before, after].map((one) => this.start(rule, number, one));
      if (is <= cause.now && !(change.to === null && was <= cause.now)) return rejected();
    }
    if (base !== null && before.rev > base && this.isDecided(day, base, cause)) {
      return {
        status: 'conflict', code: 'state', conflict: { id: rule.id, day: number, serverRev: before.rev, fields: [] },
        pending: { action: { kind: 'set', rule: rule.id, day: number, change }, rev: before.rev, taken: {}, gone: null },
      };
    }
    this.writeDay(after, day, cause);
    return { status: 'applied', rule };
  }

  isDecided(day, rev, { device }) {
    return [...this.decisions.get(day) ?? []].some(([later, by]) => later > rev && (by === null || by !== device));
  }

  isGiven(day, rule) {
    // Its medicine was stopped, or its schedule is paused: the hub says so.
    if (rule.isSilent) return false;
    const { repeat, repeatOn } = rule.fields;
    if (repeat === 'weekdays' && weekday(day) > 5) return false;
    if (repeat === 'custom' && !(repeatOn ?? []).includes(weekday(day))) return false;
    // A day that a zone has skipped begins as another.
    const begin = secondOf(day * 86_400, rule.fields.timezone);
    return Math.floor((begin + offset(rule.fields.timezone, begin)) / 86_400) === day;
  }

  start(rule, day, exception) {
    return exception?.kept ?? secondOf(exception?.movedTo ?? day * 86_400 + minute(rule) * 60, rule.fields.timezone);
  }

  snooze({ rule: name, day: number, until = null, minutes = null }, cause) {
    const rule = this.rule(name);
    if (!rule) return rejected();
    const day = dayKey(rule.id, number);
    const exception = { ...this.exceptions.get(day) ?? noException() };
    if (!this.isGiven(number, rule) || exception.isCancelled || this.doneDays.has(day)) return { status: 'noop', rule };
    const start = this.start(rule, number, exception);
    const length = minutes ?? rule.fields.snoozeMinutes ?? SNOOZE_MINUTES;
    const wanted = Math.min(until ?? cause.now + length * 60, start + SNOOZE_SECONDS);
    if (wanted <= Math.max(start, exception.snoozedUntil ?? start, cause.now)) return { status: 'noop', rule };
    if (exception.snoozes >= SNOOZES_MAX) return { status: 'rejected', code: 'too_many' };
    exception.snoozedUntil = wanted;
    exception.snoozes += 1;
    this.writeDay(exception, day, cause);
    return { status: 'applied', rule };
  }

  /** The next times of a rule after a second, with the day that each is of. Those alone of days that `allows` etc. admit. */
  upcoming(rule, now, wanted = 10, { first = -Infinity, last = Infinity, allows = () => true } = {}) {
    if (rule.fields.enabled !== true) return [];
    const today = Math.max(Math.floor((now + offset(rule.fields.timezone, now)) / 86_400), first + 2);
    const own = [...this.exceptions.keys()].filter((key) => ruleOf(key) === rule.id)
      .map((key) => +key.slice(rule.id.length + 1));
    const found = [];
    const look = (day) => {
      const exception = this.exceptions.get(dayKey(rule.id, day));
      if (day < first || day > last || exception?.isCancelled || !allows(day) || !this.isGiven(day, rule)) return;
      const start = this.start(rule, day, exception);
      const shown = Math.max(start, exception?.snoozedUntil ?? start);
      if (shown > now) found.push({ day, start: shown });
    };
    // Two days back: a reminder of yesterday may have been moved or snoozed. A rule fires every week.
    const end = today + (wanted + own.length + 1) * 7 + 9;
    let day = today - 2;
    for (; day < end && found.length < wanted + own.length + 4; day += 1) look(day);
    // One of any other day may have been moved or snoozed to now.
    for (const one of own) if (one < today - 2 || one >= day) look(one);
    return found.sort((a, b) => a.start - b.start || a.day - b.day).slice(0, wanted);
  }

  // Conflicts decided by a person.

  resolve({ of, choice, merged = null, base = null }, cause) {
    const pending = this.stored.get(of)?.pending;
    if (!pending) return rejected();
    const rev = base ?? pending.rev;
    const { action } = pending;
    if (action.kind === 'set') {
      if (choice !== 'keep_local') return { status: 'noop', rule: this.rules.get(action.rule) };
      return this.set({ ...action, base: rev }, cause);
    }
    if (choice === 'accept_server') return { status: 'noop', rule: this.rules.get(action.id) };
    if (action.kind === 'delete') {
      if (choice === 'keep_local') return this.delete(action.id, rev, cause);
      if (!merged) return { status: 'noop', rule: this.rules.get(action.id) };
      return this.update(action.id, merged, rev, cause);
    }
    let fields = choice === 'keep_local' ? action.fields : pending.taken;
    if (choice === 'merge' && merged) fields = setting(fields, this.normal(merged));
    const tombstone = this.tombstones.get(action.id);
    if (!pending.gone || this.rules.has(action.id) || (tombstone && tombstone.rule.rev > rev)) {
      return this.update(action.id, fields, rev, cause);
    }
    // An edit of a rule that was deleted meanwhile makes it again, with its id and its next revision.
    const gone = tombstone?.rule ?? pending.gone;
    const back = setting(gone.fields, fields);
    if (!this.isSound(back)) return rejected();
    this.write({ ...gone, fields: back, rev: gone.rev + 1 }, cause);
    return { status: 'applied', rule: this.rules.get(action.id) };
  }

  // Writing and finding.

  write(rule, cause) {
    const before = this.rules.get(rule.id);
    const written = { ...rule, rev: before ? before.rev + 1 : rule.rev, fields: this.following(rule.fields) };
    this.rules.set(rule.id, written);
    this.remember(written, cause.device ?? null);
    if (written.clientId !== null) this.aliases.set(written.clientId, written.id);
    this.tombstones.delete(written.id);
    if (before) this.keep(before, written, cause.now);
  }

  /** Days that keep their instants, as doses do, unless old and new both lie ahead, or the next comes within hours of it. */
  keep(was, rule, now) {
    const [isOtherTime, isOtherZone] = [minute(was) !== minute(rule), was.fields.timezone !== rule.fields.timezone];
    if (!(isOtherTime || isOtherZone) || was.fields.enabled !== true || rule.fields.enabled !== true) return;
    const days = new Set([-2, -1, 0, 1, 2].map((n) => n + Math.floor((now + offset(was.fields.timezone, now)) / 86_400)));
    for (const [key, { kept, movedTo, snoozedUntil }] of this.exceptions) {
      const start = kept ?? (movedTo === null ? -Infinity : secondOf(movedTo, was.fields.timezone));
      const isNear = Math.max(start, snoozedUntil ?? start) >= now - 2 * 86_400;
      if (ruleOf(key) === rule.id && isNear) days.add(+key.slice(rule.id.length + 1));
    }
    const isLinked = rule.fields.scheduleId !== null && rule.fields.scheduleId === was.fields.scheduleId;
    for (const day of [...days].filter((one) => this.isGiven(one, was) && this.isGiven(one, rule))) {
      const key = dayKey(rule.id, day);
      const exception = this.exceptions.get(key) ?? noException();
      const [before, after] = [this.start(was, day, exception), this.start(rule, day, { ...exception, kept: null })];
      const moves = after > now && (before > now || before < rule.createdAt);
      if (!moves && !isOtherTime && Math.max(before, after, exception.snoozedUntil ?? 0) + SNOOZE_SECONDS <= now) continue;
      const next = this.isGiven(day + 1, rule) ? this.start(rule, day + 1, noException()) : 0;
      const stays = before > now && isLinked && !(next > now && next <= before + SNOOZE_SECONDS);
      const keeps = !moves && before !== after && (!isOtherTime || stays);
      if (keeps === (exception.kept !== null)) continue;
      this.exceptions.set(key, { ...exception, kept: keeps ? before : null, rev: exception.rev + 1 });
    }
  }

  /** A rule that follows its user is in the user's zone, whatever zone was wished for. */
  following(fields) {
    return fields.tzMode === 'follow' ? { ...fields, timezone: this.home } : { ...fields };
  }

  /** What devices may name as the revision that they saw. */
  remember({ id, rev, fields }, device) {
    if (!this.revisions.has(id)) this.revisions.set(id, new Map());
    this.revisions.get(id).set(rev, { fields, device });
  }

  writeDay(exception, day, cause) {
    const rev = exception.rev + 1;
    this.exceptions.set(day, { ...exception, rev });
    if (!this.decisions.has(day)) this.decisions.set(day, new Map());
    this.decisions.get(day).set(rev, cause.device ?? null);
  }

  rule(name) {
    return this.rules.get(name) ?? this.rules.get(this.aliases.get(name)) ?? null;
  }

  tombstone(name) {
    return this.tombstones.get(this.aliases.get(name) ?? name) ?? null;
  }

  /** Whether anybody but the device itself changed a rule after a revision. */
  isChanged(rule, rev, { device }) {
    for (let later = rev + 1; later <= rule.rev; later += 1) {
      const by = this.revisions.get(rule.id)?.get(later)?.device ?? null;
      if (by === null || by !== device) return true;
    }
    return false;
  }

  /**
   * What a device knew of a rule when it acted: the revision that it names, with what it changed itself since, or asked for
   * and found done. `unseen`: what others have changed since, be it back to what it was.
   */
  base(rev, rule, { device }) {
    if (rev === null) return { kind: 'none' };
    const known = this.revisions.get(rule.id);
    let seen = known?.get(rev)?.fields;
    if (!seen) return { kind: 'unknown' };
    const unseen = new Set();
    const knows = (fields, names) => {
      seen = setting(seen, fields, names);
      for (const name of names) unseen.delete(name);
    };
    for (let later = rev + 1; later <= rule.rev; later += 1) {
      const [after, before] = [known.get(later), known.get(later - 1)];
      if (after && before) {
        const changed = FIELDS.filter((name) => !same(after.fields[name], before.fields[name]));
        if (device !== null && after.device === device) knows(after.fields, changed);
        else for (const name of changed) unseen.add(name);
      }
      for (const done of this.found.get(rule.id) ?? []) {
        if (done.rev === later && done.device === device) knows(done.fields, named(done.fields));
      }
    }
    return { kind: 'known', fields: seen, unseen };
  }
}

/** A merge of three sides, field by field. A field that is as the device knew it was sent along, and says nothing. */
function merge(wanted, server, base) {
  const [changed, conflicts] = [[], []];
  for (const name of named(wanted)) {
    if (same(wanted[name], server[name])) continue;
    if (base.kind === 'none') changed.push(name);
    else if (base.kind === 'unknown') conflicts.push(name);
    else if (!same(wanted[name], base.fields[name])) {
      (same(server[name], base.fields[name]) && !base.unseen.has(name) ? changed : conflicts).push(name);
    }
  }
  return { changed, conflicts };
}

/** A person moves a day to a local second, or to where its rule has it. To where it is already is not a move. */
function move(exception, to, day, rule) {
  const { kept, movedTo } = exception;
  if (kept !== null && (to === null ? movedTo === null : secondOf(to, rule.fields.timezone) === kept)) return;
  exception.kept = null;
  exception.movedTo = to === day * 86_400 + minute(rule) * 60 ? null : to;
}

/** Whether two rules are one to a person who makes them. */
const isTwin = (one, other) => [...TWIN_FIELDS, ...one.repeat === 'custom' ? ['repeatOn'] : []]
  .every((name) => same(one[name], other[name]));

/** Whether a create by this device may be what the queue made: where one of them names no device, nobody knows. */
const isOf = (made, { device }) => made.device === null || device === null || made.device === device;

const rejected = () => ({ status: 'rejected', code: 'invalid' });
export const dayKey = (rule, day) => `${rule}\n${day}`;
const ruleOf = (key) => key.slice(0, key.lastIndexOf('\n'));
const minute = ({ fields: { time } }) => (time ? +time.slice(0, 2) * 60 + +time.slice(3, 5) : 0);
const offset = (zone, second) => zoneOffset(zone, second * SECOND) ?? 0;
