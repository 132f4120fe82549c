// Instants, days and zones. Instants are whole microseconds since 1970, as PostgreSQL has them; days are counted from
// 1970-01-01. The rules are those of Values/Care/Text and Values/Care/Plans.

/** Microseconds of a second. */
export const SECOND = 1_000_000;
const DAY = 86_400 * SECOND;
const PATTERN = new RegExp(
  '^(\\d{4})-(\\d\\d)-(\\d\\d)T(\\d\\d):(\\d\\d)(?::(\\d\\d)(?:\\.(\\d{1,9}))?)?' +
  '(?:(Z)|([+-])(\\d\\d)(?::?(\\d\\d))?)$');

/** The instant and the offset in seconds that a text names (null for `Z`); null where it is no time. */
export function parseTime(text) {
  const found = PATTERN.exec(text);
  if (!found) return null;
  const [, year, month, day, hour, minute, second, fraction, zulu, sign, hours, minutes] = found;
  const days = dayNumber(`${year}-${month}-${day}`);
  if (days === null || +hour > 23 || +minute > 59 || +(second ?? 0) > 59) return null;
  if (!zulu && (+hours > 15 || +(minutes ?? 0) > 59)) return null;
  const offset = zulu ? 0 : (sign === '-' ? -1 : 1) * (+hours * 3600 + +(minutes ?? 0) * 60);
  const seconds = days * 86_400 + +hour * 3600 + +minute * 60 + +(second ?? 0) - offset;
  const part = +(fraction ?? '0').padEnd(6, '0').slice(0, 6);
  return { at: seconds * SECOND + part, offset: zulu ? null : offset };
}

/** The instant of a text that the hub has written; null for null. */
export function instant(text) {
  return text == null ? null : parseTime(text)?.at ?? null;
}

/** Microseconds since 1970, of milliseconds. */
export function ofMilliseconds(milliseconds) {
  return Math.round(milliseconds * 1000);
}

/** `2025-11-14T08:00:00.5+00:00`, as the hub writes it. */
export function formatTime(at, offset = 0) {
  const seconds = Math.floor(at / SECOND);
  const fraction = at - seconds * SECOND;
  const tail = fraction ? `.${String(fraction).padStart(6, '0').replace(/0+$/, '')}` : '';
  return wall(seconds + offset) + tail + offsetText(offset);
}

/** `2025-11-14T08:00:00-05:00`: whole seconds of local time. */
export function localTime(at, offset) {
  return wall(Math.floor(at / SECOND) + offset) + offsetText(offset);
}

/** A local second as `2025-11-14T08:00:00`. */
export function wall(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 19);
}

function offsetText(offset) {
  const minutes = Math.floor(Math.abs(offset) / 60);
  const two = (number) => String(number).padStart(2, '0');
  return `${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/** Days from 1970-01-01 to `2025-11-14`; null where there is no such day. */
export function dayNumber(text) {
  if (!/^\d{4}-\d\d-\d\d$/.test(text) || text.startsWith('0000')) return null;
  const time = Date.parse(`${text}T00:00:00Z`);
  if (Number.isNaN(time) || new Date(time).toISOString().slice(0, 10) !== text) return null;
  return Math.floor(time / 86_400_000);
}

/** `2025-11-14`. */
export function dayText(days) {
  return new Date(days * 86_400_000).toISOString().slice(0, 10);
}

/** The day at an instant, at an offset. */
export function dayAt(at, offset) {
  return Math.floor((at + offset * SECOND) / DAY);
}

/** 1 is Monday, 7 is Sunday. */
export function weekday(days) {
  return ((days + 3) % 7 + 7) % 7 + 1;
}

const formatters = new Map();

/** Clocks change at a quarter of an hour: what was found holds for the whole quarter. */
const QUARTER = 900 * SECOND;
const QUARTERS_MAX = 20_000;
const offsets = new Map();

/** Seconds by which a zone is ahead of UTC at an instant; null for an unknown zone. */
export function zoneOffset(zone, at) {
  const quarter = Math.floor(at / QUARTER);
  const name = `${zone} ${quarter}`;
  let offset = offsets.get(name);
  if (offset === undefined) {
    offset = computedOffset(zone, quarter * 900);
    if (offsets.size >= QUARTERS_MAX) offsets.clear();
    offsets.set(name, offset);
  }
  return offset;
}

function computedOffset(zone, seconds) {
  let formatter = formatters.get(zone);
  if (formatter === undefined) {
    try {
      formatter = new Intl.DateTimeFormat('en-US', {
        timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric',
        minute: 'numeric', second: 'numeric',
      });
    } catch {
      formatter = null;
    }
    formatters.set(zone, formatter);
  }
  if (!formatter) return null;
  const parts = {};
  for (const { type, value } of formatter.formatToParts(seconds * 1000)) parts[type] = +value;
  return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second) / 1000 - seconds;
}

/** The zone of this browser. */
export function ownZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/**
 * The second of a local second in a zone: of the two in an overlap the first, and in a gap by the offset before it (RFC
 * 5545 §3.3.5).
 */
export function secondOf(local, zone) {
  const before = zoneOffset(zone, (local - 86_400) * SECOND) ?? 0;
  const after = zoneOffset(zone, (local + 86_400) * SECOND) ?? 0;
  for (const offset of [before, after]) {
    if ((zoneOffset(zone, (local - offset) * SECOND) ?? 0) === offset) return local - offset;
  }
  return local - before;
}

/** Compares texts by their UTF-8 bytes, as the database does. */
export function byBytes(left, right) {
  const [a, b] = [[...left], [...right]];
  for (let index = 0; index < Math.min(a.length, b.length); index += 1) {
    const difference = a[index].codePointAt(0) - b[index].codePointAt(0);
    if (difference) return difference;
  }
  return a.length - b.length;
}
