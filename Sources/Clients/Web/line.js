// A connection to the hub: protocol 7 over a WebSocket of our own, or the app's own pusher-js. Both have the same members:
// `state` ('offline', 'connecting', 'open', 'refused'), `onState`, `onFrame({event, channel, data})`, `start`, `stop`,
// `send`, `subscribe`, `unsubscribe`, `again`, `worked`, `reject`.
import { jitter } from './signals.js';

/** Closes by which the hub says: do not come back. */
const isFinal = (code) => code >= 4000 && code < 4100;
const isAtOnce = (code) => code >= 4200 && code < 4300;
const PONG_MS = 30_000;
/** How long the hub has to answer when the browser says that there is no network. */
const DOUBT_MS = 5000;

export class Line {
  /** `hub`: its address by HTTP; `authorize(channel, socketId)`: what the app's backend signs of a channel. */
  constructor({ hub, key, authorize = null, WebSocket = globalThis.WebSocket, random = Math.random, backoff = {} }) {
    const url = new URL(hub);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    url.pathname = `${url.pathname.replace(/\/$/, '')}/app/${encodeURIComponent(key)}`;
    url.search = '?protocol=7&client=carillon-web&version=1.0.0';
    Object.assign(this, {
      url: url.href, authorize, WebSocket, random, backoff, state: 'offline', channels: new Set(), turns: new Map(),
      attempt: 0, wait: null, isStarted: false, onState: () => {}, onFrame: () => {},
    });
    this.wake = () => { if (this.state !== 'refused') { this.attempt = 0; this.connect(); } };
    // The browser may be wrong: the hub is asked at once, and given up if it does not answer.
    this.doubt = () => { if (this.state === 'open') this.expect(0, false, DOUBT_MS); };
  }

  start() {
    if (this.isStarted) return;
    this.isStarted = true;
    globalThis.addEventListener?.('online', this.wake);
    globalThis.addEventListener?.('offline', this.doubt);
    this.connect();
  }

  stop() {
    this.isStarted = false;
    globalThis.removeEventListener?.('online', this.wake);
    globalThis.removeEventListener?.('offline', this.doubt);
    clearTimeout(this.retry);
    this.drop();
    this.become('offline');
  }

  /** Makes the connection anew, after a wait: this one is of no use. */
  again() {
    if (this.isStarted) this.lost();
  }

  become(state, more = {}) {
    if (state === this.state) return;
    this.state = state;
    this.onState(state, more);
  }

  connect() {
    if (!this.isStarted || this.socket) return;
    clearTimeout(this.retry);
    this.become('connecting');
    let socket;
    try {
      socket = new this.WebSocket(this.url);
    } catch {
      this.lost();
      return;
    }
    this.socket = socket;
    const mine = (act) => (event) => { if (this.socket === socket) act(event); };
    socket.onmessage = mine(({ data }) => this.hear(data));
    socket.onclose = mine(({ code, reason }) => this.lost(code, reason));
    socket.onerror = () => {};
    this.expect(PONG_MS);
  }

  /** The old socket says no more, and a new one is tried: when, its close code tells. */
  lost(code = 1006, reason = '') {
    this.drop();
    if (!this.isStarted) return;
    if (isFinal(code)) {
      this.become('refused', { code, reason });
      return;
    }
    this.become('offline', { code, reason });
    const { minMs, maxMs } = this.wait ?? {};
    // The hub says how long; else at once after 42xx, the first time; else full jitter.
    const hinted = this.wait ? minMs + this.random() * Math.max(0, maxMs - minMs) : null;
    this.wait = null;
    const pause = hinted ?? (isAtOnce(code) && this.attempt === 0 ? 0 : jitter(this.attempt, this.backoff, this.random));
    this.attempt += 1;
    this.retry = setTimeout(() => this.connect(), pause);
    this.lastPause = pause;
  }

  drop() {
    clearTimeout(this.quiet);
    const { socket } = this;
    this.socket = null;
    if (socket && socket.readyState < 2) socket.close();
  }

