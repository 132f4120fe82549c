// What a person is shown: what the hub said, time, and the actions that it has not confirmed, folded over each other by the
// hub's own rules. Computed anew whenever one of them changes; nothing of it is stored.
import { Account, DOSE_TYPES } from './account.js';
import { count, foldTime, GRACE, summary } from './doserules.js';
import { foldMedications, LIST_TYPES } from './lists.js';
import { occurrenceID } from './occurrenceid.js';
import { believedTime, InvalidAction, limited, readTime } from './payload.js';
import { held } from './queue.js';
import { dayKey, fieldsOf, ReminderBook, REMINDER_TYPES } from './reminderbook.js';
import {
  byBytes, dayAt, dayNumber, dayText, formatTime, instant, localTime, ofMilliseconds, parseTime, SECOND, wall, zoneOffset,
} from './times.js';

/** The rows that count: unanswered ones, and answered ones whose events are not here yet. */
export function counting(mirror) {
  return [...mirror.actions.values()].filter((row) => {
    if (row.state === 'queued' || row.state === 'sent') return true;
    return row.until !== undefined && !isConfirmed(row, mirror);
  });
}

function isConfirmed({ until }, mirror) {
  return Object.entries(until).every(([channel, told]) => {
    const position = mirror.positions.get(channel);
    // A channel that this device does not keep, or that has begun anew, confirms nothing.
    return !position || position.epoch !== told.epoch || position.offset >= told.offset;
  });
}

// Doses.

const doses = new WeakMap();

/** A stored dose as the rules have it. */
function ruled(row) {
  let dose = doses.get(row);
  if (!dose) {
    const { value } = row;
    doses.set(row, dose = {
      id: value.id, productId: value.productId, scheduleId: value.scheduleId, asNeeded: value.asNeeded === true,
      state: {
        status: value.status, takenAt: instant(value.takenAt),
        takenOffset: value.takenAtLocal ? parseTime(value.takenAtLocal)?.offset ?? null : null,
        reason: value.reason ?? null,
      },
      note: value.note ?? null, scheduledAt: instant(value.scheduledAt), zone: value.timezone,
      utcOffset: parseTime(value.timeLocal)?.offset ?? 0, day: dayNumber(value.localDate),
      windowStart: instant(value.windowStart), windowEnd: instant(value.windowEnd), rev: value.rev,
      statusRev: row.statusRev, noteRev: row.noteRev, createdAt: instant(value.createdAt), changedBy: value.changedBy,
    });
  }
  return dose;
}

/** The last fold of each mirror. */
const folds = new WeakMap();
/** What is undone or decided depends on all that was done. */
const REACHING = ['undo', 'resolve'];

/** The user's doses after time and all actions that count. The account is this module's: copy it before changing it. */
export function foldDoses(mirror, zone, now) {
  const rows = counting(mirror).filter((row) => DOSE_TYPES.includes(row.type) || row.type === 'logDose');
  const reaches = rows.some((row) => REACHING.includes(row.type));
  let fold = folds.get(mirror);
  if (reaches || !fold || !goesOn(fold, mirror, rows, zone, now)) fold = begin(mirror, zone, now);
  const { account, before } = fold;
  if (reaches) rememberActions(account, mirror, rows);
  for (const row of rows.slice(fold.rows.length)) applyRow(account, row, now, before);
  const touched = new Set();
  for (const [id, dose] of account.doses) {
    if (before.get(id) === dose) continue;
    touched.add(id);
    account.doses.set(id, foldTime(dose, now));
  }
  folds.set(mirror, { ...fold, rows, until: edge(account, zone, now) });
  return { account, touched, before };
}

/** Whether the last fold is where the next one begins: nothing has come but further actions, and no dose has become due. */
function goesOn(last, mirror, rows, zone, now) {
  return last.turn === mirror.turns.get('dose') && last.zone === zone && now >= last.now && now < last.until
    && last.rows.length <= rows.length && last.rows.every((row, index) => row === rows[index]);
}

function begin(mirror, zone, now) {
  const account = new Account({ zone });
  const before = new Map();
  for (const row of mirror.kind('dose').values()) {
    if (!row.value) continue;
    const dose = foldTime(ruled(row), now);
    before.set(dose.id, dose);
    account.doses.set(dose.id, dose);
  }
  return { account, before, rows: [], turn: mirror.turns.get('dose'), zone, now };
}

