// The transition table of doses, and their days: Values/Care/Doses/DoseRules.swift and Values/Care/Days, word for word.
// `Tests/Vectors` hold this file, the Swift model and the SQL functions to the same answers.
import { dayAt, SECOND } from './times.js';

/** Seconds after the window's end in which a missed dose may still have been taken. */
export const GRACE = 1800 * SECOND;
/** Before its window or time in which a missed dose may have been taken, or on its day. */
const EARLY = 43_200 * SECOND;
/** Before its window in which a dose may have been taken. */
const AHEAD = 86_400 * SECOND;

const conflict = (code) => ({ kind: 'conflict', code });
export const APPLIED = { kind: 'applied' };
export const NOOP = { kind: 'noop' };
export const NOT_DUE = { kind: 'notDue' };
export const untimely = (path) => ({ kind: 'untimely', path });
export { conflict };

export const sameState = (left, right) =>
  left.status === right.status && left.takenAt === right.takenAt && left.takenOffset === right.takenOffset
  && left.reason === right.reason;

/** Decides an intent `{state, note}` on a dose; null: there is none. */
export function decide(intent, dose, seenRev, isOfItsDay, actedAt, now) {
  if (!dose) return conflict('gone');
  if (!intent.state) return APPLIED;
  const verdict = decideState(intent.state, dose, seenRev, isOfItsDay, actedAt, now);
  return verdict === NOOP && intent.note !== null ? APPLIED : verdict;
}

/** Decides the state of an intent: it is set only if the device saw the current one, or nothing was reported. */
export function decideState(wanted, dose, seenRev, isOfItsDay, actedAt, now) {
  const verdict = transition(wanted, dose, isOfItsDay, actedAt, now);
  const isStale = seenRev !== null && dose.statusRev > seenRev;
  return verdict === APPLIED && isStale && dose.state.status !== 'missed' ? conflict('state') : verdict;
}

/** Whether a dose was taken too long before its window, if its day had not come. */
export function isUntimely(takenAt, dose, isDirect, actedAt) {
  let start = Math.min(dose.windowStart ?? dose.scheduledAt, dose.scheduledAt);
  if (!isDirect) start = Math.min(start, actedAt);
  return takenAt < start - AHEAD;
}

/**
 * Whether a dose is in today's list: it falls on that day where the person is, or it is due now. `offset(dose)` is that
 * of the dose's zone at its time, `here(dose)` that of the person's. They are asked only for doses that are near.
 */
export function isOfToday(dose, today, offset, here, now) {
  // Zones are 26 hours apart at most, and a window has a day.
  if (Math.abs(dose.day - today) > 3) return false;
  const isDue = dose.scheduledAt <= now && now < dose.windowEnd && !dose.asNeeded;
  return isDue || dose.day + dayAt(dose.scheduledAt, here(dose)) - dayAt(dose.scheduledAt, offset(dose)) === today;
}

/** Whether nobody has acted on a dose since an instant: it is scheduled, or was missed between that and now. */
export function isOpen(dose, actedAt, now) {
  const end = dose.windowEnd + GRACE;
  return dose.state.status === 'scheduled' || (dose.state.status === 'missed' && end > actedAt && end <= now);
}

/** Whether a bulk action by criteria leaves the dose, which was still to come. */
export const isToCome = (dose, actedAt, now) => isOpen(dose, actedAt, now) && dose.scheduledAt > actedAt;

function transition(wanted, dose, isOfItsDay, actedAt, now) {
  if (dose.state.status === 'cancelled') return conflict('gone');
  if (['missed', 'made_up'].includes(wanted.status) && isOpen(dose, actedAt, now)) {
    return actedAt < dose.windowEnd ? NOT_DUE : APPLIED;
  }
  switch (`${wanted.status} ${dose.state.status}`) {
    case 'taken scheduled': return APPLIED;
    case 'taken taken': return NOOP;
    case 'taken missed': {
      // A late sync must not punish the user.
      const start = Math.min(dose.windowStart ?? dose.scheduledAt, dose.scheduledAt) - EARLY;
      const takenAt = wanted.takenAt ?? now;
      const isInTime = (start <= takenAt || isOfItsDay) && takenAt <= dose.windowEnd + GRACE;
      return isInTime ? APPLIED : conflict('late');
    }
    case 'missed missed': return NOOP;
    case 'made_up taken': case 'made_up made_up': return NOOP;
    case 'made_up missed': return APPLIED;
    case 'skipped scheduled': case 'skipped missed': return APPLIED;
    case 'skipped skipped': return NOOP;
    default: return conflict('state');
  }
}

/** Whether a scheduled dose has ended, with the grace after its window. */
const isOver = (dose, now) => dose.windowEnd + GRACE <= now;

/** What time makes of a dose: missed, once it is over. The hub's job will do it. */
export function foldTime(dose, now) {
  if (dose.state.status !== 'scheduled' || !isOver(dose, now)) return dose;
  return { ...dose, state: { status: 'missed', takenAt: null, takenOffset: null, reason: null } };
}

/** The doses of one day, counted by status. Cancelled ones and those taken as needed are not counted. */
export function count(doses, now) {
  const counts = { taken: 0, missed: 0, madeUp: 0, skipped: 0, pending: 0, overdue: 0 };
  for (const dose of doses) {
    if (dose.asNeeded) continue;
    switch (dose.state.status) {
      case 'taken': counts.taken += 1; break;
      case 'missed': counts.missed += 1; break;
      case 'made_up': counts.madeUp += 1; break;
      case 'skipped': counts.skipped += 1; break;
      case 'scheduled':
        counts.pending += 1;
        if (isOver(dose, now)) counts.overdue += 1;
        break;
      default: break;
    }
  }
  return counts;
}

/** A percentage with one decimal, rounded half up; null where nothing is due. */
function share(part, whole) {
  return whole > 0 ? Math.floor((2000 * part + whole) / (2 * whole)) / 10 : null;
}

/** A day's summary as the hub shows it. */
export function summary(date, counts) {
  const { taken, missed, madeUp, skipped, pending, overdue } = counts;
  const due = taken + missed + madeUp + overdue;
  return {
    date, scheduledCount: taken + missed + madeUp + skipped + pending, takenCount: taken, missedCount: missed,
    madeUpCount: madeUp, skippedCount: skipped, pendingCount: pending, adherencePct: share(taken + madeUp, due),
    onTimePct: share(taken, due),
  };
}
