// Tables and forms that the pages share.
import { h } from './dom.js';

/** Shows rows of texts or elements. A heading that begins with # is one of numbers. */
export function table(element, headings, rows, empty) {
  const kinds = headings.map((heading) => (heading.startsWith('#') ? { class: 'number' } : {}));
  element.replaceChildren(
    h('thead', {}, h('tr', {},
      ...headings.map((heading, index) => h('th', { scope: 'col', ...kinds[index] }, heading.replace('#', ''))))),
    h('tbody', {}, ...(rows.length
      ? rows.map((cells) => h('tr', {}, ...cells.map((cell, index) => h('td', kinds[index], cell))))
      : [h('tr', {}, h('td', { colspan: headings.length }, empty))])));
}

/** Whether the focus or selected text is in it: then new rows would take it away. */
export function isInUse(element) {
  const selection = getSelection();
  return element.contains(document.activeElement)
    || (!selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(element));
}

/** Shows a text below what asked for it. The focus goes there: its button is off, and a screen reader reads on there. */
export function reveal(cell, text) {
  cell.querySelector('pre')?.remove();
  const shown = h('pre', { tabindex: -1 }, text);
  cell.append(shown);
  shown.focus();
}

let last = 0;

/** A field with its label. */
export function field(label, input) {
  input.id ||= `field-${++last}`;
  return h('div', {}, h('label', { for: input.id }, label), input);
}

/** A form that calls `submit` instead of leaving the page. */
export function form(attributes, submit, ...children) {
  return h('form', { ...attributes, onsubmit: (event) => {
    event.preventDefault();
    submit();
  } }, ...children);
}

/** When that was, by this machine's clock; the age is in microseconds. */
export function clock(age) {
  if (age === null || age === undefined) return '–';
  const at = new Date(Date.now() - age / 1000);
  return `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}
