// What frequency and times make of a medication's schedules, as the hub does it (sql/functions/72_care_medication_act.sql):
// which of them goes on as which, and the ids of those that begin. `Tests/Vectors/schedules.json` holds it to the hub.
import { scheduleID } from './occurrenceid.js';
import { byBytes, dayAt, dayNumber, weekday, zoneOffset } from './times.js';

/** A schedule that says nothing of its own. */
export const SCHEDULE = {
  repeat: 'daily', repeatOn: null, dose: null, windowMinutes: null, timezone: null, tzMode: 'follow', startsOn: null,
  endsOn: null, enabled: true, productId: null, stackId: null, rev: 0,
};

const today = (zone, at) => dayAt(at, zoneOffset(zone, at) ?? 0);

/** The times that a payload asks for, earliest first, each as it repeats; null where it says nothing of them. */
function wanted({ frequency, times, repeatOn, startsOn, timezone }, zone, at) {
  const named = [...times ?? []].sort(byBytes);
  if (frequency === 'custom' || (frequency == null && named.length === 0)) return null;
  const usual = { twice_daily: ['08:00', '20:00'], as_needed: [null] }[frequency] ?? ['08:00'];
  const repeat = { weekly: 'custom', as_needed: 'as_needed' }[frequency] ?? 'daily';
  const day = repeatOn?.[0] ?? weekday(dayNumber(startsOn ?? '') ?? today(timezone ?? zone, at));
  return (named.length ? named : usual).map((time) => ({ time, repeat, repeatOn: frequency === 'weekly' ? [day] : null }));
}

/** What the app calls a medication's schedules together; null where there are none. */
export function frequencyOf(schedules) {
  const every = (repeat) => schedules.every((one) => (one.repeat ?? 'daily') === repeat);
  if (schedules.length === 0) return null;
  if (every('as_needed')) return 'as_needed';
  if (schedules.length <= 2 && every('daily')) return schedules.length === 1 ? 'daily' : 'twice_daily';
  return schedules.length === 1 && schedules[0].repeatOn?.length === 1 ? 'weekly' : 'custom';
}

const minutes = (time) => (time == null ? null : +time.slice(0, 2) * 60 + +time.slice(3, 5));
const repeats = ({ repeat, repeatOn }) => `${repeat ?? 'daily'} ${repeatOn ?? ''}`;

/** For each wanted time, the index of the schedule that goes on as it; null for one that begins. */
export function pairs(present, times, isOver = () => false) {
  const found = times.map(() => null);
  const crosses = (was, will) => found.some((old, index) => {
    const [a, b] = [minutes(present[old ?? -1]?.time), minutes(times[index].time)];
    if (was === null || will === null || a === null || b === null) return false;
    return (was < a && will > b) || (was > a && will < b);
  });
  for (;;) {
    let best = null;
    present.forEach((one, old) => times.forEach((time, index) => {
      const [was, will] = [minutes(one.time), minutes(time.time)];
      if (found[index] !== null || found.includes(old) || isOver(one) || crosses(was, will)) return;
      const distance = was === will ? 0 : was === null || will === null ? 1440 : Math.abs(was - will);
      const rank = [one.enabled === false ? 1 : 0, distance, repeats(one) === repeats(time) ? 0 : 1, old, index];
      const at = best ? rank.findIndex((value, place) => value !== best.rank[place]) : 0;
      if (!best || rank[at] < best.rank[at]) best = { rank, old, index };
    }));
    if (!best) return found;
    found[best.index] = best.old;
  }
}

/** A new medication's schedules. */
export function begun(payload, zone, at) {
  return (wanted(payload, zone, at) ?? []).map((time, index) => ({
    ...SCHEDULE, ...given(payload), ...time, productId: payload.id,
    id: payload.scheduleIds?.[index] ?? scheduleID(payload.id, index + 1),
  }));
}

const given = (payload) => Object.fromEntries(['dose', 'windowMinutes', 'startsOn', 'endsOn', 'timezone', 'tzMode']
  .filter((name) => payload[name] != null).map((name) => [name, payload[name]]));

/** What a schedule that begins has of the one whose place it takes, or else of one that stays. */
function inherited(replaced, sibling, zone, at) {
  const { windowMinutes = null, startsOn = null, endsOn = null, timezone = null, tzMode = 'follow' } = sibling;
  const isAhead = startsOn !== null && dayNumber(startsOn) > today(timezone ?? zone, at);
  return { windowMinutes, endsOn, timezone, tzMode, dose: replaced?.dose ?? null, startsOn: isAhead ? startsOn : null };
}

/** A medication's schedules after a change. `had`: whether a schedule of that id has or had doses lately. */
export function changed(payload, medication, zone, at, had = () => false) {
  const dose = Object.hasOwn(payload, 'dose') ? { dose: payload.dose } : {};
  const isSame = payload.times == null && (payload.frequency ?? null) === (medication.frequency ?? null);
  const times = isSame ? null : wanted({ ...payload, startsOn: null, timezone: null }, zone, at);
  if (!times) return medication.schedules.map((one) => ({ ...one, ...dose }));
  const present = [...medication.schedules]
    .sort((a, b) => byBytes(a.time ?? '~', b.time ?? '~') || byBytes(a.id, b.id));
  const isOver = ({ endsOn, timezone }) => endsOn != null && dayNumber(endsOn) < today(timezone ?? zone, at);
  const found = pairs(present, times, isOver);
  const ended = present.filter((one, index) => !found.includes(index) && !isOver(one));
  const taken = new Set(present.map(({ id }) => id));
  return times.map((time, index) => {
    if (found[index] !== null) return { ...present[found[index]], ...time, ...dose };
    const replaced = ended.shift();
    const like = inherited(replaced, replaced ?? present[found.find((old) => old !== null)] ?? {}, zone, at);
    let n = 1;
    while (taken.has(scheduleID(medication.id, n)) || had(scheduleID(medication.id, n))) n += 1;
    const id = scheduleID(medication.id, n);
    taken.add(id);
    return { ...SCHEDULE, ...like, productId: medication.id, ...time, ...dose, id };
  });
}
