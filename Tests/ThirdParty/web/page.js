// The page of the web client's judges: starts clients as they ask, and keeps what they want to know of them.
import { Carillon } from './carillon.js';
import './pusher.js';

globalThis.Carillon = Carillon;
globalThis.sent = [];

const send = WebSocket.prototype.send;
const begin = IDBDatabase.prototype.transaction;
let steps = 0;

/** After that many writes and sends nothing of this page has any effect: as if it was killed there. */
globalThis.dieAfter = Infinity;
globalThis.steps = () => steps;
/** How many writes a full disk has refused. */
globalThis.refused = 0;

function step() {
  steps += 1;
  if (steps >= globalThis.dieAfter) globalThis.isDead = true;
}

IDBDatabase.prototype.transaction = function transaction(stores, mode, options) {
  if (mode !== 'readwrite') return begin.call(this, stores, mode);
  if (globalThis.isDead) throw new DOMException('dead', 'InvalidStateError');
  if (globalThis.isFull) {
    globalThis.refused += 1;
    throw new DOMException('full', 'QuotaExceededError');
  }
  const made = begin.call(this, stores, mode, options);
  made.addEventListener('complete', step);
  return made;
};

WebSocket.prototype.send = function sendText(text) {
  if (globalThis.isDead) return;
  send.call(this, text);
  const message = JSON.parse(text);
  if (message.event !== 'sync:action') return;
  globalThis.sent.push(message.data);
  step();
};

globalThis.begin = async (options) => {
  globalThis.token = options.token;
  const { isOverPusher, hub, key } = options;
  const { hostname: wsHost, port: wsPort } = new URL(hub);
  const pusher = isOverPusher && (globalThis.pusher = new Pusher(key, { wsHost, wsPort }));
  const client = globalThis.client = new Carillon({
    backoff: { baseMs: 50, capMs: 500 }, ...options, ...(pusher && { pusher }), token: () => globalThis.token,
  });
  await client.start();
};

globalThis.pages = true;
