// What the page's parts share: elements, lists whose rows stay, and words.

/** An element with its attributes, listeners (`onclick`) and children. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An element of a drawing. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children);
  return element;
}

/** Sets or takes away an attribute, if it changes. */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== (value === true ? '' : String(value))) {
    element.setAttribute(name, value === true ? '' : value);
  }
}

/** Sets the text, if it changes: what a screen reader or a selection is at stays. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const lists = new WeakMap();

/** Shows `items` in `list`. A row `{element, update(item)}` stays as long as its item does, and so does the focus in it. */
export function show(list, items, make) {
  const rows = lists.get(list) ?? new Map();
  lists.set(list, rows);
  const ids = new Set(items.map(({ id }) => id));
  for (const [id, row] of rows) {
    if (ids.has(id)) continue;
    row.element.remove();
    rows.delete(id);
  }
  let next = list.firstElementChild;
  for (const item of items) {
    let row = rows.get(item.id);
    if (!row) rows.set(item.id, row = make(item));
    row.update(item);
    if (row.element === next) next = next.nextElementSibling;
    else list.insertBefore(row.element, next);
  }
}

const day = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'long', timeZone: 'UTC' });
const month = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** `Fri 14 November`. */
export const dayName = (date) => day.format(new Date(`${date}T12:00:00Z`)).replace(',', '');

/** `November 2025`. */
export const monthName = (name) => month.format(new Date(`${name}-15T12:00:00Z`));

export const percent = (value) => (value === null || value === undefined ? '–' : `${Math.round(value)} %`);

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

export const statusName = {
  scheduled: 'open', taken: 'taken', missed: 'missed', made_up: 'made up', skipped: 'skipped', cancelled: 'cancelled',
};
