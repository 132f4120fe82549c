// One person's doses and what actions do to them: Values/Care/Actions, word for word. It answers as the hub will, as far
// as this device knows the doses. `Tests/Vectors` hold both to it.
import { believedTime, InvalidAction, isObject, limited, Payload } from './payload.js';
import {
  APPLIED, NOOP, NOT_DUE, conflict, decide, decideState, isOfToday, isOpen, isToCome, isUntimely, sameState, untimely,
} from './doserules.js';
import { byBytes, dayAt, SECOND, zoneOffset } from './times.js';

/** The types of actions on doses. */
export const DOSE_TYPES =
  ['markTaken', 'markMissed', 'makeUp', 'skip', 'addNote', 'undo', 'bulkMarkAll', 'resolve'];
const BULK_MAX = 200;
const UNDO_SPAN = 86_400 * SECOND;
const NO_STATE = { takenAt: null, takenOffset: null, reason: null };

/** Doses, and the actions that later ones may name. Doses are never changed in place. */
export class Account {
  constructor({ zone = 'UTC', doses = [], offsetOf = zoneOffset } = {}) {
    this.zone = zone;
    this.offsetOf = offsetOf;
    this.doses = new Map(doses.map((dose) => [dose.id, dose]));
    this.actions = new Map();
  }

  copy() {
    const { zone, offsetOf } = this;
    return Object.assign(new Account({ zone, offsetOf }), { doses: new Map(this.doses), actions: new Map(this.actions) });
  }

  /** Performs an action at an instant, or refuses it. A repeated key gets its first answer again. */
  apply(envelope, now) {
    const known = this.actions.get(envelope.key);
    if (known) return { ...known.answer, replayed: true };
    const decision = new Decision(this, envelope, now);
    const answer = decision.run();
    const { isSingle, undo, pending } = decision;
    this.actions.set(envelope.key, {
      type: envelope.type, answer, isSingle, undo, pending, createdAt: now, isUndone: false,
    });
    return answer;
  }

  /** The doses of today's list in a zone: those of today there, and those that are due now. */
  today(zone, now) {
    const today = this.dayIn(zone, now);
    return [...this.doses.values()].filter((dose) => this.isOfToday(dose, zone, now, today));
  }

  dayIn(zone, now) { return dayAt(now, this.offsetOf(zone, now) ?? 0); }

  isOfToday(dose, zone, now, today = this.dayIn(zone, now)) {
    const offset = () => this.offsetOf(dose.zone, dose.scheduledAt) ?? dose.utcOffset;
    const here = () => this.offsetOf(zone, dose.scheduledAt) ?? 0;
    return isOfToday(dose, today, offset, here, now);
  }

  write(dose, key, device, now) {
    const before = this.doses.get(dose.id);
    const isSame = sameState(before.state, dose.state);
    if (isSame && before.note === dose.note) return;
    const rev = before.rev + 1;
    this.doses.set(dose.id, {
      ...dose, rev, statusRev: isSame ? before.statusRev : rev, noteRev: before.note === dose.note ? before.noteRev : rev,
      changedBy: { actor: 'user', deviceId: device ?? null }, updatedAt: now,
    });
  }
}

class Decision {
  constructor(account, envelope, now) {
    Object.assign(this, { account, envelope, now, isSingle: true, undo: [], pending: [], actedAt: now });
    this.answer = { key: envelope.key, status: 'noop' };
  }

  run() {
    const { envelope, now } = this;
    try {
      const action = parse(envelope, now);
      this.seen = readSeen(envelope.base);
      const sent = envelope.clientTime == null ? null : believedTime(envelope.clientTime, 'clientTime', now);
      if (sent && sent.at < now) this.actedAt = sent.at;
      this.acted = sent ? limited(sent, now) : { at: now, offset: null };
      this.perform(action);
    } catch (error) {
      if (!(error instanceof InvalidAction)) throw error;
      this.answer = { key: envelope.key, status: 'rejected', code: 'invalid', path: error.path };
    }
    return this.answer;
  }

