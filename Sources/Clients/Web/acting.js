// What becomes a row of the queue when the person acts: which entities it touches, what the person saw of them, and how an
// undo or a decision is written.
import { applyRow, bookOf, counting, foldDoses, occurrenceDay } from './overlay.js';
import { DOSE_TYPES } from './account.js';
import { LIST_TYPES } from './lists.js';
import { isObject } from './payload.js';
import { dayKey, fieldsOf, REMINDER_TYPES } from './reminderbook.js';
import { holds, isResolvable, meets, release, reopen, settled, WAITING } from './queue.js';
import { CarillonError } from './signals.js';
import { dayAt, dayNumber, dayText, formatTime, zoneOffset } from './times.js';

/** A message of the hub has 64 KiB at most; the envelope around the payload is small. */
const BYTES_MAX = 60_000;
const NAMED = ['createMedication', 'createSchedule', 'createStack', 'createReminder', 'logDose'];
const TO_BE_JUDGED = ['markTaken', 'markMissed', 'makeUp', 'skip', 'addNote'];

/** The row of a new action. Its key is fixed here, and nowhere else. */
export function rowOf({ type, payload, base, mirror, zone, now }) {
  if (typeof type !== 'string' || !isObject(payload)) {
    throw new CarillonError('invalid', 'an action has a type and a payload');
  }
  const body = sendable(payload);
  if (NAMED.includes(type) && body.id == null) body.id = crypto.randomUUID();
  const row = {
    key: crypto.randomUUID(), n: null, type, payload: body, base: undefined, retries: 0, state: 'queued',
    clientTime: formatTime(now, zoneOffset(zone, now) ?? 0), tz: zone, entities: [],
  };
  const prediction = describe(row, mirror, zone, now);
  row.base = base ?? row.base;
  if (new TextEncoder().encode(JSON.stringify(row)).length > BYTES_MAX) {
    throw new CarillonError('too_large', 'the hub takes no action of this size');
  }
  return { row, prediction };
}

/** A payload as the hub gets it: a `Date` is a text by then. */
function sendable(payload) {
  let text;
  try {
    text = JSON.stringify(payload, function check(name, value) {
      if (this[name] instanceof Date && Number.isNaN(this[name].getTime())) throw new TypeError(`${name} is not a time`);
      return value;
    });
  } catch (error) {
    throw new CarillonError('invalid', `the payload is not JSON: ${error.message}`, { cause: error });
  }
  const body = JSON.parse(text);
  if (!isObject(body)) throw new CarillonError('invalid', 'an action has a type and a payload');
  return body;
}

/** Fills in what the row touches and what the person saw; returns what the hub will probably answer. */
function describe(row, mirror, zone, now) {
  const { type, payload } = row;
  if (DOSE_TYPES.includes(type)) return describeDoses(row, mirror, zone, now);
  if (type === 'logDose') row.entities = [`dose:${payload.id}`];
  else if (REMINDER_TYPES.includes(type)) describeReminder(row, mirror, zone, now);
  else if (LIST_TYPES.includes(type)) describeList(row, mirror);
  return null;
}

function describeDoses(row, mirror, zone, now) {
  const { type, payload } = row;
  const folded = foldDoses(mirror, zone, now);
  const account = folded.account.copy();
  const rev = (id) => mirror.kind('dose').get(id)?.value?.rev;
  if (TO_BE_JUDGED.includes(type)) {
    row.entities = [`dose:${payload.occurrenceId}`];
    const seen = rev(payload.occurrenceId);
    if (seen !== undefined) row.base = { rev: seen };
  }
  const answer = applyRow(account, row, now, folded.before);
  const stored = account.actions.get(row.key);
  if (type === 'bulkMarkAll') {
    const ids = payload.occurrenceIds ?? (answer.items ?? []).map((item) => item.occurrenceId);
    row.payload = pinned(payload, ids, dayText(dayAt(now, zoneOffset(zone, now) ?? 0)));
    row.entities = ids.map((id) => `dose:${id}`);
    const seen = ids.filter((id) => rev(id) !== undefined).map((id) => [id, { rev: rev(id) }]);
    if (seen.length) row.base = Object.fromEntries(seen);
  }
  if (type === 'undo' || type === 'resolve') {
    const key = payload.targetKey ?? payload.of;
    row.entities = rowByKey(mirror, key)?.entities ?? [`action:${key}`];
  } else {
    row.undo = stored?.undo ?? [];
  }
  const { status, code, path } = answer;
  return { status, code, path };
}

/**
 * What the person saw is what is marked, whenever the hub hears of it: criteria become the doses that they mean here, or,
 * where none is known, those of the day on which the person acts.
 */