  /** Asks whether the hub is there when it has said nothing for so long, and gives it up when it does not answer. */
  expect(milliseconds, isAsked = false, patience = PONG_MS) {
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => {
      if (isAsked || this.state !== 'open') { this.lost(); return; }
      this.send('pusher:ping', {});
      this.expect(patience, true);
    }, milliseconds);
  }

  hear(text) {
    const frame = parsed(text);
    if (typeof frame?.event !== 'string') return;
    // The data of a backend's event may be any text.
    const data = typeof frame.data === 'string' ? parsed(frame.data) : undefined;
    if (data !== undefined) frame.data = data;
    this.expect(this.activity ?? PONG_MS);
    switch (frame.event) {
      case 'pusher:connection_established':
        this.activity = Math.max(1, frame.data?.activity_timeout ?? 120) * 1000;
        this.socketId = frame.data?.socket_id;
        this.expect(this.activity);
        this.become('open');
        for (const name of this.channels) this.join(name);
        break;
      case 'pusher:ping': this.send('pusher:pong', {}); break;
      case 'sync:backoff': this.wait = backoffOf(frame.data); break;
      default: break;
    }
    this.onFrame(frame);
  }

  /** A session has worked: the next pause begins small again. */
  worked() {
    this.attempt = 0;
  }

  /** The line is another user's. */
  reject() {
    this.again();
  }

  send(event, data, channel) {
    if (this.state !== 'open' || this.socket?.readyState !== 1) return false;
    this.socket.send(JSON.stringify({ event, data, ...(channel && { channel }) }));
    return true;
  }

  subscribe(name) {
    if (this.channels.has(name)) return;
    this.channels.add(name);
    this.join(name);
  }

  /** Private and presence channels are joined with what the app's backend signs, for this connection alone. */
  async join(channel) {
    if (!this.authorize || !/^(private|presence)-/.test(channel)) {
      this.send('pusher:subscribe', { channel });
      return;
    }
    if (this.state !== 'open') return;
    const turn = {};
    this.turns.set(channel, turn);
    const { socket } = this;
    // Meanwhile the connection may be another one, and nobody may want the channel any more, or somebody anew.
    const isMine = () => this.socket === socket && this.turns.get(channel) === turn;
    try {
      const { auth, channel_data } = await this.authorize(channel, this.socketId);
      if (isMine()) this.send('pusher:subscribe', { channel, auth, ...(channel_data && { channel_data }) });
    } catch (error) {
      const data = { type: 'AuthError', error: String(error?.message ?? error) };
      if (isMine()) this.onFrame({ event: 'pusher:subscription_error', channel, data });
    }
  }

  unsubscribe(name) {
    this.turns.delete(name);
    if (this.channels.delete(name)) this.send('pusher:unsubscribe', { channel: name });
  }
}

/** A JSON text as a value; undefined where it is none. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function backoffOf(data) {
  const minMs = Math.max(0, Number(data?.minMs) || 0);
  return { minMs, maxMs: Math.max(minMs, Number(data?.maxMs) || 0) };
}

/** The app's own pusher-js, as a line. It connects, waits and comes back as it does by itself. */
export class PusherLine {
  constructor(pusher) {
    Object.assign(this, { pusher, state: 'offline', channels: new Set(), onState: () => {}, onFrame: () => {} });
    this.changed = () => this.look();
    this.message = (frame) => this.onFrame({ event: frame.event, channel: frame.channel, data: frame.data });
  }

  start() {
    const { connection } = this.pusher;
    connection.bind('state_change', this.changed);
    connection.bind('message', this.message);
    if (connection.state === 'disconnected' || connection.state === 'initialized') this.pusher.connect?.();
    this.look();
  }

  stop() {
    const { connection } = this.pusher;
    connection.unbind('state_change', this.changed);
    connection.unbind('message', this.message);
    for (const name of this.channels) this.pusher.unsubscribe(name);
    this.state = 'offline';
  }

  look() {
    const state = { connected: 'open', connecting: 'connecting', failed: 'refused' }[this.pusher.connection.state]
      ?? 'offline';
    if (state === this.state) return;
    this.state = state;
    this.onState(state, {});
  }

  again() {
    this.pusher.disconnect();
    this.pusher.connect();
  }

  worked() {}

  /** Another user's client may be on it too. */
  reject() {}

  send(event, data, channel) {
    return this.state === 'open' && this.pusher.send_event(event, data, channel) !== false;
  }

  subscribe(name) {
    if (this.channels.has(name)) return;
    this.channels.add(name);
    this.pusher.subscribe(name);
  }

  unsubscribe(name) {
    if (this.channels.delete(name)) this.pusher.unsubscribe(name);
  }
}
