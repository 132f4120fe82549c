// Who the user is on a line: signs in with the app's tokens, and again before they expire.
import { CarillonError, jitter } from './signals.js';

const ANSWER_MS = 15_000;
/** Where tokens may go without TLS. */
const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];

export class Session {
  /** `token()`: a fresh token of the user. `onReady` is called on each line, once it is the user's. */
  constructor({ line, token, onReady, onProblem }) {
    Object.assign(this, { line, token, onReady, onProblem, isReady: false, attempt: 0, serial: 0 });
  }

  /** The line has opened or gone. */
  state(state) {
    this.serial += 1;
    this.isReady = false;
    clearTimeout(this.timer);
    if (state === 'open') this.signIn();
  }

  hear({ event, data }) {
    if (event === 'sync:auth_ok') {
      clearTimeout(this.timer);
      this.attempt = 0;
      this.isWaiting = false;
      const isFirst = !this.isReady;
      this.isReady = true;
      this.line.worked();
      this.onProblem(null);
      if (isFirst) this.onReady();
    } else if (event === 'sync:auth_expiring') {
      this.signIn();
    } else if (event === 'pusher:error' && this.isWaiting) {
      this.isWaiting = false;
      this.refused(new CarillonError('unauthorized', data?.message ?? 'the hub refuses the token', { reply: data }));
    }
  }

  async signIn() {
    const serial = this.serial;
    let token;
    try {
      token = await this.token();
      if (typeof token !== 'string' || !token) throw new CarillonError('no_token', 'there is no token');
    } catch (error) {
      if (serial === this.serial) this.refused(error);
      return;
    }
    if (serial !== this.serial) return;
    this.isWaiting = this.line.send('sync:auth', { token });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.line.again(), ANSWER_MS);
  }

  /** Asks the app for another token after a pause. The line stays, and with it what was signed in before. */
  refused(error) {
    const { serial } = this;
    this.onProblem(error);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { if (serial === this.serial) this.signIn(); }, 500 + jitter(this.attempt));
    this.attempt += 1;
  }
}

/** Requests to the hub with a token of the user. */
export class Api {
  constructor({ hub, user, token, fetch = (...all) => globalThis.fetch(...all) }) {
    const { protocol, hostname } = new URL(hub);
    if (protocol !== 'https:' && !(protocol === 'http:' && LOOPBACK.includes(hostname))) {
      throw new CarillonError('insecure', 'the hub\'s address begins with https, but for loopback');
    }
    Object.assign(this, { hub: hub.replace(/\/$/, ''), user, token, fetch });
  }

  /** The body of `/users/{id}/…`, and the position at which it was read. */
  async get(path) {
    const answer = await this.fetch(`${this.hub}/users/${encodeURIComponent(this.user)}/${path}`, {
      headers: { Authorization: `Bearer ${await this.token()}` }, cache: 'no-cache',
      signal: AbortSignal.timeout?.(30_000),
    });
    if (!answer.ok) throw new CarillonError('http', `the hub answered ${answer.status}`, { status: answer.status });
    const position = answer.headers.get('X-Sync-Position');
    if (!position) throw new CarillonError('http', 'the answer has no position: is X-Sync-Position exposed?');
    const colon = position.lastIndexOf(':');
    return { body: await answer.json(), epoch: position.slice(0, colon), offset: Number(position.slice(colon + 1)) };
  }
}
