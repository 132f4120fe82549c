// Who the user is on a line: signs in with the app's tokens, and again before they expire.
import { CarillonError, jitter } from './signals.js';

const ANSWER_MS = 15_000;
/** Where tokens may go without TLS. */
const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];

const wrongUser = (named, user) => new CarillonError(
  'wrong_user', `the token is of "${named}", and this client of "${user}": close it, or give it a token of its user`);

/** The user whom a token names; undefined where that cannot be read: the hub judges such a token. */
function userOf(token) {
  try {
    const text = atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'));
    const { sub } = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (one) => one.charCodeAt(0))));
    return typeof sub === 'string' ? sub : undefined;
  } catch {
    return undefined;
  }
}

/** The app's `token()`, for one user: another user's token goes nowhere. */
export const tokensOf = (user, token) => async () => {
  const given = await token();
  if (typeof given !== 'string' || !given) throw new CarillonError('no_token', 'there is no token');
  const named = userOf(given);
  if (named !== undefined && named !== user) throw wrongUser(named, user);
  return given;
};

export class Session {
  /** `token()`: a fresh token of `user`. `onReady` is called on each line, once it is the user's. */
  constructor({ line, user, token, onReady, onProblem }) {
    Object.assign(this, { line, user, token, onReady, onProblem, isReady: false, attempt: 0, serial: 0 });
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
      this.isWaiting = false;
      if (data?.userId !== this.user) {
        // What would be sent over this line would be done in another account.
        this.isReady = false;
        this.refused(wrongUser(data?.userId, this.user));
        this.line.reject();
        return;
      }
      this.attempt = 0;
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
      // What the browser's own cache keeps, no sign-out deletes.
      headers: { Authorization: `Bearer ${await this.token()}` }, cache: 'no-store',
      signal: AbortSignal.timeout?.(30_000),
    });
    if (!answer.ok) throw new CarillonError('http', `the hub answered ${answer.status}`, { status: answer.status });
    const position = answer.headers.get('X-Sync-Position');
    if (!position) throw new CarillonError('http', 'the answer has no position: is X-Sync-Position exposed?');
    const colon = position.lastIndexOf(':');
    return { body: await answer.json(), epoch: position.slice(0, colon), offset: Number(position.slice(colon + 1)) };
  }
}
