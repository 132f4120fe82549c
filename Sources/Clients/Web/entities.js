// How events and snapshots become stored entities. Each carries the number of the event, or of the snapshot, that it is
// from (`o`): an older one never takes the place of a newer one. What is deleted stays known until the next snapshot.

/** The kinds of entities of each topic. */
export const KINDS = {
  adherence: ['dose', 'day', 'stats', 'loaded'],
  reminders: ['reminder', 'reminderDay'],
  medications: ['medication', 'stack', 'settings'],
};

/** Folds one event into the store. `own(key)`: the texts that this device's own action has set. */
export async function foldEvent(work, event, data, own) {
  const o = data._sync.o;
  const { _sync, ...body } = data;
  switch (event) {
    case 'occurrence.created': case 'occurrence.updated': case 'occurrence.cancelled':
      await foldDose(work, event, body, o, _sync.k, own);
      if (body.daySummary) {
        const { month, ...day } = body.daySummary;
        await put(work, 'day', day.date, day, o);
      }
      break;
    case 'adherence.summary_updated':
      await put(work, 'day', body.date, body.summary, o);
      await put(work, 'stats', 'stats', body.stats, o);
      break;
    case 'reminder.created': case 'reminder.updated': await put(work, 'reminder', body.id, body, o); break;
    case 'reminder.deleted':
      await remove(work, 'reminder', body.id, o);
      for (const row of work.kind('reminderDay')) {
        if (row.value?.ruleId === body.id) await remove(work, 'reminderDay', row.id, o);
      }
      break;
    case 'reminder.occurrence_updated':
      await (body.removed ? remove(work, 'reminderDay', body.id, o) : put(work, 'reminderDay', body.id, body, o));
      break;
    case 'medication.created': case 'medication.updated': await put(work, 'medication', body.id, body, o); break;
    case 'medication.deleted': await remove(work, 'medication', body.id, o); break;
    case 'stack.created': case 'stack.updated': await put(work, 'stack', body.id, body, o); break;
    case 'stack.deleted': await remove(work, 'stack', body.id, o); break;
    case 'settings.updated': await put(work, 'settings', 'settings', body, o); break;
    default: break;
  }
}

/** Whether it may have a reason, which no event and no day's answer tells. */
const isReasoned = (dose) => ['skipped', 'made_up'].includes(dose.status);

async function foldDose(work, event, body, o, key, own) {
  const id = body.occurrenceId;
  if (event === 'occurrence.cancelled') {
    await remove(work, 'dose', id, o);
    return;
  }
  const before = work.get('entities', ['dose', id]);
  if (before && before.o >= o) return;
  const old = before?.value ?? null;
  const told = event === 'occurrence.created' ? body.occurrence : body.updates;
  const dose = { id, userId: body.userId, reason: null, note: null, ...old, ...told };
  const isNew = !old || old.createdAt !== dose.createdAt;
  const isOther = isNew || old.status !== dose.status || old.takenAt !== dose.takenAt;
  // Events tell no texts. An action of this device tells its own; others are fetched.
  const mine = own(key);
  if (isOther && !isReasoned(dose)) dose.reason = null;
  if (mine?.reason !== undefined && isOther) dose.reason = mine.reason;
  const isReasonOld = isReasoned(dose) && mine?.reason === undefined && (isOther || before.isNoteOld);
  const isNoted = mine?.note !== undefined || (!isNew && !isOther);
  if (!dose.hasNote) dose.note = null;
  else if (mine?.note !== undefined) dose.note = mine.note;
  const isNoteOld = isReasonOld || (dose.hasNote && mine?.note === undefined);
  await work.put('entities', {
    kind: 'dose', id, o, value: dose, isNoteOld, statusRev: isOther ? dose.rev : before.statusRev,
    noteRev: isNew || isNoted ? dose.rev : before.noteRev,
  });
}

/** Writes an entity, unless a newer one is there. */
export async function put(work, kind, id, value, o) {
  const before = work.get('entities', [kind, id]);
  if (before && before.o >= o) return false;
  await work.put('entities', { kind, id, o, value });
  return true;
}

async function remove(work, kind, id, o) {
  const before = work.get('entities', [kind, id]);
  if (before && before.o >= o) return;
  await work.put('entities', { kind, id, o, value: null });
}

/** Writes what a day's answer says: its doses, without those that have left it. Today's says by two lists which it has. */
export async function putDay(work, { body, offset }) {
  const { date } = body.summary;
  const doses = [...body.occurrences, ...body.elsewhere ?? []];
  const there = new Set(doses.map((dose) => dose.id));
  for (const row of work.kind('dose')) {
    if (row.value?.localDate === date && !there.has(row.id) && row.o <= offset) {
      work.delete('entities', ['dose', row.id]);
    }
  }
  for (const dose of doses) {
    const before = work.get('entities', ['dose', dose.id]);
    if (before && before.o > offset) continue;
    const old = before?.value?.createdAt === dose.createdAt ? before : null;
    const isSame = old && old.value.status === dose.status && old.value.takenAt === dose.takenAt;
    await work.put('entities', {
      kind: 'dose', id: dose.id, o: offset, isNoteOld: isReasoned(dose) && (!isSame || old.isNoteOld),
      value: { reason: isSame ? old.value.reason ?? null : null, ...dose },
      statusRev: isSame ? old.statusRev : dose.rev, noteRev: old && old.value.note === dose.note ? old.noteRev : dose.rev,
    });
  }
  await work.put('entities', { kind: 'loaded', id: `day:${date}`, o: offset, value: true });
  await putNewer(work, 'day', date, body.summary, offset);
  await putNewer(work, 'stats', 'stats', body.stats, offset);
}

/** A snapshot's value counts before an event's of the same number: the event is in it. */
async function putNewer(work, kind, id, value, o) {
  const before = work.get('entities', [kind, id]);
  if (!before || before.o <= o) await work.put('entities', { kind, id, o, value });
}

export async function putMonth(work, month, { body, offset }) {
  for (const day of body) await putNewer(work, 'day', day.date, day, offset);
  await work.put('entities', { kind: 'loaded', id: `month:${month}`, o: offset, value: true });
}

/** Writes the lists of reminders, or of medications, in place of all that was there. */
export async function putList(work, topic, { body, offset }) {
  const all = async (kind, values, idOf = (value) => value.id) => {
    for (const value of values) await work.put('entities', { kind, id: idOf(value), o: offset, value });
  };
  if (topic === 'reminders') {
    await all('reminder', body.items);
    await all('reminderDay', body.occurrences);
  } else {
    await all('medication', body.items);
    await all('stack', body.stacks);
    await all('settings', [body.settings], () => 'settings');
  }
}
