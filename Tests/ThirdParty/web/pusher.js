// A stand-in of pusher-js 8, for tests: what its documentation promises of the members that our pages and client use.
// A script, as pusher-js is: it makes `Pusher`.
globalThis.Pusher = (() => {
  class Emitter {
    constructor() {
      Object.assign(this, { bound: [], boundToAll: [] });
    }

    bind(name, act) {
      this.bound.push([name, act]);
      return this;
    }

    unbind(name, act) {
      this.bound = this.bound.filter(([other, one]) => other !== name || one !== act);
      return this;
    }

    bind_global(act) {
      this.boundToAll.push(act);
      return this;
    }

    emit(name, data) {
      for (const act of this.boundToAll) act(name, data);
      for (const [other, act] of this.bound) if (other === name) act(data);
    }
  }

  class Connection extends Emitter {
    constructor() {
      super();
      this.state = 'initialized';
    }

    become(current) {
      const previous = this.state;
      if (previous === current) return;
      this.state = current;
      this.emit('state_change', { previous, current });
      this.emit(current);
    }
  }

  class Channel extends Emitter {
    constructor(name) {
      super();
      Object.assign(this, { name, subscribed: false });
    }
  }

  return class Pusher extends Emitter {
    constructor(key, options) {
      super();
      Object.assign(this, { key, options, socket: null, timer: null, channels: new Map(), wantsUser: false });
      Object.assign(this, { connection: new Connection(), user: new Emitter() });
      this.connect();
    }

    channel(name) { return this.channels.get(name); }

    connect() {
      if (this.socket) return;
      clearTimeout(this.timer);
      this.connection.become('connecting');
      const { wsHost, wsPort } = this.options;
      const socket = this.socket = new WebSocket(`ws://${wsHost}:${wsPort}/app/${this.key}?protocol=7`);
      socket.onmessage = ({ data }) => this.take(JSON.parse(data));
      socket.onclose = ({ code }) => { if (this.socket === socket) this.closed(code); };
    }

    disconnect() {
      clearTimeout(this.timer);
      const { socket } = this;
      this.socket = null;
      socket?.close();
      this.leave('disconnected');
    }

    /** Its state stays until it comes back, after a second; after some codes at once, or never. */
    closed(code) {
      this.socket = null;
      if (code >= 4000 && code < 4100) return this.disconnect();
      const pause = code >= 4200 && code < 4300 ? 0 : 1000;
      if (pause) this.connection.emit('connecting_in', pause / 1000);
      this.timer = setTimeout(() => {
        this.leave('connecting');
        this.connect();
      }, pause);
    }

    leave(state) {
      for (const channel of this.channels.values()) channel.subscribed = false;
      this.connection.become(state);
    }

    send_event(event, data, channel) {
      if (this.socket?.readyState !== 1) return false;
      this.socket.send(JSON.stringify({ event, data, ...(channel && { channel }) }));
      return true;
    }

    subscribe(name) {
      if (!this.channels.has(name)) this.channels.set(name, new Channel(name));
      if (this.connection.state === 'connected') this.send_event('pusher:subscribe', { auth: '', channel: name });
      return this.channel(name);
    }

    unsubscribe(name) {
      if (this.channels.delete(name)) this.send_event('pusher:unsubscribe', { channel: name });
    }

    /** Once; it is repeated on each connection. */
    signin() {
      this.wantsUser = true;
      if (this.connection.state === 'connected') this.authenticate();
    }

    async authenticate() {
      const { endpoint, headers, headersProvider } = this.options.userAuthentication;
      try {
        const answer = await fetch(endpoint, {
          method: 'POST', body: new URLSearchParams({ socket_id: this.connection.socket_id }),
          headers: { ...headers, ...headersProvider?.() },
        });
        if (!answer.ok) throw Object.assign(new Error(await answer.text()), { status: answer.status });
        this.send_event('pusher:signin', await answer.json());
      } catch (error) {
        this.user.emit('pusher:signin_error', { type: 'AuthError', error: error.message, status: error.status });
      }
    }

    take(message) {
      if (typeof message.data === 'string') {
        try {
          message.data = JSON.parse(message.data);
        } catch { /* a text that is not JSON stays what it is */ }
      }
      const { event, channel: name, data } = message;
      if (event === 'pusher:connection_established') {
        this.connection.socket_id = data.socket_id;
        this.connection.become('connected');
        for (const one of this.channels.keys()) this.subscribe(one);
        if (this.wantsUser) this.authenticate();
      } else if (event === 'pusher:ping') {
        this.send_event('pusher:pong', {});
      }
      const channel = this.channel(name);
      if (event === 'pusher_internal:subscription_succeeded' && channel) {
        channel.subscribed = true;
        channel.emit('pusher:subscription_succeeded', data);
      } else if (!event.startsWith('pusher_internal:')) {
        channel?.emit(event, data);
        this.emit(event, data);
      }
      this.connection.emit('message', message);
    }
  };
})();