  perform(action) {
    const item = (dose, state, note, timePath = null, reach = 'today') => ({
      dose, kind: 'act', reach, intent: { state, note }, seenRev: this.seenRev(dose), createdAt: null, timePath,
    });
    const state = (status, time, reason = null) => {
      const { at, offset } = time ?? this.acted;
      return { status, takenAt: at, takenOffset: offset, reason };
    };
    const path = (time, own) => (time === null ? null : own);
    const { dose, takenAt, note, reason } = action;
    switch (action.type) {
      case 'markTaken': return this.carry(item(dose, state('taken', takenAt), note, path(takenAt, 'payload.takenAt')));
      case 'markMissed': return this.carry(item(dose, { ...NO_STATE, status: 'missed' }, note));
      case 'makeUp':
        return this.carry(item(dose, state('made_up', takenAt, reason), note, path(takenAt, action.timePath)));
      case 'skip': return this.carry(item(dose, { ...NO_STATE, status: 'skipped', reason }, note));
      case 'addNote': return this.carry(item(dose, null, action.text));
      case 'bulkMarkAll': {
        const reach = action.includesFuture ? 'any' : action.ids ? 'today' : 'due';
        const taken = state('taken', takenAt);
        const ids = action.ids ? [...new Set(action.ids)] : this.select(action.criteria, action.includesFuture);
        return this.carryAll(ids.map((id) => item(id, taken, null, path(takenAt, 'payload.takenAt'), reach)));
      }
      case 'undo': return this.takeBack(action.target);
      default: return this.resolve(action);
    }
  }

  seenRev(dose) {
    const base = this.seen;
    if (!base) return null;
    if (Number.isInteger(base.rev)) return base.rev;
    const own = Object.hasOwn(base, dose) ? base[dose] : null;
    return isObject(own) && Number.isInteger(own.rev) ? own.rev : null;
  }

  // Selecting doses.

  select({ day, product, schedule }, includesFuture) {
    const { account, actedAt, now } = this;
    const among = day === null ? account.today(this.envelope.tz ?? account.zone, actedAt)
      : [...account.doses.values()].filter((dose) => dose.day === day);
    const found = among.filter((dose) => isOpen(dose, actedAt, now) && (includesFuture || dose.scheduledAt <= actedAt)
      && (product === null || product === dose.productId) && (schedule === null || schedule === dose.scheduleId));
    if (found.length > BULK_MAX) throw new InvalidAction('payload.criteria', `mean more than ${BULK_MAX} doses`);
    return found.sort((a, b) => a.scheduledAt - b.scheduledAt || byBytes(a.id, b.id)).map((dose) => dose.id);
  }

  takeBack(target) {
    const stored = this.account.actions.get(target);
    if (!stored) throw new InvalidAction('payload.targetKey', 'names no action');
    if (stored.type === 'undo') throw new InvalidAction('payload.targetKey', 'names an undo, which cannot be undone');
    if (stored.isUndone || !stored.undo.length) return;
    const isLate = this.actedAt - stored.createdAt > UNDO_SPAN;
    const items = stored.undo.map((entry) => ({
      dose: entry.dose, kind: 'undo', entry, target, isLate, seenRev: this.seenRev(entry.dose), createdAt: null,
      intent: { state: entry.state, note: entry.noteBefore }, timePath: null,
    }));
    this.carryEither(items, stored.isSingle);
    if (['applied', 'partial'].includes(this.answer.status)) stored.isUndone = true;
  }

  resolve({ target, choice, merged }) {
    const stored = this.account.actions.get(target);
    if (!stored) throw new InvalidAction('payload.of', 'names no action');
    if (!stored.pending.length) throw new InvalidAction('payload.of', 'names an action without a conflict');
    if (choice === 'merge' && merged && !stored.isSingle) {
      throw new InvalidAction('payload.merged', 'is for an action on one dose');
    }
    const items = stored.pending.map((entry) => ({
      dose: entry.dose, kind: choice, merged, intent: entry.intent, seenRev: this.seenRev(entry.dose) ?? entry.rev,
      createdAt: entry.createdAt, timePath: 'payload.of',
    }));
    this.carryEither(items, stored.isSingle);
  }

  carryEither(items, isSingle) {
    if (isSingle && items.length) this.carry(items[0]);
    else this.carryAll(items);
  }

