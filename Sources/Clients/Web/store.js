// What one user's device keeps, in IndexedDB: the queue of actions, entities, positions, and the lease by which one of
// several tabs leads. A transaction awaits nothing but its own requests.
import { CarillonError } from './signals.js';

const SCHEMA = 1;
const STORES = ['meta', 'actions', 'entities', 'positions'];
/** A leader that has not renewed its lease for so long is taken for frozen. */
export const LEASE_MS = 10_000;

const request = (one) => new Promise((resolve, reject) => {
  one.onsuccess = () => resolve(one.result);
  one.onerror = () => reject(one.error);
});

/** Another tab leads now. */
export class FenceLost extends CarillonError {
  constructor() {
    super('fence_lost', 'another tab leads now');
  }
}

/** The operations of one transaction, and what they change. */
class Work {
  constructor(transaction) {
    this.transaction = transaction;
    this.changes = [];
  }

  get(store, key) { return request(this.transaction.objectStore(store).get(key)); }
  all(store, range, most) { return request(this.transaction.objectStore(store).getAll(range, most)); }
  byKey(key) { return request(this.transaction.objectStore('actions').index('key').get(key)); }

  /** Writes a row; `key` only for `meta`. */
  async put(store, row, key) {
    const written = await request(this.transaction.objectStore(store).put(row, key));
    if (store === 'actions' && row.id === undefined) row.id = written;
    this.changes.push([store, store === 'meta' ? key : written, row]);
    return written;
  }

  async delete(store, key) {
    await request(this.transaction.objectStore(store).delete(key));
    this.changes.push([store, key, undefined]);
  }

  /** Deletes all entities of a kind. */
  async clear(kind) {
    const range = IDBKeyRange.bound([kind], [kind, []]);
    await request(this.transaction.objectStore('entities').delete(range));
    this.changes.push(['kind', kind, undefined]);
  }
}

/** A copy in memory of what is stored, kept up by the changes that this tab and others tell. */
class Mirror {
  constructor() {
    this.commit = 0;
    this.meta = new Map();
    this.actions = new Map();
    this.positions = new Map();
    this.entities = new Map();
  }

  kind(kind) {
    let rows = this.entities.get(kind);
    if (!rows) this.entities.set(kind, rows = new Map());
    return rows;
  }

  apply([store, key, row]) {
    const set = (map, name) => { if (row === undefined) map.delete(name); else map.set(name, row); };
    switch (store) {
      case 'kind': this.entities.delete(key); break;
      case 'entities': set(this.kind(key[0]), key[1]); break;
      // In the order of their numbers: a new row is the last.
      default: set(this[store], key);
    }
  }
}

export class Store {
  /** Opens the user's store, and makes it where there is none. */
  static async open(name, { onChange = () => {}, onLost = () => {} } = {}) {
    const store = new Store(name, onChange, onLost);
    await store.open();
    return store;
  }

  constructor(name, onChange, onLost) {
    Object.assign(this, { name, onChange, onLost, mirror: new Mirror(), isClosed: false, loading: null });
    this.channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel(name);
    if (this.channel) this.channel.onmessage = ({ data }) => this.hear(data);
  }

  async open() {
    const opening = indexedDB.open(this.name, SCHEMA);
    opening.onupgradeneeded = ({ oldVersion }) => upgrade(opening.result, oldVersion);
    try {
      this.db = await request(opening);
    } catch (error) {
      throw told(error);
    }
    // Another tab wants to change or delete the store: this one must not stand in its way.
    this.db.onversionchange = () => { this.close(); this.onLost('replaced'); };
    // The browser has taken the store away, such as when the person clears the site's data.
    this.db.onclose = () => { if (!this.isClosed) { this.close(); this.onLost('wiped'); } };
    await this.write(async (work) => {
      if (await work.get('meta', 'device') === undefined) await work.put('meta', crypto.randomUUID(), 'device');
    }, { strict: true });
    await this.load();
  }

  close() {
    this.isClosed = true;
    this.db?.close();
    this.channel?.close();
    this.channel = null;
  }

  /**
   * Runs `work` in one transaction and returns what it returns, once that is committed. With a fence, only if the lease of
   * that number still holds. `strict`: the disk has it.
   */
  async write(work, { fence = null, strict = false, isQuiet = false } = {}) {
    if (this.isClosed) throw new CarillonError('closed', 'the store is closed');
    let told_;
    try {
      const transaction = this.db.transaction(STORES, 'readwrite', strict ? { durability: 'strict' } : {});
      const ended = new Promise((resolve, reject) => {
        transaction.oncomplete = () => resolve();
        transaction.onabort = () => reject(transaction.error ?? new CarillonError('aborted', 'nothing was written'));
      });
      ended.catch(() => {});
      const mine = new Work(transaction);
      let result;
      try {
        if (fence !== null && (await mine.get('meta', 'lease'))?.fence !== fence) throw new FenceLost();
        result = await work(mine);
        if (mine.changes.length && !isQuiet) {
          const commit = (await mine.get('meta', 'commit') ?? 0) + 1;
          await request(transaction.objectStore('meta').put(commit, 'commit'));
          told_ = { commit, changes: mine.changes };
        }
        transaction.commit?.();
      } catch (error) {
        try { transaction.abort(); } catch { /* It has ended by itself. */ }
        await ended.catch(() => {});
        throw transaction.error?.name === 'QuotaExceededError' ? transaction.error : error;
      }
      await ended;
      if (told_) {
        this.channel?.postMessage(told_);
        this.take(told_);
      }
      return result;
    } catch (error) {
      throw told(error);
    }
  }

