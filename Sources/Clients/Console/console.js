// The console: pages as tabs, of which the visible one is asked again and again.
import { ask, credential } from './access.js';
import { Create } from './create.js';
import { say, set } from './dom.js';
import { Events } from './events.js';
import { Channels, Connections } from './lists.js';
import { INTERVAL, Overview } from './overview.js';
import { Way } from './way.js';

const $ = (id) => document.getElementById(id);
const tabs = [...document.querySelectorAll('[role=tab]')];
const EVERY = { overview: INTERVAL, connections: INTERVAL, channels: 5000, events: INTERVAL };
let pages = null;
let shown = 'overview';
let next = null;

/** Shows the page of that name, and asks for it at once. */
function open(name) {
  shown = name;
  for (const tab of tabs) {
    const isIt = tab.getAttribute('aria-controls') === name;
    set(tab, 'aria-selected', String(isIt));
    tab.tabIndex = isIt ? 0 : -1;
    $(tab.getAttribute('aria-controls')).hidden = !isIt || !pages;
  }
  turn();
}

/** Asks for the page that is looked at. Nothing is asked for a tab in the background. */
async function turn() {
  clearTimeout(next);
  const page = pages?.[shown];
  if (!page || document.hidden) return;
  if (EVERY[shown]) {
    await page.look();
    clearTimeout(next);
    next = setTimeout(turn, EVERY[shown]);
  }
}

/** Does it, and tells what went wrong. */
async function told(work) {
  try {
    await work();
    $('trouble').hidden = true;
  } catch (error) {
    if (error.status === 401) return close(credential.value !== null);
    $('trouble').hidden = false;
    say($('trouble'), error.message);
  }
}

/** Asks for the credential; `wasRefused`: again. */
function close(wasRefused) {
  clearTimeout(next);
  credential.value = null;
  pages = null;
  for (const tab of tabs) $(tab.getAttribute('aria-controls')).hidden = true;
  $('door').hidden = false;
  $('leave').hidden = true;
  $('trouble').hidden = !wasRefused;
  if (wasRefused) say($('trouble'), 'That is not the credential of this hub’s console.');
  $('credential').focus();
}

async function begin() {
  const hub = await ask('hub');
  $('door').hidden = true;
  $('leave').hidden = credential.value === null;
  say($('hub'), `${location.host} · version ${hub.version}`);
  for (const name of ['plots', 'connections', 'channels', 'events', 'way', 'create']) $(name).replaceChildren();
  const way = new Way($('way'));
  pages = {
    overview: new Overview($('plots'), $('apps'), $('process'), hub.sharesChannels && $('hubs')),
    connections: new Connections($('connections')),
    channels: new Channels($('channels'), hub.apps), way, create: new Create($('create'), hub.apps),
    events: new Events($('events'), hub, (channel, offset, epoch) => {
      open('way');
      way.explain(channel, offset, epoch);
    }),
  };
  // Forms ask too.
  for (const page of Object.values(pages)) {
    const look = page.look.bind(page);
    page.look = (isAsked) => told(() => look(isAsked));
  }
  open(shown);
}

for (const [index, tab] of tabs.entries()) {
  tab.addEventListener('click', () => open(tab.getAttribute('aria-controls')));
  tab.addEventListener('keydown', ({ key }) => {
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: -1 }[key];
    if (to === undefined) return;
    const other = tabs.at(to % tabs.length);
    open(other.getAttribute('aria-controls'));
    other.focus();
  });
}
$('door').addEventListener('submit', (event) => {
  event.preventDefault();
  credential.value = $('credential').value;
  $('credential').value = '';
  told(begin);
});
$('leave').addEventListener('click', () => close(false));
document.addEventListener('visibilitychange', turn);
told(begin);
