// Which of several tabs leads: it alone has the streams and sends the queue. The lease in the store decides, and its
// number is checked in each of the leader's transactions. `navigator.locks` only tells at once when a leader is gone.
import { FenceLost, LEASE_MS } from './store.js';

export class Leadership {
  /** `onGain(fence)` and `onLoss()` are called in turns. */
  constructor(store, { onGain, onLoss, locks = globalThis.navigator?.locks, now = Date.now }) {
    Object.assign(this, { store, onGain, onLoss, locks, now, fence: null, isOver: false, letGo: null });
    this.tab = crypto.randomUUID();
  }

  start() {
    this.queueUp();
    this.timer = setInterval(() => this.look(), LEASE_MS / 4);
    if (!this.locks) this.look();
  }

  /** Waits for the lock. Who has it and loses the lease lets it go, and waits again. */
  queueUp(steal = false) {
    if (!this.locks || this.isOver) return;
    const waiting = this.waiting = new AbortController();
    const options = steal ? { steal } : { signal: waiting.signal };
    this.locks.request(`${this.store.name}:lead`, options, () => {
      if (this.isOver) return undefined;
      if (this.fence === null) this.take(true);
      return new Promise((resolve) => { this.letGo = resolve; });
    }).then(() => this.isOver || this.queueUp(), () => {
      // Given up, to steal it; or stolen: another tab took this one for frozen.
      if (this.isOver || waiting.isReplaced) return;
      this.letGo = null;
      this.lose();
      this.queueUp();
    });
  }

  async take(isFree) {
    if (this.isOver || this.fence !== null) return;
    try {
      const fence = await this.store.acquire(this.tab, this.now(), isFree);
      if (fence === null || this.isOver || this.fence !== null) return;
      this.fence = fence;
      if (!isFree && this.locks) this.steal();
      this.onGain(fence);
    } catch (error) {
      if (error.code !== 'closed') this.failure = error;
    }
  }

  steal() {
    this.waiting.isReplaced = true;
    this.waiting.abort();
    this.queueUp(true);
  }

  /** Renews the lease; or takes it, where its holder has let it run out. */
  async look() {
    if (this.isOver) return;
    if (this.fence === null) { await this.take(false); return; }
    const { fence } = this;
    try {
      await this.store.renew(this.tab, fence, this.now());
    } catch (error) {
      if (error instanceof FenceLost && this.fence === fence) this.lose();
    }
  }

  /** A transaction has found that another tab leads. */
  lose() {
    if (this.fence === null) return;
    this.fence = null;
    this.onLoss();
    const { letGo } = this;
    this.letGo = null;
    letGo?.();
  }

  async stop() {
    this.isOver = true;
    clearInterval(this.timer);
    const { fence } = this;
    this.fence = null;
    if (fence !== null) {
      this.onLoss();
      await this.store.release(fence).catch(() => {});
    }
    this.letGo?.();
    this.waiting?.abort();
  }
}
