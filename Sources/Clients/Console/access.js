// The hub's routes, and the credential that opens them. It is kept as long as this tab.
const KEY = 'carillon-console-credential';

/** The hub refused, or did not answer. `status` is 0 without an answer. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const credential = {
  get value() { return sessionStorage.getItem(KEY); },
  set value(value) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
};

/** Asks `/console/api/NAME`. Parameters without a value are left out. */
export async function ask(name, parameters = {}, options = {}) {
  const query = new URLSearchParams(Object.entries(parameters)
    .filter(([, value]) => value !== '' && value !== null && value !== undefined));
  const headers = credential.value ? { Authorization: `Bearer ${credential.value}` } : {};
  let answer;
  try {
    answer = await fetch(`/console/api/${name}?${query}`, { ...options, headers, cache: 'no-store' });
  } catch {
    throw new Refusal(0, 'The hub does not answer.');
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, body.error ?? `The hub answered ${answer.status}.`);
  return body;
}

/** What the hub counts, as Prometheus reads it. */
export async function metrics() {
  const answer = await fetch('/metrics', { cache: 'no-store' });
  if (!answer.ok) throw new Refusal(answer.status, 'The hub shows no metrics.');
  return answer.text();
}
