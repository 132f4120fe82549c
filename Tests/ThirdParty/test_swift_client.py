"""Devices of the Swift library on a hub: behind a lock, killed at each write, frozen beside another process. And mutants."""

import itertools
import pathlib
import signal
import tempfile
import time

import pytest

import waiting
from actions import Caller, add_dose, plain
from library_phone import Died
from swift_device import DEVICE, SwiftDevice, mutant
from test_operations import metrics
from waiting import eventually
from web import today_rows

pytestmark = pytest.mark.skipif(not pathlib.Path(DEVICE).is_file(), reason="swift build --product ClientDevice")

#: A row under another key.
OTHER = """QueuedAction(
            key: row.key + "+", type: row.type, payload: row.payload, clientTime: row.clientTime, zone: row.zone)"""

#: By name: which judge sees it, and what is changed: the file, what is there, what takes its place.
MUTANTS = {
    "a key made anew on retry": ("lock", [(
        "QueueRules.swift", """        guard var row = row(key: key) else { return }
        row.retries += 1
        put(row)
""", f"""        guard let row = row(key: key) else {{ return }}
        var other = {OTHER}
        (other.n, other.base, other.state, other.entities) = (row.n, row.base, row.state, row.entities)
        remove(row)
        append(other)
""")]),
    "a key made anew after a restart": ("death", [(
        "QueueRules.swift", "            guard row.n == nil else { return row }\n", f"""
            if row.n != nil {{
                var other = {OTHER}
                (other.n, other.base, other.state, other.entities) = (row.n, row.base, row.state, row.entities)
                remove(row)
                append(other)
                return actions[actions.count - 1]
            }}
""")]),
    "an overlay that is dropped on an error": ("lock", [(
        "DoseOverlay.swift", "            row.state.isWaiting || row.more.until",
        "            (row.state.isWaiting && row.retries == 0) || row.more.until")]),
    "a position that is stored before its event": ("event", [(
        "StreamMachine.swift",
        "            let end = try storage.write(isFenced: true) { $0.apply(events, of: name) }\n", """
            try storage.write(isFenced: true) { mirror in
                guard var position = mirror.positions[name], let last = events.last?.offset else { return }
                position.offset = max(position.offset, last)
                mirror.put(position, of: name)
            }
            let end = try storage.write(isFenced: true) { $0.apply(events, of: name) }
"""),
        ("StreamRules.swift", """            guard let offset = event.offset, offset > position.offset else { continue }
            guard offset == position.offset + 1 else {
                end = .gap
                break
            }
""", "            guard let offset = event.offset else { continue }\n            end = .done\n")]),
    "two processes that drain at once": ("freeze", [(
        "ClientStore.swift", "        guard let fence, current == fence else {",
        "        guard let fence, current != nil else {")]),
    "a decided conflict that is forgotten before its event": ("decision", [(
        "QueueRules.swift", "{ decided(of, at: now) }", "{ release(of) }")]),
}


def keys(hub, user):
    return [key for key, in hub.query("select key from sync.action where user_id = %s order by created_at", [user])]


def behind_a_lock(hub, user, program=None):
    """The hub is busy with the dose: what the person did stays shown, under its key."""
    dose = add_dose(hub, user)
    with SwiftDevice(hub, user, program) as phone:
        app = phone.process().begin().settles()
        with hub.database(autocommit=False) as writer:
            writer.execute("select from care.dose_occurrence where id = %s for update", [dose])
            key = app.act("markTaken", occurrenceId=dose)
            busy = 'carillon_action_retries_total{reason="busy"}'
            before = metrics(hub).get(busy, 0)

            def is_told_twice():
                assert app.dose(dose)["status"] == "taken", "the person still sees what waits"
                return metrics(hub).get(busy, 0) >= before + 2

            eventually(is_told_twice, "the hub has waited for a moment, and said that it is busy, twice")
            assert app.ask("standing")["waiting"] == 1
        app.agrees(lambda: today_rows(hub, user))
        assert keys(hub, user) == [key]


def dies_at(hub, user, step, program=None):
    """Lives until that write, and comes back; returns whether it died."""
    doses = [add_dose(hub, user), add_dose(hub, user)]
    kept = []
    with SwiftDevice(hub, user, program) as phone:
        app = phone.process(die_at=step)
        try:
            app.begin()
            kept.append(app.act("markTaken", occurrenceId=doses[0]))
            kept.append(app.act("addNote", occurrenceId=doses[1], text=f"note {step}"))
            kept.append(app.act("skip", occurrenceId=doses[1]))
            app.settles()
            has_died = False
        except Died:
            has_died = True
        app.kill()
        again = phone.process().begin()
        again.agrees(lambda: today_rows(hub, user))
        stored = keys(hub, user)
        # The one of which nobody was told may be there, once.
        assert set(kept) <= set(stored) and len(stored) <= len(kept) + 1, (kept, stored)
        said = hub.query("select text from care.dose_note where user_id = %s", [user])
        assert len(said) <= 1, f"an action is done twice: {said}"
        assert again.ask("standing")["conflicts"] == again.ask("standing")["failures"] == []
    return has_died


