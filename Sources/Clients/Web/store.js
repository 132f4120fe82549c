// What one user's device keeps, in IndexedDB: the queue of actions, entities, positions, and the lease by which one of
// several tabs leads. A copy in memory is what transactions read; only what they change goes through IndexedDB. A
// transaction awaits nothing but its own requests.
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

const nameOf = (store, key) => (store === 'entities' ? `${key[0]}\n${key[1]}` : key);

/** The operations of one transaction. It reads the mirror, and what it has written. Rows are never changed in place. */
class Work {
  #transaction;
  #mirror;
  #written = new Map(STORES.map((store) => [store, new Map()]));
  #added = new Map();
  #cleared = new Set();

  constructor(transaction, mirror, { lease, isSignedOut }) {
    this.#transaction = transaction;
    this.#mirror = mirror;
    Object.assign(this, { lease, isSignedOut });
  }

  get(store, key) {
    const name = nameOf(store, key);
    const written = this.#written.get(store);
    if (written.has(name)) return written.get(name).row;
    if (store !== 'entities') return this.#mirror[store].get(key);
    return this.#cleared.has(key[0]) ? undefined : this.#mirror.kind(key[0]).get(key[1]);
  }

  /** All rows of a store; actions in their order. */
  all(store) { return this.#merged(this.#mirror[store], this.#written.get(store)); }

  /** All entities of a kind. */
  kind(kind) {
    const written = new Map([...this.#written.get('entities').values()]
      .filter(({ key }) => key[0] === kind).map((change) => [change.key[1], change]));
    return this.#merged(this.#cleared.has(kind) ? new Map() : this.#mirror.kind(kind), written);
  }

  #merged(rows, written) {
    if (!written.size) return [...rows.values()];
    const merged = new Map(rows);
    for (const [name, { row }] of written) if (row === undefined) merged.delete(name); else merged.set(name, row);
    return [...merged.values()];
  }

  /** The action with that key. */
  byKey(key) {
    const id = this.#added.get(key)?.id ?? this.#mirror.keys.get(key);
    return id === undefined ? undefined : this.get('actions', id);
  }

  /** Writes a row; `key` only for `meta`. Await it: a new action gets its number from the store. */
  async put(store, row, key = keyOf(store, row)) {
    if (key !== undefined) {
      this.#written.get(store).set(nameOf(store, key), { key, row });
      return;
    }
    row.id = await request(this.#transaction.objectStore(store).put(row));
    this.#added.set(row.key, row);
    this.#written.get(store).set(row.id, { key: row.id, row });
  }

  delete(store, key) { this.#written.get(store).set(nameOf(store, key), { key, row: undefined }); }

  /** Deletes all entities of a kind. */
  clear(kind) {
    this.#transaction.objectStore('entities').delete(IDBKeyRange.bound([kind], [kind, []]));
    this.#cleared.add(kind);
    const written = this.#written.get('entities');
    for (const [name, { key }] of written) if (key[0] === kind) written.delete(name);
  }

  /** Asks for all that is to be written, each row once; returns the changes. Errors end the transaction. */
  flush() {
    const changes = [...this.#cleared].map((kind) => ['kind', kind, undefined]);
    for (const [store, written] of this.#written) {
      const target = this.#transaction.objectStore(store);
      for (const { key, row } of written.values()) {
        if (row === undefined) target.delete(key);
        else if (store === 'meta') target.put(row, key);
        else if (store !== 'actions' || this.#added.get(row.key) !== row) target.put(row);
        changes.push([store, key, row]);
      }
    }
    return changes;
  }
}

/** A copy in memory of what is stored, kept up by the changes that this tab and others tell. */
class Mirror {
  constructor() {
    this.commit = 0;
    this.meta = new Map();
    this.actions = new Map();
    /** Ids of actions by their keys. */
    this.keys = new Map();
    this.positions = new Map();
    this.entities = new Map();
    /** How often entities of a kind have changed. */
    this.turns = new Map();
  }

  kind(kind) {
    let rows = this.entities.get(kind);
    if (!rows) this.entities.set(kind, rows = new Map());
    return rows;
  }

  apply([store, key, row]) {
    const set = (map, name) => { if (row === undefined) map.delete(name); else map.set(name, row); };
    const turn = (kind) => this.turns.set(kind, (this.turns.get(kind) ?? 0) + 1);
    switch (store) {
      case 'kind': this.entities.delete(key); turn(key); break;
      case 'entities': set(this.kind(key[0]), key[1]); turn(key[0]); break;
      case 'actions':
        // Another action may take its place.
        this.keys.delete(this.actions.get(key)?.key);
        if (row !== undefined) this.keys.set(row.key, key);
        // In the order of their numbers: a new row is the last.
        set(this.actions, key);
        break;
      default: set(this[store], key);
    }
  }

  /** All that is stored, read in a transaction. */
  static async read(transaction) {
    const of = (name) => transaction.objectStore(name);
    const [metaKeys, meta, actions, entities, positions] = await Promise.all([
      request(of('meta').getAllKeys()), request(of('meta').getAll()), request(of('actions').getAll()),
      request(of('entities').getAll()), request(of('positions').getAll())]);
    const mirror = new Mirror();
    metaKeys.forEach((key, index) => mirror.meta.set(key, meta[index]));
    for (const row of actions) mirror.apply(['actions', row.id, row]);
    for (const row of entities) mirror.kind(row.kind).set(row.id, row);
    for (const row of positions) mirror.positions.set(row.channel, row);
    mirror.commit = mirror.meta.get('commit') ?? 0;
    return mirror;
  }
}

function keyOf(store, row) {
  return { actions: row.id, entities: [row.kind, row.id], positions: row.channel }[store];
}

export class Store {
  /** Opens the user's store, and makes it where there is none. */
  static async open(name, { onChange = () => {}, onLost = () => {} } = {}) {
    const store = new Store(name, onChange, onLost);
    await store.open();
    return store;
  }

  constructor(name, onChange, onLost) {
    Object.assign(this, { name, onChange, onLost, mirror: new Mirror(), isClosed: false, loading: null, looked: 0 });
    /** The last write has found no room. */
    this.isFull = false;
    this.channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel(name);
    if (this.channel) this.channel.onmessage = ({ data }) => this.hear(data);
  }

  async open() {
    try {
      if (!globalThis.indexedDB) throw new CarillonError('storage_unavailable', 'this browser has no IndexedDB here');
      const opening = indexedDB.open(this.name, SCHEMA);
      opening.onupgradeneeded = ({ oldVersion }) => upgrade(opening.result, oldVersion);
      this.db = await request(opening);
    } catch (error) {
      this.close();
      throw unopened(error);
    }
    // Another tab wants to change or delete the store: this one must not stand in its way.
    this.db.onversionchange = () => { this.close(); this.onLost('replaced'); };
    // The browser has closed the store: the person clears the site's data, or the disk is full.
    this.db.onclose = () => { if (!this.isClosed) { this.close(); this.onLost('gone'); } };
    await this.load();
    await this.write(async (work) => {
      if (work.get('meta', 'device') === undefined) await work.put('meta', crypto.randomUUID(), 'device');
      // The page ended before it had deleted the store: the user has signed in again.
      if (work.get('meta', 'isSignedOut')) work.delete('meta', 'isSignedOut');
    }, { strict: true });
  }

  close() {
    this.isClosed = true;
    this.db?.close();
    this.channel?.close();
    this.channel = null;
  }

  /**
   * Runs `work` in one transaction and returns what it returns, once that is committed. With a fence, only if the lease of
   * that number still holds. `strict`: the disk has it. `isQuiet`: only the lease changes, which the mirror does not have.
   */
  async write(work, { fence = null, strict = false, isQuiet = false } = {}) {
    if (this.isClosed) throw this.told(new CarillonError('closed', 'the store is closed'));
    let told_;
    let isRead = false;
    let isLate = false;
    try {
      const transaction = this.db.transaction(STORES, 'readwrite', strict ? { durability: 'strict' } : {});
      const ended = new Promise((resolve, reject) => {
        transaction.oncomplete = () => resolve();
        transaction.onabort = () => reject(transaction.error ?? new CarillonError('aborted', 'nothing was written'));
      });
      ended.catch(() => {});
      const meta = transaction.objectStore('meta');
      let result;
      try {
        const [lease, commit = 0, isSignedOut] = await Promise.all(
          ['lease', 'commit', 'isSignedOut'].map((key) => request(meta.get(key))));
        if (fence !== null && lease?.fence !== fence) throw new FenceLost();
        if (isQuiet) {
          // Since the last look nobody has told of a commit that was there then: the tab that made it has ended.
          isLate = this.mirror.commit < this.looked;
          this.looked = commit;
        } else if (commit !== this.mirror.commit) {
          // Another tab has written, and this one has not heard of it yet.
          this.mirror = await Mirror.read(transaction);
          isRead = true;
        }
        const mine = new Work(transaction, this.mirror, { lease, isSignedOut });
        result = await work(mine);
        const changes = mine.flush();
        if (changes.length && !isQuiet) {
          meta.put(commit + 1, 'commit');
          told_ = { commit: commit + 1, changes };
        }
        transaction.commit?.();
      } catch (error) {
        try { transaction.abort(); } catch { /* It has ended by itself. */ }
        await ended.catch(() => {});
        // A request says only that its transaction has ended.
        throw error instanceof DOMException ? transaction.error ?? error : error;
      }
      await ended;
      this.isFull = false;
      if (isRead) this.onChange(null);
      if (isLate) this.load().catch(() => {});
      if (told_) {
        this.channel?.postMessage(told_);
        this.take(told_);
      }
      return result;
    } catch (error) {
      throw this.told(error);
    }
  }

  /** An error of a write. A browser whose disk is full says so once, and then that it has closed the store. */
  told(error) {
    const mine = told(error);
    if (mine.code === 'storage_full') this.isFull = true;
    return this.isFull && mine.code === 'closed' ? full(error) : mine;
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
        this.mirror = await Mirror.read(this.db.transaction(STORES, 'readonly'));
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

  /**
   * Leads, if nobody does or the leader is frozen; returns the fence, or null. `isFree`: the leader's lock is gone. Worst
   * interleaving: the user signs out in another tab, and this one looks before it hears of that. The store has no lease,
   * and a leader would fill it again.
   */
  acquire(tab, now, isFree = false) {
    return this.write(async (work) => {
      const { lease, isSignedOut } = work;
      if (isSignedOut) return null;
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

  /** Takes away all that is stored, at once: to delete the store itself, every tab has to close it. */
  async wipe() {
    if (this.isClosed) return;
    const transaction = this.db.transaction(STORES, 'readwrite', { durability: 'strict' });
    for (const store of STORES) transaction.objectStore(store).clear();
    transaction.objectStore('meta').put(true, 'isSignedOut');
    await new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(told(transaction.error));
    });
  }

  /** Deletes a user's store. A tab that is frozen has it open still: then it goes when that tab wakes or ends. */
  static async remove(name) {
    const deleting = indexedDB.deleteDatabase(name);
    const isBlocked = new Promise((resolve) => { deleting.onblocked = () => resolve(); });
    await Promise.race([request(deleting).catch((error) => { throw told(error); }), isBlocked]);
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

const full = (cause) => new CarillonError('storage_full', 'the browser has no room left', { cause });

/** Chromium's words for a disk without room; other browsers have a name for it. */
const NO_ROOM = /NO_SPACE|full disk|disk full|no space/i;

/** Why a store cannot be opened. */
function unopened(error) {
  const mine = told(error);
  if (['newer_store', 'storage_full', 'storage_unavailable'].includes(mine.code)) return mine;
  return new CarillonError('storage_unavailable', `the browser cannot open its store: ${error.message}`, { cause: error });
}

/** Errors of IndexedDB as this library tells them. */
function told(error) {
  if (error instanceof CarillonError || !(error instanceof DOMException)) return error;
  if (NO_ROOM.test(error.message)) return full(error);
  switch (error.name) {
    case 'QuotaExceededError': return full(error);
    case 'InvalidStateError': return new CarillonError('closed', 'the store is closed', { cause: error });
    case 'VersionError':
      return new CarillonError('newer_store', 'a newer version of this app has changed the store', { cause: error });
    default:
      return new CarillonError('storage', `the browser cannot write its store: ${error.message}`, { cause: error });
  }
}