function pinned(payload, ids, date) {
  const { criteria, ...rest } = payload;
  if (!isObject(criteria)) return payload;
  if (!ids.length) return { ...rest, criteria: { ...criteria, date: criteria.date ?? date } };
  return { ...rest, occurrenceIds: ids, ...(criteria.includeFuture && { includeFuture: true }) };
}

function describeReminder(row, mirror, zone, now) {
  const { type, payload } = row;
  const book = bookOf(mirror, zone);
  const occurrence = payload.occurrenceId && occurrenceDay(payload.occurrenceId, book, mirror, now);
  const name = occurrence?.rule ?? payload.id ?? payload.occurrenceId;
  const rule = book.rule(name);
  row.entities = [`reminder:${rule?.id ?? name}`];
  if (payload.clientId) row.entities.push(`reminder:${payload.clientId}`);
  // Of an occurrence the base is its own revision, also where the whole rule is sent back for it.
  if (type === 'setReminderOccurrence' || payload.applyTo === 'occurrence') {
    const rev = seenDay(book, rule, occurrence, row);
    if (rev !== undefined) row.base = { rev };
  } else if (type === 'updateReminder' || type === 'deleteReminder') {
    const rev = seenRev(payload.rev, rule?.rev);
    if (rev !== undefined) row.base = { rev };
    if (rule) row.seen = { id: rule.id, rev: rule.rev, fields: fieldsOf(rule.fields) };
  }
}

/**
 * The revision of a rule's day that the person saw: that of an occurrence that is sent back, else what the device has; 0: it
 * is as its rule says. Undefined where the hub has told no such day.
 */
function seenDay(book, rule, occurrence, { type, payload }) {
  if (type === 'setReminderOccurrence' && Number.isInteger(payload.rev)) return payload.rev;
  const day = payload.occurrenceId ? occurrence?.day : dayNumber(payload.date ?? '');
  if (!rule || day == null) return undefined;
  return book.exceptions.get(dayKey(rule.id, day))?.rev ?? 0;
}

/**
 * The revision that the person saw: of an object that is sent back whole its `rev`, else what the device has. Worst
 * interleaving: another device's change arrives between the look and the tap. The device has it, and the person has not
 * seen it. One that was shown before the hub knew it has 0, and is made as 1.
 */
const seenRev = (told, known) => (Number.isInteger(told) && told >= 0 ? Math.max(told, 1) : known);

function describeList(row, mirror) {
  const { type, payload } = row;
  const told = type.startsWith('create') ? undefined : payload.rev;
  // The hub would take it for the base where none is told.
  delete payload.rev;
  const rows = (kind) => [...mirror.kind(kind).values()].map(({ value }) => value).filter(Boolean);
  const all = [...rows('medication').map((one) => ['medication', one]), ...rows('stack').map((one) => ['stack', one])];
  const add = (entity, seen) => {
    row.entities = [entity];
    const rev = seenRev(told, seen?.rev);
    if (rev !== undefined && !hasOwn(mirror, row)) row.base = { rev };
  };
  if (type === 'updateSettings') {
    add('settings');
  } else if (type.endsWith('Schedule')) {
    const found = all.find(([, one]) => one.schedules?.some(({ id }) => id === payload.id));
    add(`schedule:${payload.id}`, found?.[1].schedules.find(({ id }) => id === payload.id));
    const owner = found ? `${found[0]}:${found[1].id}`
      : payload.stackId ? `stack:${payload.stackId}` : `medication:${payload.productId}`;
    row.entities.push(owner);
    if (hasOwn(mirror, row)) delete row.base;
  } else {
    const kind = type.endsWith('Stack') ? 'stack' : 'medication';
    add(`${kind}:${payload.id}`, rows(kind).find(({ id }) => id === payload.id));
  }
}

/** Whether an action of this device on the same thing is not confirmed: the revision that the person saw is about to go. */
function hasOwn(mirror, row) {
  const parked = [...mirror.actions.values()].filter(({ state }) => state === 'parked');
  return [...counting(mirror), ...parked].some((other) => meets(other, row));
}

export const rowByKey = (mirror, key) => mirror.actions.get(mirror.keys.get(key)) ?? null;

/**
 * Appends a row, in the transaction `work`. Behind a conflict about the same entity it waits for the person, and so it does
 * behind a row that waits for one: that row acted first.
 */
export async function append(work, row) {
  if (work.get('meta', 'isSignedOut')) throw new CarillonError('signed_out', 'the user has signed out');
  const parked = row.type !== 'resolve' && work.all('actions').find((one) => holds(one, row));
  if (parked) Object.assign(row, { state: 'parked', behind: parked.behind ?? parked.key });
  await work.put('actions', row);
}