  // Carrying out.

  carry(item) {
    const { verdict, after } = this.carryOut(item);
    this.answer = { key: this.envelope.key, ...spelled(verdict) };
    if (verdict === APPLIED || verdict === NOOP) this.answer.result = after ?? null;
  }

  carryAll(items) {
    this.isSingle = false;
    const told = items.map((item) => ({ occurrenceId: item.dose, ...spelled(this.carryOut(item).verdict) }));
    const number = (status) => told.filter((one) => one.status === status).length;
    const done = number('applied') + number('noop');
    let status = 'partial';
    if (done === told.length) status = number('applied') ? 'applied' : 'noop';
    else if (!done) status = number('conflict') ? 'conflict' : 'rejected';
    const { code, path } = told.find((one) => one.status === status) ?? {};
    this.answer = { key: this.envelope.key, status, ...(code && { code }), ...(path && { path }), items: told };
  }

  carryOut(item) {
    const { account } = this;
    const before = account.doses.get(item.dose) ?? null;
    const { verdict, dose: wanted, note } = this.rule(item, before);
    if (verdict.kind === 'conflict') {
      this.pending.push({
        dose: item.dose, intent: item.intent, rev: before?.rev ?? 0, createdAt: before?.createdAt ?? null,
      });
      return { verdict, after: before };
    }
    if (verdict !== APPLIED || !before || !wanted) return { verdict, after: before };
    account.write(wanted, this.envelope.key, this.envelope.deviceId, this.now);
    const after = account.doses.get(item.dose);
    if (item.kind !== 'undo') {
      const changed = sameState(before.state, after.state) ? null : before.state;
      const same = note !== null && note === before.note ? this.sameNotes(before, before.noteRev)[0] : undefined;
      this.undo.push({
        dose: item.dose, createdAt: before.createdAt, state: changed, statusRev: changed ? after.statusRev : null,
        hasNote: note !== null, noteBefore: note === null ? null : same ? same.before : before.note,
        noteRev: note === null ? null : after.noteRev,
      });
    }
    return { verdict, after };
  }

  /** The actions that added the note which the dose has since `rev`, with the note before each. Undone ones are out. */
  sameNotes(dose, rev) {
    const found = [];
    for (const [key, action] of this.account.actions) {
      const entry = action.undo.find((one) =>
        one.dose === dose.id && one.noteRev === rev && one.createdAt === dose.createdAt);
      if (entry && !action.isUndone) found.push({ key, before: entry.noteBefore });
    }
    return found;
  }

  // The rules: ActionDecision+Rules.swift.

  rule(item, dose) {
    if (item.kind === 'accept_server') return { verdict: NOOP, dose, note: null };
    if (!dose) return { verdict: conflict('gone'), dose: null, note: null };
    if (item.kind === 'act') return this.act(item, dose);
    if (item.kind === 'undo') return this.undoOne(item, dose);
    const refuse = (verdict) => ({ verdict, dose: null, note: null });
    const fields = item.kind === 'merge' ? item.merged : null;
    const names = fields && (fields.status !== null || fields.takenAt !== null || fields.reason !== null);
    const note = fields?.note ?? item.intent.note;
    if (item.kind === 'merge' && !names) return force(null, note, dose);
    if ((item.kind === 'merge' || item.intent.state) && hasMovedOn(dose, item)) return refuse(conflict('state'));
    if (item.kind === 'keep_local') {
      const path = this.untimelyPath(item.intent.state?.takenAt ?? null, item, dose);
      return path ? refuse(untimely(path)) : force(item.intent.state, item.intent.note, dose);
    }
    const state = this.merged(fields, item.intent, dose);
    const path = this.untimelyMerge(state, fields, item, dose);
    return path ? refuse(untimely(path)) : force(state, note, dose);
  }

  dayHasCome(dose, at) {
    const { account } = this;
    return dose.day <= dayAt(at, account.offsetOf(dose.zone, at) ?? dose.utcOffset)
      || dose.day <= dayAt(at, account.offsetOf(account.zone, at) ?? 0);
  }

