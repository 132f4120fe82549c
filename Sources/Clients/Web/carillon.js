// carillon-client: doses, reminders and medications on a device that is not always online. README.md beside this file tells
// how to use it; Sources/Values/Sync/README.md in the project is the wire that it speaks.
export { Carillon } from './client.js';
export { CarillonError, Signal } from './signals.js';
