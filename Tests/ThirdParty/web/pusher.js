// An object with the members of pusher-js 8 that the web client's adapter uses.
export class Pusher {
  constructor(url) {
    Object.assign(this, { url, names: new Set(), connection: new Connection() });
    this.connect();
  }

  connect() {
    if (this.socket) return;
    this.connection.become('connecting');
    const socket = this.socket = new WebSocket(this.url);
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (typeof frame.data === 'string') frame.data = JSON.parse(frame.data);
      if (frame.event === 'pusher:connection_established') {
        this.connection.become('connected');
        for (const name of this.names) this.send_event('pusher:subscribe', { channel: name });
      } else if (frame.event === 'pusher:ping') {
        this.send_event('pusher:pong', {});
      }
      this.connection.emit('message', frame);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.connection.become('connecting');
      setTimeout(() => this.connect(), 100);
    };
  }

  disconnect() {
    const { socket } = this;
    this.socket = null;
    socket?.close();
    this.connection.become('disconnected');
  }

  send_event(event, data, channel) {
    if (this.socket?.readyState !== 1) return false;
    this.socket.send(JSON.stringify({ event, data, ...(channel && { channel }) }));
    return true;
  }

  subscribe(name) {
    this.names.add(name);
    if (this.connection.state === 'connected') this.send_event('pusher:subscribe', { channel: name });
  }

  unsubscribe(name) {
    this.names.delete(name);
    this.send_event('pusher:unsubscribe', { channel: name });
  }
}

class Connection {
  constructor() {
    Object.assign(this, { state: 'initialized', bound: [] });
  }

  bind(name, act) { this.bound.push([name, act]); }
  unbind(name, act) { this.bound = this.bound.filter(([other, one]) => other !== name || one !== act); }
  emit(name, value) { for (const [other, act] of this.bound) if (other === name) act(value); }

  become(current) {
    const previous = this.state;
    this.state = current;
    this.emit('state_change', { previous, current });
  }
}