  untimelyPath(takenAt, item, dose) {
    const isDirect = item.timePath !== 'payload.of';
    if (takenAt === null || !item.timePath || !isUntimely(takenAt, dose, isDirect, this.actedAt)) return null;
    return this.dayHasCome(dose, takenAt) ? null : item.timePath;
  }

  untimelyMerge(state, fields, item, dose) {
    if (state.takenAt === null) return null;
    if (fields.takenAt !== null) {
      const isWrong = isUntimely(state.takenAt, dose, true, this.actedAt) && !this.dayHasCome(dose, state.takenAt);
      return isWrong ? 'payload.merged.takenAt' : null;
    }
    return dose.state.takenAt === null ? this.untimelyPath(item.intent.state?.takenAt ?? null, item, dose) : null;
  }

  act(item, dose) {
    const { intent, reach, seenRev } = item;
    const refuse = (verdict) => ({ verdict, dose: null, note: null });
    const isOpen = ['scheduled', 'missed'].includes(dose.state.status);
    const isLater = !this.dayHasCome(dose, this.actedAt)
      && !this.account.isOfToday(dose, this.account.zone, this.actedAt);
    if (intent.state?.status === 'taken' && reach !== 'any' && isOpen && isLater) return refuse(NOT_DUE);
    const path = this.untimelyPath(intent.state?.takenAt ?? null, item, dose);
    if (path) return refuse(untimely(path));
    if (reach === 'due' && isToCome(dose, this.actedAt, this.now)) return refuse(NOT_DUE);
    const takenAt = intent.state?.takenAt ?? null;
    const isOfItsDay = takenAt !== null && this.dayHasCome(dose, takenAt);
    const verdict = decide(intent, dose, seenRev, isOfItsDay, this.actedAt, this.now);
    if (verdict !== APPLIED) return refuse(verdict);
    const sets = intent.state && decideState(intent.state, dose, seenRev, isOfItsDay, this.actedAt, this.now) === APPLIED;
    return {
      verdict, note: intent.note,
      dose: { ...dose, state: sets ? intent.state : dose.state, note: intent.note ?? dose.note },
    };
  }

  undoOne({ entry, target, isLate }, dose) {
    const refuse = (code) => ({ verdict: conflict(code), dose: null, note: null });
    if (dose.state.status === 'cancelled') return refuse('gone');
    if (isLate) return refuse('late');
    if (entry.createdAt !== dose.createdAt || (entry.statusRev !== null && entry.statusRev !== dose.statusRev)
      || (entry.noteRev !== null && entry.noteRev !== dose.noteRev)) return refuse('superseded');
    const isOthersToo = entry.noteRev !== null
      && this.sameNotes(dose, entry.noteRev).some(({ key }) => key !== target);
    const note = entry.hasNote && !isOthersToo ? entry.noteBefore : dose.note;
    return { verdict: APPLIED, dose: { ...dose, state: entry.state ?? dose.state, note }, note: null };
  }

  merged(fields, intent, dose) {
    const status = fields.status ?? dose.state.status;
    const isTaken = status === 'taken' || status === 'made_up';
    const keepsReason = status === 'made_up' || status === 'skipped';
    const kept = dose.state.takenAt === null ? intent.state : dose.state;
    const time = fields.takenAt ?? { at: kept?.takenAt ?? this.actedAt, offset: kept?.takenOffset ?? null };
    return {
      status, takenAt: isTaken ? time.at : null, takenOffset: isTaken ? time.offset : null,
      reason: fields.reason ?? (keepsReason ? dose.state.reason : null),
    };
  }
}

/** Whether the state has changed since the person saw it, or the id is another dose's now. */
function hasMovedOn(dose, item) {
  return dose.statusRev > (item.seenRev ?? 0) || (item.createdAt !== null && item.createdAt !== dose.createdAt);
}

function force(state, note, dose) {
  const after = { ...dose, state: state ?? dose.state, note: note ?? dose.note };
  return { verdict: note !== null || !sameState(after.state, dose.state) ? APPLIED : NOOP, dose: after, note };
}

function spelled(verdict) {
  switch (verdict.kind) {
    case 'conflict': return { status: 'conflict', code: verdict.code };
    case 'notDue': return { status: 'rejected', code: 'not_due' };
    case 'untimely': return { status: 'rejected', code: 'invalid', path: verdict.path };
    default: return { status: verdict.kind };
  }
}

