// Values that can be read and watched, and the errors of this library.

/** What went wrong, by `code`. */
export class CarillonError extends Error {
  constructor(code, message, more = {}) {
    super(message);
    this.name = 'CarillonError';
    this.code = code;
    Object.assign(this, more);
  }
}

/** Calls an app's function. What it throws is told to the page: what the client was about to do goes on. */
export function call(listener, ...values) {
  try {
    listener(...values);
  } catch (error) {
    if (globalThis.reportError) globalThis.reportError(error);
    else setTimeout(() => { throw error; });
  }
}

/** Whether two values are equal to who looks at them. */
export function alike(one, other) {
  if (Object.is(one, other)) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (Object.getPrototypeOf(one) !== Object.getPrototypeOf(other)) return false;
  if (one instanceof Error && (one.name !== other.name || one.message !== other.message)) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length
    && names.every((name) => Object.hasOwn(other, name) && alike(one[name], other[name]));
}

/** A value that is read with `value` or `get()`, and watched with `subscribe` or `for await`. An equal one is not told. */
export class Signal {
  #listeners = new Set();

  constructor(value) {
    this.value = value;
    this.get = () => this.value;
    this.subscribe = this.subscribe.bind(this);
  }

  set(value) {
    if (alike(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.#listeners]) call(listener, value);
  }

  /** Calls `listener` with each new value; returns what ends that. */
  subscribe(listener) {
    this.#listeners.add(listener);
    this.watched?.();
    return () => { this.#listeners.delete(listener); };
  }

  get isWatched() {
    return this.#listeners.size > 0;
  }

  /** The value of now, and then each newer one. Values that come while the loop is busy are skipped but for the last. */
  async *[Symbol.asyncIterator]() {
    let wake = null;
    let fresh = this.value !== undefined;
    const end = this.subscribe(() => { fresh = true; wake?.(); });
    try {
      for (;;) {
        while (!fresh) await new Promise((resolve) => { wake = resolve; });
        fresh = false;
        yield this.value;
      }
    } finally {
      end();
    }
  }

  /** The first value that fits, now or later. */
  async when(fits) {
    if (fits(this.value)) return this.value;
    return new Promise((resolve) => {
      const end = this.subscribe((value) => {
        if (!fits(value)) return;
        end();
        resolve(value);
      });
    });
  }
}

/** Does what comes in quick succession together: the first at once, then each `everyMs`, or as soon as `most` wait. */
export class Pace {
  constructor(everyMs, most, run) {
    Object.assign(this, { everyMs, most, run, last: -Infinity, timer: null });
  }

  want(waiting = 0) {
    const wait = this.last + this.everyMs - performance.now();
    if (waiting >= this.most || wait <= 0) this.now();
    else this.timer ??= setTimeout(() => this.now(), wait);
  }

  now() {
    this.stop();
    this.last = performance.now();
    this.run();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }
}

/** Tries what fails for a moment: by default eleven times, within a quarter of a minute. */
export async function insist(act, isOver, most = 10) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await act();
    } catch (error) {
      if (attempt >= most || isOver()) throw error;
      await new Promise((resolve) => { setTimeout(resolve, 50 * 2 ** Math.min(attempt, 6)); });
    }
  }
}

/** A random wait between nothing and a bound that doubles with each attempt: full jitter. */
export function jitter(attempt, { baseMs = 1000, capMs = 30_000 } = {}, random = Math.random) {
  return random() * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 20));
}