/** Performs one row on the account, whose doses were `before`; its answer says what the hub will probably say. */
export function applyRow(account, row, now, before) {
  if (row.type === 'logDose') return logDose(account, row, now);
  account.actions.delete(row.key);
  return account.apply({
    key: row.key, type: row.type, payload: row.payload, base: baseOf(row, account, before),
    clientTime: row.clientTime, tz: row.tz,
  }, now);
}

/** As the queue will name it when it is sent: own actions before it never conflict with it. */
function baseOf({ base, payload }, account, before) {
  if (!base) return base;
  const newest = (rev, id) => {
    const dose = account.doses.get(id);
    return dose && dose !== before.get(id) ? Math.max(rev, dose.rev) : rev;
  };
  if (Number.isInteger(base.rev)) return { ...base, rev: newest(base.rev, payload.occurrenceId) };
  return Object.fromEntries(Object.entries(base).map(
    ([id, seen]) => [id, Number.isInteger(seen?.rev) ? { ...seen, rev: newest(seen.rev, id) } : seen]));
}

/** What answered actions left behind, for the undo or the decision of a person. */
function rememberActions(account, mirror, rows) {
  const own = new Set(rows.map((row) => row.key));
  for (const row of mirror.actions.values()) {
    if (own.has(row.key)) continue;
    const pending = row.answer ? pendingOf(row) : [];
    account.actions.set(row.key, {
      type: row.type, answer: { key: row.key }, isSingle: row.type !== 'bulkMarkAll', undo: row.undo ?? [], pending,
      createdAt: row.at === undefined ? instantOf(row) : ofMilliseconds(row.at), isUndone: row.isUndone === true,
    });
  }
}

const instantOf = (row) => parseTime(row.clientTime)?.at ?? 0;

function pendingOf({ answer }) {
  const conflicts = answer?.conflict ? [answer.conflict] : (answer?.items ?? []).map((item) => item.conflict);
  return conflicts.filter(Boolean).map(({ entity, server, local }) => {
    const time = local.takenAt ? parseTime(local.takenAt) : null;
    return {
      dose: entity.id, rev: server?.rev ?? 0, createdAt: null,
      intent: {
        state: local.status === undefined ? null
          : { status: local.status, takenAt: time?.at ?? null, takenOffset: null, reason: local.reason ?? null },
        note: local.note ?? null,
      },
    };
  });
}

/** When an intake was, by what its action says; now where that is not a time. */
function takenAt({ payload, clientTime }, now) {
  try {
    const time = payload.takenAt == null ? believedTime(clientTime, 'clientTime', now)
      : readTime(payload.takenAt, 'takenAt');
    return limited(time ?? { at: now, offset: null }, now);
  } catch (error) {
    if (!(error instanceof InvalidAction)) throw error;
    return { at: now, offset: null };
  }
}

/** An intake that no schedule asked for. */
function logDose(account, row, now) {
  const { id, productId, note } = row.payload;
  if (account.doses.has(id)) return { key: row.key, status: 'noop' };
  const { at, offset } = takenAt(row, now);
  const utcOffset = zoneOffset(account.zone, at) ?? 0;
  account.doses.set(id, {
    id, productId, scheduleId: null, asNeeded: true, note: note ?? null, scheduledAt: at, zone: account.zone, utcOffset,
    state: { status: 'taken', takenAt: at, takenOffset: offset, reason: null },
    day: dayAt(at, utcOffset), windowStart: null, windowEnd: at, rev: 0, statusRev: 0, noteRev: 0, createdAt: at,
    changedBy: { actor: 'user', deviceId: null },
  });
  return { key: row.key, status: 'applied' };
}

/** A dose as the hub writes it, with what was folded over it. */
export function shownDose(dose, row, user) {
  const { state } = dose;
  const local = state.takenAt !== null && state.takenOffset !== null;
  return {
    userId: user, scheduleId: dose.scheduleId, productId: dose.productId, productName: null, strength: null, form: null,
    dose: null, timezone: dose.zone, windowStart: null, asNeeded: dose.asNeeded,
    scheduledAt: formatTime(dose.scheduledAt), timeLocal: localTime(dose.scheduledAt, dose.utcOffset),
    localDate: dayText(dose.day), windowEnd: formatTime(dose.windowEnd), rev: 0,
    ...row?.value, id: dose.id,
    status: state.status, takenAt: state.takenAt === null ? null : formatTime(state.takenAt),
    takenAtLocal: local ? formatTime(state.takenAt, state.takenOffset) : null, reason: state.reason, note: dose.note,
    hasNote: dose.note === null ? row?.value?.hasNote === true && row.value.note === null : true,
    changedBy: dose.changedBy,
  };
}

