// Holds the web client's rules to Tests/Vectors. `judge(vectors, modules)` returns the first differences.
export function judge(vectors, modules) {
  return { doses, reminders, schedules }[vectors.of](vectors, modules);
}

const instants = (step, { parseTime }) => (name) => (step[name] == null ? null : parseTime(step[name]).at);

function newDose(step, { parseTime, dayNumber }, zones) {
  const at = instants(step, { parseTime });
  return {
    id: step.id, productId: step.product, scheduleId: step.schedule, note: step.note, scheduledAt: at('scheduledAt'),
    state: { status: step.status, takenAt: at('takenAt'), takenOffset: null, reason: step.reason },
    zone: step.tz, utcOffset: zones[step.tz], day: dayNumber(step.day), windowStart: at('windowStart'),
    windowEnd: at('windowEnd'), rev: 1, statusRev: 1, noteRev: 1, createdAt: at('at'), asNeeded: false,
  };
}

function foreign(account, step, modules, zones) {
  const { parseTime, dayNumber } = modules;
  switch (step.kind) {
    case 'zone': account.zone = step.zone; break;
    case 'insert':
      if (!account.doses.has(step.id)) account.doses.set(step.id, newDose(step, modules, zones));
      break;
    case 'delete': for (const id of step.ids) account.doses.delete(id); break;
    default:
      for (const id of step.ids) {
        const before = account.doses.get(id);
        if (!before) continue;
        const after = { ...before };
        if (step.set) {
          const takenAt = step.set.takenAt === null ? null : parseTime(step.set.takenAt).at;
          const takenOffset = takenAt === before.state.takenAt ? before.state.takenOffset : null;
          after.state = { status: step.set.status, takenAt, takenOffset, reason: step.set.reason };
        }
        if ('note' in step) after.note = step.note;
        if (step.day) after.day = dayNumber(step.day);
        write(account, before, after, modules);
      }
  }
}

/** As another writer's update: a day alone is a change too. */
function write(account, before, after, { sameState }) {
  const isState = !sameState(before.state, after.state);
  const isNote = before.note !== after.note;
  if (!isState && !isNote && before.day === after.day) return;
  const rev = before.rev + 1;
  account.doses.set(after.id, {
    ...after, rev, statusRev: isState ? rev : before.statusRev, noteRev: isNote ? rev : before.noteRev,
  });
}

function row(dose, { formatTime, dayText }) {
  const { state } = dose;
  const isLocal = state.takenAt !== null && state.takenOffset !== null;
  return {
    id: dose.id, status: state.status, takenAt: state.takenAt === null ? null : formatTime(state.takenAt),
    takenAtLocal: isLocal ? formatTime(state.takenAt, state.takenOffset) : null, reason: state.reason, note: dose.note,
    localDate: dayText(dose.day), rev: dose.rev, statusRev: dose.statusRev, noteRev: dose.noteRev,
  };
}

const sorted = (value) => {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
};
const text = (value) => JSON.stringify(sorted(value));

function doses({ zones, histories }, modules) {
  const found = [];
  for (const { seed, steps } of histories) {
    const account = new modules.Account({ offsetOf: (zone) => zones[zone] ?? null });
    for (const [index, { step, answer, doses: rows, gone }] of steps.entries()) {
      const now = modules.parseTime(step.at).at;
      let said = null;
      if (step.kind === 'action') {
        const { status, code, path, items } = account.apply({
          key: step.key, type: step.type, n: step.n, deviceId: step.device, tz: step.tz,
          payload: JSON.parse(step.payload), base: step.base && JSON.parse(step.base),
          clientTime: step.clientTime && JSON.parse(step.clientTime),
        }, now);
        said = { status, ...(code && { code }), ...(path && { path }), ...(items && { items }) };
      } else {
        foreign(account, step, modules, zones);
      }
      const there = rows.map(({ id }) => (account.doses.has(id) ? row(account.doses.get(id), modules) : null));
      const left = gone.filter((id) => account.doses.has(id));
      if ((answer && text(said) !== text(answer)) || text(there) !== text(rows) || left.length) {
        found.push({ seed, index, step, wanted: { answer, rows }, found: { answer: said, rows: there, left } });
        break;
      }
    }
  }
  return found;
}

function reminders({ histories }, { ReminderBook }) {
  const found = [];
  for (const { seed, steps } of histories) {
    const book = new ReminderBook();
    for (const [index, step] of steps.entries()) {
      let said = null;
      if (step.zone) {
        book.travel(step.zone, step.at);
      } else {
        const answer = book.apply({ key: step.key, device: step.device, action: step.action }, step.at, step.newId);
        said = {
          status: answer.status, code: answer.code ?? null, rule: answer.rule?.id ?? null, rev: answer.rule?.rev ?? null,
          fields: answer.conflict?.fields ?? [], serverRev: answer.conflict?.serverRev ?? null,
        };
      }
      const rules = [...book.rules.values()].map((rule) => ({
        id: rule.id, clientId: rule.clientId, rev: rule.rev, fields: rule.fields,
        next: book.upcoming(rule, step.at, 3).map(({ day, start }) => [day, start]),
      })).sort((a, b) => (a.id < b.id ? -1 : 1));
      const days = [...book.exceptions].map(([key, one]) => {
        const [rule, day] = key.split('\n');
        return { rule, day: +day, ...one };
      }).sort((a, b) => (a.rule === b.rule ? a.day - b.day : a.rule < b.rule ? -1 : 1));
      if ((said && text(said) !== text(step.answer)) || text(rules) !== text(step.rules) || text(days) !== text(step.days)) {
        found.push({ seed, index, step, found: { answer: said, rules, days } });
        break;
      }
    }
  }
  return found;
}

function schedules({ histories }, { pairs }) {
  return histories.flatMap(({ seed, steps }) => steps.flatMap(({ present, wanted, pairs: told }) => {
    const found = pairs(present, wanted, ({ endsOn }) => endsOn !== null);
    return text(found) === text(told) ? [] : [{ seed, present, wanted, told, found }];
  }));
}