def dies_with_an_event(hub, user, step, program=None):
    """Dies before the `step`th write that an event causes; returns whether it died."""
    dose = add_dose(hub, user)
    with SwiftDevice(hub, user, program) as phone:
        app = phone.process().begin().settles()
        try:
            # It may renew its lease before it has answered.
            app.ask("arm", writes=step)
            assert Caller(hub, user).settle(plain("skip", {"occurrenceId": dose})).status == 200
            eventually(lambda: app.dose(dose)["status"] == "skipped", "the event comes", 10)
            has_died = False
        except Died:
            has_died = True
        app.kill()
        phone.process().begin().agrees(lambda: today_rows(hub, user))
    return has_died


def beside_a_frozen(phone, process):
    """Freezes a process, and starts another one."""
    while True:
        process.signal(signal.SIGSTOP)
        try:
            return phone.process().begin()
        except Died:
            # It was in the middle of a transaction: SQLite's lock is its own.
            process.signal(signal.SIGCONT)


def freeze_and_thaw(hub, user, program=None):
    """A process that holds the lease is frozen, and another one takes over and is frozen too. Then the first one wakes up
    with a fence that is old: it sends what a third one has appended no sooner than it has a new one."""
    first, second = add_dose(hub, user), add_dose(hub, user)
    with SwiftDevice(hub, user, program) as phone:
        old = phone.process().begin().settles()
        new = beside_a_frozen(phone, old)
        new.act("markTaken", occurrenceId=first)
        eventually(lambda: len(keys(hub, user)) == 1, "the frozen process's lease is taken over")
        new.settles()
        widget = beside_a_frozen(phone, new)
        widget.ask("suspend")
        key = widget.act("markTaken", occurrenceId=second)
        fence = phone.fence()
        old.signal(signal.SIGCONT)
        eventually(lambda: key in keys(hub, user), "the awake process leads again, and sends")
        assert phone.fence() > fence, "sent by a process that leads no more"
        new.signal(signal.SIGCONT)
        # One of them leads, and is connected.
        for process in (old, new):
            process.shows(lambda: today_rows(hub, user))
        assert [n for n, in hub.query("select n from sync.action where user_id = %s order by n", [user])] == [1, 2]


def keeps_and_waits(hub, user, program=None):
    """From a decision on, what the person keeps is shown; also between the hub's answer and its event."""
    dose = add_dose(hub, user)
    with SwiftDevice(hub, user, program) as phone:
        app = phone.process().begin().settles()
        app.ask("suspend")
        key = app.act("markTaken", occurrenceId=dose)
        assert Caller(hub, user).settle(plain("skip", {"occurrenceId": dose})).status == 200
        app.ask("start")
        eventually(lambda: [one["key"] for one in app.ask("standing")["conflicts"]] == [key], "the conflict is told")
        eventually(lambda: app.dose(dose)["status"] == "skipped", "and what the other device did")
        app.ask("resolve", key=key, choice="keep_local")
        quiet = time.monotonic() + 2
        while time.monotonic() < quiet:
            assert app.dose(dose)["status"] == "taken"
        app.agrees(lambda: today_rows(hub, user))


def test_a_locked_account_drops_nothing_that_is_shown(hub, user):
    behind_a_lock(hub, user)


def test_a_device_is_killed_before_each_write(hub, user, record_property):
    step, stride = 1, 3
    while dies_at(hub, f"{user}.{step}", step):
        step += stride
    record_property("report", f"killed at each {stride}th of {step} writes")
    assert step > 20


def test_an_event_and_its_position_are_one(hub, user):
    step = 1
    while dies_with_an_event(hub, f"{user}.{step}", step) and step < 20:
        step += 1
    assert step > 2


def test_a_frozen_process_sends_no_more(hub, user):
    freeze_and_thaw(hub, user)


def test_what_a_person_keeps_is_shown(hub, user):
    keeps_and_waits(hub, user)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen(hub, user, name, monkeypatch):
    judge, changes = MUTANTS[name]
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        program = mutant(folder, changes)
        with pytest.raises(AssertionError):
            # A mutant fails by never coming to an end: less patience than elsewhere can only fail it sooner.
            monkeypatch.setattr(waiting, "PATIENCE", 20 if judge == "freeze" else 8)
            if judge == "lock":
                behind_a_lock(hub, user, program)
            elif judge == "event":
                # Events come together or one by one: a step does not always fall between a position and its event.
                for attempt, step in itertools.product(range(6), range(2, 10)):
                    dies_with_an_event(hub, f"{user}.{attempt}.{step}", step, program)
            elif judge == "freeze":
                # It renews its lease at one of three beats, and finds out then.
                for attempt in range(6):
                    freeze_and_thaw(hub, f"{user}.{attempt}", program)
            elif judge == "decision":
                for attempt in range(6):
                    keeps_and_waits(hub, f"{user}.{attempt}", program)
            else:
                for step in range(1, 200):
                    dies_at(hub, f"{user}.{step}", step, program)
