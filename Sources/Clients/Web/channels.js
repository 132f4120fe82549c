// Channels of the app's own. The leading tab hears them by its line; each other tab has a connection of its own for them.
import { Session } from './session.js';
import { call } from './signals.js';

export class OwnChannels {
  #listeners = new Map();
  #follower = null;

  /** `host`: `line`, that of the leading tab or null; `isOver`; `makeLine()`; `user`, `token()`; `isStream(name)`. */
  constructor(host) {
    this.host = host;
  }

  /** Calls `listener(event, data)`; returns what ends it. */
  subscribe(channel, listener) {
    let listeners = this.#listeners.get(channel);
    if (!listeners) this.#listeners.set(channel, listeners = new Set());
    listeners.add(listener);
    this.listen();
    return () => {
      // Called twice, it must not end what others have begun since.
      if (!listeners.delete(listener) || listeners.size) return;
      this.#listeners.delete(channel);
      const { line } = this.host;
      if (!this.host.isStream(channel) || !line) (line ?? this.#follower)?.unsubscribe(channel);
    };
  }

  /** Sees to it that all are subscribed to. */
  listen() {
    const { host } = this;
    if (host.line) return this.join(host.line);
    if (!this.#listeners.size || host.isOver) return undefined;
    if (!this.#follower) {
      const line = this.#follower = host.makeLine();
      const session = new Session({ line, user: host.user, token: host.token, onReady: () => {}, onProblem: () => {} });
      line.onState = (state) => session.state(state);
      line.onFrame = (frame) => { session.hear(frame); this.hear(frame); };
      line.start();
      if (line.state !== 'offline') session.state(line.state);
    }
    return this.join(this.#follower);
  }

  join(line) {
    for (const channel of this.#listeners.keys()) line.subscribe(channel);
  }

  hear({ event, channel, data }) {
    const name = event.replace('pusher_internal:', 'pusher:');
    for (const listener of this.#listeners.get(channel) ?? []) call(listener, name, data);
  }

  /** Ends the connection of its own: this tab leads from now on, or is closed. */
  stop() {
    this.#follower?.stop();
    this.#follower = null;
  }
}
