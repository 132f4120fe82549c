// A device of the web library for judges, with the requests of Tests/ClientDevice: `ask({do, …})`. Its process can be made
// to end before a write, or at once; this needs a Chromium with `--js-flags=--allow-natives-syntax`.
import { Carillon } from './carillon.js';

/** Ends this page's process where it stands: none of its code runs after, and nothing is cleaned up. */
const die = new Function('%AbortJS("killed by its judge")');

let client = null;
let store = null;
let writes = 0;
let dieAt = Infinity;

/** Counts calls. One is a part of a transaction, or a message to the hub or to the other tabs. */
function count(prototype, name) {
  const own = prototype[name];
  prototype[name] = function counted(...values) {
    writes += 1;
    if (writes >= dieAt) die();
    return own.apply(this, values);
  };
}

for (const name of ['put', 'add', 'delete', 'clear']) count(IDBObjectStore.prototype, name);
count(IDBTransaction.prototype, 'commit');
count(WebSocket.prototype, 'send');
count(BroadcastChannel.prototype, 'postMessage');

/** Texts from the hub that hold what is another user's. */
const strange = [];

function hear(text, canary) {
  if (text.split('canary-').length !== text.split(canary).length) strange.push(text);
}

/** What a client uses to reach the hub; all that comes is looked at. */
const ways = (canary) => ({
  WebSocket: class extends WebSocket {
    constructor(...values) {
      super(...values);
      this.addEventListener('message', ({ data }) => hear(data, canary));
    }
  },
  fetch: async (...values) => {
    const answer = await fetch(...values);
    answer.clone().text().then((text) => hear(text, canary), () => {});
    return answer;
  },
});

const result = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** A store, opened without the library; null where there is none. */
function opened(name) {
  const opening = indexedDB.open(name);
  opening.onupgradeneeded = () => opening.transaction.abort();
  return result(opening).catch(() => null);
}

const offsets = (positions) => Object.fromEntries(positions.map(({ channel, offset }) => [channel, offset]));

/** What is in a store; null where there is none. */
async function kept(name) {
  const found = await opened(name);
  if (!found) return null;
  const reading = found.transaction(['meta', 'actions', 'entities', 'positions']);
  const all = (kind) => result(reading.objectStore(kind).getAll());
  const [device, actions, entities, positions] = await Promise.all([
    result(reading.objectStore('meta').get('device')), all('actions'), all('entities'), all('positions')]);
  found.close();
  return {
    device: device ?? null, actions: actions.map(({ key, type, payload, state }) => [key, type, payload, state]),
    positions: offsets(positions), texts: entities.map((one) => JSON.stringify(one)),
  };
}

const queued = ({ key, type, code, items, conflict }) => (
  { key, type, code, isWhole: items === null, server: conflict?.server ?? null });

const pick = (value, ...names) => Object.fromEntries(names.map((name) => [name, value[name]]));

async function look() {
  store ??= await opened(client.name);
  const positions = offsets(await result(store.transaction('positions').objectStore('positions').getAll()));
  const today = client.today().value;
  const problem = client.problem.value;
  const overheard = strange.splice(0);
  return {
    overheard, positions,
    standing: {
      connection: client.connection.value, waiting: client.queueLength.value, isLeader: client.isLeader.value,
      problem: problem && `${problem.code ?? problem.name}: ${problem.message}`,
      conflicts: client.conflicts.value.map(queued), failures: client.failures.value.map(queued), writes,
    },
    shown: {
      date: today?.date ?? null, summary: today?.summary ?? null,
      doses: (today?.occurrences ?? []).map((dose) => pick(dose, 'id', 'status', 'rev', 'note', 'takenAt', 'isPending')),
      rules: (client.reminders().value?.items ?? []).map(
        (rule) => pick(rule, 'id', 'rev', 'time', 'label', 'enabled', 'isPending')),
    },
  };
}

async function perform(request) {
  const { key, type, payload, choice, merged } = request;
  switch (request.do) {
    case 'kept': return kept(request.name);
    case 'begin': {
      const { token, canary, ...options } = request.options;
      client = new Carillon({
        backoff: { baseMs: 20, capMs: 500 }, ...ways(canary), ...options, token: () => token,
      });
      dieAt = request.dieAt ?? Infinity;
      await client.start();
      return {};
    }
    case 'act': return { key: (await client.act(type, payload)).key };
    case 'undo': return client.undo(key);
    case 'resolve': return client.resolve(key, choice, merged);
    case 'dismiss': await client.dismiss(key); return {};
    case 'look': return look();
    case 'die': return die();
    default: throw new Error('no such request');
  }
}

globalThis.ask = async (request) => {
  try {
    return await perform(request);
  } catch (error) {
    return { error: `${error.code ?? error.name}: ${error.message}` };
  }
};
