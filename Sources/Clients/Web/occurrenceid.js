// The ids of a day's reminder (care.occurrence_id) and of schedules, as the hub makes them: UUIDs of version 5. The
// browser's own SHA-1 answers later, and what is shown waits for nothing.
import { dayText } from './times.js';

/** Carillon's namespace, for rules whose id is not a UUID. */
const NAMESPACE = '8a9e3b526a435d0c9f4e1c7f5be0ca21';
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

const KEPT_MAX = 5000;
const kept = new Map();

/** `time`: the rule's time of day, such as `08:30`. */
export function occurrenceID(rule, day, time) {
  const name = `${rule}\n${day}\n${time}`;
  let id = kept.get(name);
  if (id === undefined) {
    id = named(rule, `${dayText(day)}T${time.slice(0, 5)}`);
    if (kept.size >= KEPT_MAX) kept.clear();
    kept.set(name, id);
  }
  return id;
}

/** The id of a medication's nth schedule (care.schedule_id). */
export const scheduleID = (medication, n) => named(medication, `schedule/${n}`);

function named(owner, name) {
  const own = UUID.test(owner) ? owner.replaceAll('-', '') : uuid5(NAMESPACE, owner);
  const text = uuid5(own, name);
  return [[0, 8], [8, 12], [12, 16], [16, 20], [20, 32]].map(([begin, end]) => text.slice(begin, end)).join('-');
}

/** RFC 9562 §5.5, as hexadecimal digits. */
function uuid5(namespace, name) {
  const begin = namespace.match(/../g).map((digits) => parseInt(digits, 16));
  const bytes = sha1([...begin, ...new TextEncoder().encode(name)]).slice(0, 16);
  bytes[6] = (bytes[6] & 0x0f) | 0x50;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** RFC 3174. */
function sha1(bytes) {
  const rotated = (word, count) => (word << count) | (word >>> (32 - count));
  const padded = [...bytes, 0x80];
  while (padded.length % 64 !== 56) padded.push(0);
  const view = new DataView(new ArrayBuffer(padded.length + 8));
  padded.forEach((byte, index) => view.setUint8(index, byte));
  view.setUint32(padded.length + 4, bytes.length * 8);
  const hash = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
  for (let block = 0; block < view.byteLength; block += 64) {
    const words = Array.from({ length: 16 }, (_, index) => view.getInt32(block + index * 4));
    for (let index = 16; index < 80; index += 1) {
      words.push(rotated(words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16], 1));
    }
    let [a, b, c, d, e] = hash;
    for (const [index, word] of words.entries()) {
      const [mixed, constant] = index < 20 ? [(b & c) | (~b & d), 0x5a827999] : index < 40 ? [b ^ c ^ d, 0x6ed9eba1]
        : index < 60 ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc] : [b ^ c ^ d, 0xca62c1d6];
      [a, b, c, d, e] = [(rotated(a, 5) + mixed + e + constant + word) | 0, a, rotated(b, 30), c, d];
    }
    [a, b, c, d, e].forEach((word, index) => { hash[index] = (hash[index] + word) | 0; });
  }
  return hash.flatMap((word) => [24, 16, 8, 0].map((shift) => (word >>> shift) & 0xff));
}