/**
 * Takes an action back. One that was never sent goes, and nothing is sent. One that waits for a decision, or was refused,
 * has done nothing: it goes too. Returns whether an `undo` has to be sent.
 *
 * Worst interleaving: the conflict is decided, and the decision waits in the queue. It would be carried out all the same, so
 * it goes first. One that was perhaps sent is taken back by its own undo alone: then this throws.
 */
export async function cancel(work, key) {
  const row = work.byKey(key);
  if (!row) return true;
  // With tries, another device of this store, or a store that is gone, has perhaps sent it.
  if (row.state === 'queued' && row.n === null && !row.retries) {
    work.delete('actions', row.id);
    await reopen(work, row);
    return false;
  }
  if (row.state === 'parked' && row.decidedBy && work.byKey(row.decidedBy)) {
    if (await cancel(work, row.decidedBy)) throw new CarillonError('no_conflict', 'that conflict is decided');
    return cancel(work, key);
  }
  if (row.state === 'parked' && row.until) {
    // Some of several doses are done, and only the hub can take that back. The others have done nothing.
    await settled(work, row);
    await release(work, key);
    return true;
  }
  if (row.state === 'parked' || (row.state === 'failed' && !row.until)) {
    await release(work, key);
    work.delete('actions', row.id);
    return false;
  }
  return true;
}

/** The action by which a person's decision of a conflict is told: a `resolve`, or the change again. */
export function decision(row, choice, merged) {
  const { conflict, items } = row.answer ?? {};
  if (!['keep_local', 'accept_server', 'merge'].includes(choice)) {
    throw new CarillonError('invalid', 'a choice is keep_local, accept_server or merge');
  }
  if (isResolvable(row.type)) {
    const payload = { of: row.key, choice, ...(merged && { merged }) };
    const rev = conflict?.server?.rev;
    const each = (items ?? []).filter((item) => item.conflict?.server)
      .map((item) => [item.occurrenceId, { rev: item.conflict.server.rev }]);
    const base = rev !== undefined ? { rev } : each.length ? Object.fromEntries(each) : undefined;
    return { type: 'resolve', payload, base };
  }
  if (choice === 'accept_server') return null;
  const rev = conflict?.server?.rev;
  const payload = { ...row.payload, ...(choice === 'merge' ? merged : {}) };
  return { type: row.type, payload, base: rev === undefined ? undefined : { rev } };
}

/** Notes the decision of a conflict; `made` is the action that tells it, if there is one. */
export async function decide(work, key, made) {
  const stored = work.byKey(key);
  if (stored?.state !== 'parked') throw new CarillonError('no_conflict', 'that conflict is decided');
  if (made?.type === 'resolve') {
    if (stored.decidedBy) throw new CarillonError('no_conflict', 'that conflict is decided');
    await work.put('actions', { ...stored, decidedBy: made.key });
    await work.put('actions', made);
  } else {
    await release(work, key);
    // In its place: the change again goes before what has waited behind the conflict.
    if (made) await work.put('actions', { ...made, id: stored.id });
  }
}

/** The texts that this device's own action has set: events do not tell them. */
export function textsOf(mirror, key) {
  const row = rowByKey(mirror, key);
  if (!row || row.state === 'parked') return undefined;
  const { note, text, reason = null } = row.payload;
  const isReasoned = row.type === 'skip' || row.type === 'makeUp';
  return { note: row.type === 'addNote' ? text ?? note : note, ...(isReasoned && { reason }) };
}

/** What a store that is gone had, in a new one. Keys stay; numbers are those of the new device. */
export async function requeue(work, rows) {
  for (const { id, ...row } of rows) {
    if (work.byKey(row.key)) continue;
    const retries = row.retries + (row.n === null ? 0 : 1);
    await work.put('actions', { ...row, n: null, retries, state: WAITING.includes(row.state) ? 'queued' : row.state });
  }
}

/** A refused action has been seen. */
export async function dismiss(work, key) {
  const row = work.byKey(key);
  if (row?.state !== 'failed') return;
  if (row.until && row.undo) await work.put('actions', { ...row, state: 'done', answer: undefined });
  else work.delete('actions', row.id);
}

/** A row as apps see it. */
export function told({ key, type, payload, state, n, retries, clientTime, answer, behind }) {
  // Each item is told once: what is refused is a failure, once the conflicts are decided.
  const status = state === 'parked' ? 'conflict' : 'rejected';
  const items = answer?.items?.filter((item) => item.status === status);
  // The answer tells of the first conflict, which is perhaps not among these.
  const item = items?.find(({ code }) => code);
  const first = item && item.code !== answer.code ? item : answer;
  return {
    key, type, payload, state, n, retries, clientTime, code: first?.code ?? null, message: first?.message ?? null,
    path: first?.path ?? null, conflict: answer?.conflict ?? items?.[0]?.conflict ?? null,
    items: (items?.length ? items : answer?.items) ?? null,
    behind: behind ?? null,
  };
}
