// Reads the members of a payload, as Values/Care/Actions/PayloadReader.swift does. Null counts as absent.
import { dayNumber, ofMilliseconds, parseTime, SECOND } from './times.js';

/** Why an action is refused: the first member that is wrong. */
export class InvalidAction extends Error {
  constructor(path, reason) {
    super(`${path} ${reason}`);
    this.path = path;
  }
}

const bytes = (text) => new TextEncoder().encode(text).length;
/** The instants that the hub takes: the years 2000 to 2100. */
const FIRST = 946_684_800 * SECOND;
const END = 4_133_980_800 * SECOND;

/** A clock that is slower has lost its time: 90 days. */
const BELIEVED = 7_776_000 * SECOND;

/** A device's time; null where its clock has lost the time: it is 90 days old, or of no year in which anybody acts. */
export function believedTime(value, path, now) {
  const time = timeOfAnyYear(value, path);
  return isAccepted(time) && time.at > now - BELIEVED ? time : null;
}

/** A time as ISO 8601 with an offset, or as milliseconds: `{at, offset}`. */
export function readTime(value, path) {
  const time = timeOfAnyYear(value, path);
  if (!isAccepted(time)) throw new InvalidAction(path, 'must be of the years 2000 to 2100');
  return time;
}

const isAccepted = ({ at }) => at >= FIRST && at < END;

function timeOfAnyYear(value, path) {
  let time = null;
  if (typeof value === 'string') time = parseTime(value);
  if (typeof value === 'number') {
    if (!Number.isInteger(value)) throw new InvalidAction(path, 'must be an integer number of milliseconds');
    time = { at: ofMilliseconds(value), offset: null };
  }
  if (!time) throw new InvalidAction(path, 'must be a time such as 2025-11-14T08:00:00-05:00');
  return time;
}

/** That time, or `latest` if that is earlier: clocks may be fast. */
export function limited(time, latest) {
  return { at: Math.min(time.at, latest), offset: time.offset };
}

export class Payload {
  constructor(object, path, now) {
    Object.assign(this, { object, path, now });
  }

  has(name) {
    return Object.hasOwn(this.object, name) && this.object[name] !== null;
  }

  fault(name, reason) {
    return new InvalidAction(`${this.path}.${name}`, reason);
  }

  get(name) {
    return this.has(name) ? this.object[name] : null;
  }

  /** An object that may have only these members. */
  members(name, members) {
    const value = this.get(name);
    if (!isObject(value)) throw this.fault(name, 'must be an object');
    if (!Object.keys(value).every((member) => members.includes(member))) {
      throw this.fault(name, `may have ${members.join(', ')}, and no more`);
    }
    return new Payload(value, `${this.path}.${name}`, this.now);
  }

  string(name) {
    const value = this.get(name);
    if (value !== null && typeof value !== 'string') throw this.fault(name, 'must be a string');
    return value;
  }

  requiredString(name) {
    const value = this.string(name);
    if (value === null) throw this.fault(name, 'is required');
    return value;
  }

  boolean(name) {
    const value = this.get(name);
    if (value !== null && typeof value !== 'boolean') throw this.fault(name, 'must be true or false');
    return value;
  }

  identifier(name) {
    if (!this.has(name)) throw this.fault(name, 'is required');
    return identifier(this.object[name], `${this.path}.${name}`);
  }

  identifiers(name, max) {
    const value = this.get(name);
    if (!Array.isArray(value)) throw this.fault(name, 'must be an array');
    if (value.length < 1 || value.length > max) throw this.fault(name, `must have 1 to ${max} elements`);
    return value.map((element, index) => identifier(element, `${this.path}.${name}[${index}]`));
  }

  reason(name) {
    return this.text(name, 500);
  }

  note(name) {
    const text = this.text(name, 4000);
    if (text !== null && /^[ \t\r\n]*$/.test(text)) throw this.fault(name, 'must not be blank');
    return text;
  }

  text(name, max) {
    const value = this.string(name);
    if (value !== null) {
      const length = [...value].length;
      if (length < 1 || length > max) throw this.fault(name, `must have 1 to ${max} characters`);
    }
    return value;
  }

  day(name) {
    const value = this.string(name);
    if (value === null) return null;
    const day = dayNumber(value);
    if (day === null) throw this.fault(name, 'must be a day such as 2025-11-14');
    return day;
  }

  /** A time at most a day ahead of now. One that lies ahead was now. */
  pastTime(name) {
    if (!this.has(name)) return null;
    const time = readTime(this.object[name], `${this.path}.${name}`);
    if (time.at > this.now + 86_400 * SECOND) throw this.fault(name, 'lies in the future');
    return limited(time, this.now);
  }
}

export function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function identifier(value, path) {
  if (typeof value !== 'string') throw new InvalidAction(path, 'must be a string');
  const length = bytes(value);
  if (length < 1 || length > 200) throw new InvalidAction(path, 'must have 1 to 200 bytes');
  return value;
}
