// The list of medications with the actions that the hub has not confirmed. Doses are the hub's to make: its events tell
// them.
import { begun, changed, frequencyOf, SCHEDULE } from './schedules.js';
import { parseTime } from './times.js';

/** Types of actions on medications, schedules, stacks and settings. */
export const LIST_TYPES = [
  'createMedication', 'updateMedication', 'archiveMedication', 'createSchedule', 'updateSchedule', 'deleteSchedule',
  'createStack', 'updateStack', 'deleteStack', 'updateSettings'];

/** The list after the actions of `rows`. `had`: whether a schedule of an id has or had doses lately. */
export function foldMedications(list, rows, user, parked = new Set(), had = () => false) {
  const settings = { ...list.settings, isPending: false };
  const state = { items: list.items.map(plain), stacks: list.stacks.map(plain), settings };
  for (const row of rows) if (LIST_TYPES.includes(row.type)) fold(state, row, user, had);
  for (const one of state.items) if (one.isPending) one.frequency = frequencyOf(one.schedules);
  const flagged = (kind) => (one) => ({ ...one, hasConflict: parked.has(`${kind}:${one.id}`) });
  return { items: state.items.map(flagged('medication')), stacks: state.stacks.map(flagged('stack')),
    settings: state.settings };
}

const plain = (one) => ({ ...one, schedules: [...one.schedules ?? []], isPending: false });
const known = (payload, names) => Object.fromEntries(names.filter((name) => Object.hasOwn(payload, name))
  .map((name) => [name, payload[name]]));
const touch = (one, changes = {}) => Object.assign(one, changes, { isPending: true });

function fold(state, { type, payload, clientTime }, user, had) {
  const [zone, at] = [state.settings.timezone ?? 'UTC', parseTime(clientTime)?.at ?? 0];
  const all = [...state.items, ...state.stacks];
  const medication = state.items.find((one) => one.id === payload.id);
  const stack = state.stacks.find((one) => one.id === payload.id);
  const owner = all.find((one) => one.schedules.some((schedule) => schedule.id === payload.id));
  const names = ['name', 'strength', 'form'];
  switch (type) {
    case 'createMedication':
      if (medication) return;
      state.items.push({
        id: payload.id, userId: user, isCatalogue: false, name: '', strength: null, form: null, frequency: null,
        archivedAt: null, rev: 0, ...known(payload, names), isPending: true,
        schedules: begun(payload, zone, at).map((one) => ({ ...one, userId: user })),
      });
      break;
    case 'updateMedication':
      if (payload.archived === true) remove(state.items, medication);
      else if (medication) {
        const schedules = changed(payload, medication, zone, at, had);
        touch(medication, { ...known(payload, names), schedules });
      }
      break;
    case 'archiveMedication': remove(state.items, medication); break;
    case 'createSchedule': {
      const of = all.find((one) => one.id === (payload.productId ?? payload.stackId));
      if (of && !owner) touch(of).schedules.push({ ...SCHEDULE, ...payload, userId: user });
      break;
    }
    case 'updateSchedule':
      if (!owner) return;
      touch(owner).schedules = owner.schedules.map((one) => (one.id === payload.id ? { ...one, ...payload } : one));
      break;
    case 'deleteSchedule':
      if (owner) touch(owner).schedules = owner.schedules.filter((one) => one.id !== payload.id);
      break;
    case 'createStack':
      if (!stack) state.stacks.push({ id: payload.id, userId: user, rev: 0, name: payload.name,
        items: placed(payload.items ?? []), schedules: [], isPending: true });
      break;
    case 'updateStack':
      if (stack) touch(stack, { ...known(payload, ['name']), ...(payload.items && { items: placed(payload.items) }) });
      break;
    case 'deleteStack': remove(state.stacks, stack); break;
    default: touch(state.settings, known(payload, ['timezone', 'presetTimes']));
  }
}

const placed = (items) => items.map((item, index) => ({ dose: null, position: index + 1, ...item }));

function remove(list, one) {
  const index = list.indexOf(one);
  if (index >= 0) list.splice(index, 1);
}