/** `today()`: the doses of today's list in the order of their times, with the date's summary and the statistics. */
export function day(mirror, folded, user, date, now) {
  if (!mirror.kind('loaded').has(`day:${date}`)) return undefined;
  const number = dayNumber(date);
  const { account } = folded;
  const of = account.today(account.zone, now).filter((dose) => dose.state.status !== 'cancelled')
    .sort((a, b) => a.scheduledAt - b.scheduledAt || byBytes(a.id, b.id));
  const ofDate = [...account.doses.values()].filter((dose) => dose.day === number);
  const parked = parkedEntities(mirror);
  return {
    date,
    occurrences: of.map((dose) => {
      const row = mirror.kind('dose').get(dose.id);
      const isFolded = row?.value == null || doses.get(row) !== dose;
      return {
        ...(isFolded ? shownDose(dose, row, user) : row.value), isPending: folded.touched.has(dose.id),
        hasConflict: parked.has(`dose:${dose.id}`),
      };
    }),
    summary: summary(date, count(ofDate, now)), stats: mirror.kind('stats').get('stats')?.value ?? null,
  };
}

const parkedEntities = (mirror) => new Set(
  [...mirror.actions.values()].filter((row) => row.state === 'parked').flatMap(held));

/** `month()`: each day's summary, with what time and actions make of its doses. */
export function month(mirror, folded, name, now) {
  if (!mirror.kind('loaded').has(`month:${name}`)) return undefined;
  const byDay = new Map();
  for (const dose of folded.account.doses.values()) {
    const date = dayText(dose.day);
    if (!date.startsWith(name)) continue;
    if (!byDay.has(date)) byDay.set(date, []);
    byDay.get(date).push(dose);
  }
  const days = [...mirror.kind('day').values()].filter((row) => row.id.startsWith(name))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  return days.map(({ id, value }) => {
    const known = byDay.get(id) ?? [];
    const counts = count(known.filter((dose) => dose.state.status !== 'cancelled'), now);
    const isWhole = mirror.kind('loaded').has(`day:${id}`)
      || summary(id, counts).scheduledCount === value.scheduledCount;
    if (isWhole) return summary(id, counts);
    const changed = known.filter((dose) => folded.touched.has(dose.id) && !dose.asNeeded);
    return changed.length ? adjusted(id, value, changed, mirror, now) : value;
  });
}

/** A summary of which only some doses are known: what the hub counted, moved by what has changed. */
function adjusted(date, value, changed, mirror, now) {
  const counts = {
    taken: value.takenCount, missed: value.missedCount, madeUp: value.madeUpCount, skipped: value.skippedCount,
    pending: value.pendingCount, overdue: dayNumber(date) < dayAt(now, 0) - 1 ? value.pendingCount : 0,
  };
  for (const dose of changed) {
    const row = mirror.kind('dose').get(dose.id);
    const was = row?.value ? count([ruled(row)], now) : count([], now);
    const is = count([dose], now);
    for (const name of Object.keys(counts)) counts[name] = Math.max(0, counts[name] + is[name] - was[name]);
  }
  return summary(date, counts);
}

/** When the next dose becomes due or missed, its window ends, or the day does: milliseconds since 1970. */
export const nextEdge = (folded, zone, now) => Math.ceil(edge(folded.account, zone, now) / 1000);

function edge(account, zone, now) {
  const offset = zoneOffset(zone, now) ?? 0;
  let next = (dayAt(now, offset) + 1) * 86_400 * SECOND - offset * SECOND;
  for (const dose of account.doses.values()) {
    const isOpen = dose.state.status === 'scheduled';
    const times = isOpen ? [dose.scheduledAt, dose.windowEnd, dose.windowEnd + GRACE] : [dose.windowEnd];
    for (const time of times) if (time > now && time < next) next = time;
  }
  return next;
}

