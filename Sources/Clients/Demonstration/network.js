// A phone's network, which can be cut. While it is down no socket opens, no request leaves, and nothing comes.

export class Network {
  /** `record(row)` is told of each message. */
  constructor(record) {
    this.isDown = false;
    this.record = record;
    this.sockets = new Set();
    this.requests = new AbortController();
    this.fetch = (url, options) => this.request(url, options);
    this.WebSocket = socketOn(this);
  }

  cut() {
    this.isDown = true;
    this.requests.abort();
    this.record({ way: 'cut', event: 'the network is cut' });
    for (const socket of this.sockets) {
      // The client hears of it now, and of nothing that the socket might still bring.
      socket.onclose?.({ code: 1006, reason: '' });
      socket.close();
    }
    this.sockets.clear();
  }

  mend() {
    this.isDown = false;
    this.requests = new AbortController();
    this.record({ way: 'mended', event: 'the network is back' });
    // What a browser tells when its network is back: clients try at once.
    globalThis.dispatchEvent(new Event('online'));
  }

  async request(url, options = {}) {
    if (this.isDown) throw new TypeError('there is no network');
    const { signal } = this.requests;
    const all = options.signal && AbortSignal.any ? AbortSignal.any([options.signal, signal]) : signal;
    const answer = await globalThis.fetch(url, { ...options, signal: all });
    const { pathname } = new URL(url, location.href);
    const position = answer.headers.get('X-Sync-Position');
    this.record({
      way: 'http', event: `${options.method ?? 'GET'} ${pathname} ${answer.status}`,
      offset: position ? Number(position.slice(position.lastIndexOf(':') + 1)) : null,
    });
    return answer;
  }
}

function socketOn(network) {
  return class extends WebSocket {
    constructor(url) {
      if (network.isDown) throw new TypeError('there is no network');
      super(url);
      network.sockets.add(this);
      this.addEventListener('message', ({ data }) => this.told('in', data));
      this.addEventListener('close', () => network.sockets.delete(this));
    }

    send(text) {
      this.told('out', text);
      super.send(text);
    }

    told(way, text) {
      if (!network.sockets.has(this)) return;
      network.record({ way, ...described(text), size: text.length });
    }
  };
}

/** What a frame says: its event, channel, offset and data, without the token. */
function described(text) {
  const { event, channel = null, data: raw } = JSON.parse(text);
  let data = raw;
  try {
    if (typeof raw === 'string') data = JSON.parse(raw);
  } catch {
    // A text that is no JSON is shown as it is.
  }
  const offset = data?._sync?.o ?? data?.sync?.offset ?? null;
  if (data?.token) data = { ...data, token: '…' };
  return { event, channel: channel ?? data?.channel ?? null, offset, data };
}
