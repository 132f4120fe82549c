// A browser as small as the pages need: runs a page's script with the pusher-js that PUSHER_JS names (dist/node/pusher.js).
// Whatever the page shows is printed, one JSON text a line.
'use strict';
const fs = require('fs');

globalThis.Pusher = require(process.env.PUSHER_JS);

const kept = new Map();
globalThis.localStorage = {
  getItem: (name) => kept.get(name) ?? null,
  setItem: (name, text) => { kept.set(name, String(text)); },
};
const show = (text) => fs.writeSync(1, JSON.stringify(String(text)) + '\n');
globalThis.document = { getElementById: () => ({ append: show }) };
globalThis.show = show;

(0, eval)(fs.readFileSync(process.argv[2], 'utf8'));