// Reminders.

/** The action of a row as the book has it; null where it names an occurrence that is not known. */
export function bookAction(row, book, mirror, now) {
  const { type, payload } = row;
  // The hub decides what of it counts, and of which day it is.
  if (type === 'updateReminder' && payload.applyTo === 'occurrence') return null;
  // A revision that the person saw and the device has not is known to the hub alone: until it answers, all is shown.
  const base = row.seen?.rev ?? (Number.isInteger(row.base?.rev) ? row.base.rev : null);
  const fields = Object.fromEntries(Object.entries(fieldsOf({})).flatMap(
    ([name]) => (Object.hasOwn(payload, name) ? [[name, payload[name]]] : [])));
  const day = () => {
    const named = payload.occurrenceId && occurrenceDay(payload.occurrenceId, book, mirror, now);
    if (named) return named;
    return payload.id && payload.date ? { rule: book.rule(payload.id)?.id ?? payload.id, day: dayNumber(payload.date) }
      : null;
  };
  switch (type) {
    case 'createReminder': return { kind: 'create', id: payload.id ?? null, clientId: payload.clientId ?? null, fields };
    case 'updateReminder': return { kind: 'update', id: payload.id, fields, base };
    case 'deleteReminder': return { kind: 'delete', id: payload.id, base };
    case 'snoozeReminder': {
      const named = day();
      const until = payload.until == null ? null
        : Math.floor((typeof payload.until === 'number' ? payload.until * 1000
          : parseTime(payload.until)?.at ?? 0) / SECOND);
      return named && { kind: 'snooze', ...named, until, minutes: payload.minutes ?? null };
    }
    default: {
      const named = day();
      let change = { kind: payload.enabled === false ? 'cancel' : 'bringBack' };
      if (Object.hasOwn(payload, 'movedTo')) {
        change = { kind: 'move', to: payload.movedTo === null ? null : parseTime(`${payload.movedTo}Z`).at / SECOND };
      }
      return named && { kind: 'set', ...named, change, base };
    }
  }
}

/** The user's rules as the hub has them, in a book that performs actions. */
export function bookOf(mirror, zone) {
  const book = new ReminderBook({ home: zone });
  for (const { value } of mirror.kind('reminder').values()) {
    if (!value) continue;
    const rule = {
      id: value.id, clientId: value.clientId ?? null, rev: value.rev, fields: fieldsOf(value),
      isSilent: value.silent === true, createdAt: Math.floor((instant(value.createdAt) ?? 0) / SECOND),
    };
    book.rules.set(rule.id, rule);
    book.remember(rule, null);
    if (rule.clientId) book.aliases.set(rule.clientId, rule.id);
  }
  for (const { value } of mirror.kind('reminderDay').values()) {
    if (!value || !book.rules.has(value.ruleId)) continue;
    book.exceptions.set(dayKey(value.ruleId, dayNumber(value.date)), {
      isCancelled: value.status === 'cancelled', rev: value.rev, snoozes: value.snoozeCount ?? 0,
      movedTo: value.movedTo && !value.kept ? parseTime(`${value.movedTo}Z`).at / SECOND : null,
      kept: value.kept ? Math.floor(instant(value.start) / SECOND) : null,
      snoozedUntil: value.snoozedUntil ? Math.floor(instant(value.snoozedUntil) / SECOND) : null,
    });
  }
  return book;
}

/** The rule and the day of an occurrence: as the hub has told it, or of an id that this device has made, of days near. */
export function occurrenceDay(id, book, mirror, now) {
  const told = mirror.kind('reminderDay').get(id)?.value;
  if (told) return { rule: told.ruleId, day: dayNumber(told.date) };
  for (const { value } of mirror.kind('reminder').values()) {
    const next = value?.upcoming?.find((one) => one.id === id);
    if (next) return { rule: value.id, day: dayNumber(next.start.slice(0, 10)) };
  }
  const today = dayAt(now, 0);
  for (const rule of book.rules.values()) {
    for (let day = today - 3; day <= today + 41; day += 1) {
      if (occurrenceID(rule.id, day, rule.fields.time ?? '00:00') === id) return { rule: rule.id, day };
    }
  }
  return null;
}