  hear(told) {
    if (told.commit) this.take(told);
    else this.onMessage?.(told);
  }

  /** Tells the other tabs something that is not stored. */
  tell(message) {
    this.channel?.postMessage(message);
  }

  take({ commit, changes }) {
    if (this.loading) { this.loading.again = true; return; }
    if (commit <= this.mirror.commit) return;
    if (commit !== this.mirror.commit + 1) { this.load().catch(() => {}); return; }
    this.mirror.commit = commit;
    for (const change of changes) this.mirror.apply(change);
    this.onChange(changes);
  }

  /** Reads everything again; `onChange(null)` tells. */
  async load() {
    if (this.isClosed) return;
    const loading = this.loading = { again: false };
    try {
      do {
        loading.again = false;
        const transaction = this.db.transaction(STORES, 'readonly');
        const of = (name) => transaction.objectStore(name);
        const [metaKeys, meta, actions, entities, positions] = await Promise.all([
          request(of('meta').getAllKeys()), request(of('meta').getAll()), request(of('actions').getAll()),
          request(of('entities').getAll()), request(of('positions').getAll())]);
        const mirror = new Mirror();
        metaKeys.forEach((key, place) => mirror.meta.set(key, meta[place]));
        for (const row of actions) mirror.actions.set(row.id, row);
        for (const row of entities) mirror.kind(row.kind).set(row.id, row);
        for (const row of positions) mirror.positions.set(row.channel, row);
        mirror.commit = mirror.meta.get('commit') ?? 0;
        this.mirror = mirror;
      } while (loading.again);
    } finally {
      this.loading = null;
    }
    this.onChange(null);
  }

  /** Looks whether another tab has written what this one was not told. */
  async refresh() {
    if (this.isClosed) return;
    const commit = await request(this.db.transaction('meta').objectStore('meta').get('commit'));
    if ((commit ?? 0) > this.mirror.commit) await this.load();
  }

  // The lease.

  /** Leads, if nobody does or the leader is frozen; returns the fence, or null. `isFree`: the leader's lock is gone. */
  acquire(tab, now, isFree = false) {
    return this.write(async (work) => {
      const lease = await work.get('meta', 'lease');
      // A lease far ahead was written before the clock was set back.
      const holds = lease && lease.holder !== tab && lease.until > now && lease.until - now <= LEASE_MS;
      if (holds && !isFree) return null;
      const fence = (lease?.fence ?? 0) + 1;
      await work.put('meta', { holder: tab, fence, until: now + LEASE_MS }, 'lease');
      return fence;
    }, { isQuiet: true });
  }

  renew(tab, fence, now) {
    return this.write(
      (work) => work.put('meta', { holder: tab, fence, until: now + LEASE_MS }, 'lease'), { fence, isQuiet: true });
  }

  /** Ends the lease, so that the next tab need not wait. */
  release(fence) {
    return this.write((work) => work.put('meta', { holder: null, fence, until: 0 }, 'lease'), { fence, isQuiet: true });
  }

  /** Deletes a user's store. */
  static async remove(name) {
    await request(indexedDB.deleteDatabase(name));
  }
}

function upgrade(db, oldVersion) {
  // Each version adds to the one before: a queue is never dropped.
  if (oldVersion < 1) {
    db.createObjectStore('meta');
    db.createObjectStore('actions', { keyPath: 'id', autoIncrement: true }).createIndex('key', 'key', { unique: true });
    db.createObjectStore('entities', { keyPath: ['kind', 'id'] });
    db.createObjectStore('positions', { keyPath: 'channel' });
  }
}

/** Errors of IndexedDB as this library tells them. */
function told(error) {
  if (error instanceof CarillonError) return error;
  switch (error?.name) {
    case 'QuotaExceededError': return new CarillonError('storage_full', 'the browser has no room left', { cause: error });
    case 'InvalidStateError': return new CarillonError('closed', 'the store is closed', { cause: error });
    case 'VersionError':
      return new CarillonError('newer_store', 'a newer version of this app has changed the store', { cause: error });
    default: return error;
  }
}