function readSeen(base) {
  if (base == null) return null;
  if (!isObject(base)) throw new InvalidAction('base', 'must be an object');
  const check = (rev) => {
    if (!Number.isInteger(rev) || rev < 0) throw new InvalidAction('base', 'must name revisions, which are integers');
  };
  if (base.rev != null && !isObject(base.rev)) check(base.rev);
  else for (const value of Object.values(base)) if (isObject(value) && value.rev != null) check(value.rev);
  return base;
}

// Reading an action: DoseAction.swift.

function parse({ type, payload, tz }, now) {
  if (!DOSE_TYPES.includes(type)) throw new InvalidAction('type', 'is not a type of action');
  if (!isObject(payload)) throw new InvalidAction('payload', 'must be an object');
  const fields = new Payload(payload, 'payload', now);
  if (type === 'undo') return { type, target: fields.identifier('targetKey') };
  if (type === 'resolve') return parseResolve(fields);
  if (type === 'bulkMarkAll') return parseBulk(fields, tz ?? null);
  const dose = fields.identifier('occurrenceId');
  switch (type) {
    case 'markTaken': {
      const takenAt = fields.pastTime('takenAt');
      return { type, dose, takenAt, note: fields.note('note') };
    }
    case 'makeUp': {
      const takenAt = fields.pastTime(fields.has('at') ? 'at' : 'takenAt');
      const reason = fields.reason('reason');
      const timePath = fields.has('at') ? 'payload.at' : 'payload.takenAt';
      return { type, dose, takenAt, reason, note: fields.note('note'), timePath };
    }
    case 'skip': {
      const reason = fields.reason('reason');
      return { type, dose, reason, note: fields.note('note') };
    }
    case 'addNote': {
      const name = fields.has('text') || !fields.has('note') ? 'text' : 'note';
      const text = fields.note(name);
      if (text === null) throw fields.fault(name, 'is required');
      return { type, dose, text };
    }
    default: return { type, dose, note: fields.note('note') };
  }
}

function parseBulk(fields, zone) {
  const [hasIds, hasCriteria] = [fields.has('occurrenceIds'), fields.has('criteria')];
  if (!hasIds && !hasCriteria) throw fields.fault('occurrenceIds', 'is required, or criteria');
  if (hasIds && hasCriteria) throw fields.fault('criteria', 'must not stand beside occurrenceIds');
  const action = { type: 'bulkMarkAll', ids: null, criteria: null, includesFuture: false };
  if (hasIds) {
    action.ids = fields.identifiers('occurrenceIds', BULK_MAX);
  } else {
    const criteria = fields.members('criteria', ['date', 'productId', 'scheduleId', 'includeFuture']);
    const day = criteria.day('date');
    action.criteria = { day, product: criteria.string('productId'), schedule: criteria.string('scheduleId') };
    action.includesFuture = criteria.boolean('includeFuture') ?? false;
    if (day === null && zone !== null && zoneOffset(zone, 0) === null) {
      throw new InvalidAction('tz', 'is no zone that is known here');
    }
  }
  action.takenAt = fields.pastTime('takenAt');
  if (hasIds) action.includesFuture = fields.boolean('includeFuture') ?? false;
  return action;
}

function parseResolve(fields) {
  const action = { type: 'resolve', target: fields.identifier('of'), choice: fields.requiredString('choice'), merged: null };
  if (!['keep_local', 'accept_server', 'merge'].includes(action.choice)) {
    throw fields.fault('choice', 'must be keep_local, accept_server or merge');
  }
  if (!fields.has('merged')) return action;
  const named = fields.members('merged', ['status', 'takenAt', 'reason', 'note']);
  const status = named.string('status');
  if (status !== null && !['scheduled', 'taken', 'missed', 'made_up', 'skipped'].includes(status)) {
    throw named.fault('status', 'must be scheduled, taken, missed, made_up or skipped');
  }
  const takenAt = named.pastTime('takenAt');
  const reason = named.reason('reason');
  action.merged = { status, takenAt, reason, note: named.note('note') };
  return action;
}