/** The user's medicines, and stacks that hold one, as the hub has them, and after what the hub has not confirmed. */
function medicines(mirror) {
  const list = (kind) => [...mirror.kind(kind).values()].map(({ value }) => value).filter(Boolean);
  const settings = mirror.kind('settings').get('settings')?.value ?? {};
  const before = { items: list('medication'), stacks: list('stack'), settings };
  const known = ({ items, stacks }) => {
    const ids = new Set(items.map((one) => one.id));
    const filled = stacks.filter((stack) => stack.items?.some((one) => ids.has(one.productId)));
    const schedules = [...items, ...stacks].flatMap((one) => one.schedules ?? []).map((one) => [one.id, one]);
    return { ids: new Set([...ids, ...filled.map((stack) => stack.id)]), schedules: new Map(schedules) };
  };
  return { before: known(before), after: known(foldMedications(before, counting(mirror))) };
}

/**
 * The days on which a rule may remind at all. A schedule that is here says so itself. Of what else silences a rule (an
 * archived product, say) the book knows nothing: the hub has told no next time of it then.
 */
function daysOf(rule, value, book, { before, after }) {
  const { stackId, productId, scheduleId } = rule.fields;
  const target = stackId ?? productId;
  if (before.ids.has(target) && !after.ids.has(target)) return NEVER;
  if (before.schedules.has(scheduleId) && !after.schedules.has(scheduleId)) return NEVER;
  const schedule = after.schedules.get(scheduleId);
  if (schedule) {
    const { enabled = true, repeat, startsOn, endsOn } = schedule;
    if (!enabled || repeat === 'as_needed') return NEVER;
    return { first: dayNumber(startsOn ?? '') ?? -Infinity, last: dayNumber(endsOn ?? '') ?? Infinity };
  }
  const isTold = value?.upcoming && value.enabled
    && ['stackId', 'productId', 'scheduleId'].every((name) => (value[name] ?? null) === rule.fields[name]);
  if (!isTold) return {};
  if (!value.upcoming.length) return NEVER;
  if (scheduleId == null) return {};
  // Its schedule is not here: where it begins and ends, its next times tell.
  const days = value.upcoming.map(({ start }) => dayNumber(start.slice(0, 10)));
  const [first, last] = [Math.min(...days), value.upcoming.length < UPCOMING ? Math.max(...days) : Infinity];
  return { allows: (day) => (first <= day && day <= last) || book.exceptions.has(dayKey(rule.id, day)) };
}

/** How many next times of a rule the hub tells. */
const UPCOMING = 10;
const NEVER = { allows: () => false };

const localStart = (second, zone) => localTime(second * SECOND, zoneOffset(zone, second * SECOND) ?? 0);

/** What was shown last of each mirror, and what it was made of. */
const shownLast = new WeakMap();

/** `reminders()`: `{items, occurrences}`. Times are always those of now, however long ago the hub has told the rule. */
export function reminders(mirror, zone, now) {
  if (![...mirror.positions.values()].some((position) => position.topic === 'reminders')) return undefined;
  const ground = [
    zone, ...['reminder', 'reminderDay', 'medication', 'stack'].map((kind) => mirror.turns.get(kind)),
    ...counting(mirror).filter(({ type }) => REMINDER_TYPES.includes(type) || LIST_TYPES.includes(type)),
    ...parkedEntities(mirror)];
  const last = shownLast.get(mirror);
  const isSame = last && last.from <= now && now < last.until && last.ground.length === ground.length
    && last.ground.every((one, index) => one === ground[index]);
  if (isSame) return last.value;
  const value = shownReminders(mirror, zone, now);
  shownLast.set(mirror, { ground, value, from: now, until: nextReminder(value) * 1000 });
  return value;
}

function shownReminders(mirror, zone, now) {
  const book = bookOf(mirror, zone);
  const second = Math.floor(now / SECOND);
  const before = new Map(book.rules);
  const exceptions = new Map(book.exceptions);
  const parked = parkedEntities(mirror);
  for (const row of counting(mirror)) {
    if (!REMINDER_TYPES.includes(row.type)) continue;
    const action = bookAction(row, book, mirror, now);
    if (row.seen) book.remember(row.seen, null);
    if (action) book.apply({ key: row.key, device: 'this', action }, actedAt(row, second), row.payload.id ?? row.key);
  }
  const told = new Map([...mirror.kind('reminderDay').values()].filter(({ value }) => value)
    .map(({ value }) => [dayKey(value.ruleId, dayNumber(value.date)), value]));
  const isChanged = (key) => exceptions.get(key) !== book.exceptions.get(key);
  const changed = new Set([...book.exceptions.keys()].filter(isChanged).map((key) => key.split('\n')[0]));
  const known = medicines(mirror);
  const items = [...book.rules.values()].map((rule) => {
    const value = mirror.kind('reminder').get(rule.id)?.value ?? null;
    const isPending = before.get(rule.id) !== rule || changed.has(rule.id);
    const days = daysOf(rule, value, book, known);
    const upcoming = book.upcoming(rule, second, UPCOMING, days).map(({ day, start }) => {
      const key = dayKey(rule.id, day);
      return {
        id: occurrenceOf(rule, day, told.get(key)), ruleId: rule.id, start: localStart(start, rule.fields.timezone),
        status: isChanged(key) ? 'scheduled' : told.get(key)?.status ?? 'scheduled',
      };
    });
    return {
      createdAt: formatTime(rule.createdAt * SECOND), ...value, ...rule.fields, id: rule.id, clientId: rule.clientId,
      rev: value?.rev ?? 0, nextOccurrences: upcoming.map(({ start }) => start), upcoming, isPending,
      hasConflict: parked.has(`reminder:${rule.id}`),
    };
  });
  items.sort((a, b) => byBytes(b.createdAt ?? '', a.createdAt ?? '') || byBytes(a.id, b.id));
  const occurrences = [...book.exceptions].map(([key, one]) => {
    const [ruleId, number] = [key.split('\n')[0], +key.split('\n')[1]];
    const rule = book.rules.get(ruleId);
    const value = told.get(key);
    const start = localStart(book.start(rule, number, one), rule.fields.timezone);
    if (!isChanged(key)) return { ...value, start, isPending: false };
    const id = occurrenceOf(rule, number, value);
    return {
      originalLocal: `${dayText(number)}T${rule.fields.time}:00`, ...value, id, occurrenceId: id, ruleId,
      date: dayText(number), start, status: one.isCancelled ? 'cancelled' : 'scheduled', snoozeCount: one.snoozes,
      movedTo: movedTo(one, rule), kept: one.kept !== null,
      snoozedUntil: one.snoozedUntil === null ? null : formatTime(one.snoozedUntil * SECOND), isPending: true,
    };
  });
  occurrences.sort((a, b) => byBytes(a.originalLocal ?? a.date, b.originalLocal ?? b.date) || byBytes(a.id, b.id));
  return { items, occurrences };
}

/** The local time to which an occurrence was moved, or at which it stays. */
function movedTo({ kept, movedTo: local }, { fields: { timezone } }) {
  if (kept !== null) return wall(kept + (zoneOffset(timezone, kept * SECOND) ?? 0)).slice(0, 16);
  return local === null ? null : wall(local).slice(0, 16);
}

/** The second at which the person acted: a snooze counts from then. A clock that is 90 days behind is lost. */
function actedAt(row, now) {
  const acted = Math.floor(instantOf(row) / SECOND);
  return acted <= now - 7_776_000 ? now : Math.min(acted, now);
}

const occurrenceOf = (rule, day, told) => told?.id ?? occurrenceID(rule.id, day, rule.fields.time ?? '00:00');

/** When the first of the next times passes: milliseconds since 1970. */
export function nextReminder(shown) {
  return Math.min(...(shown?.items ?? []).flatMap(({ upcoming }) => upcoming.slice(0, 1))
    .map(({ start }) => instant(start) / 1000));
}

/** `medications()`: `{items, stacks, settings}`. */
export function medications(mirror, user) {
  const settings = mirror.kind('settings').get('settings')?.value;
  if (!settings) return undefined;
  const list = (kind) => [...mirror.kind(kind).values()].filter((row) => row.value).map((row) => row.value)
    .sort((a, b) => byBytes(a.createdAt ?? '', b.createdAt ?? '') || byBytes(a.id, b.id));
  const parked = parkedEntities(mirror);
  const had = (id) => [...mirror.kind('dose').values()].some(({ value }) => value?.scheduleId === id);
  return foldMedications(
    { items: list('medication'), stacks: list('stack'), settings }, counting(mirror), user, parked, had);
}
