"""Actions in crowds: one key from two devices at once, a month of a phone's actions, and a user who is locked."""

import asyncio
import itertools
import time

import pytest

from ledger import alike
from lines import Http, Socket, in_time
from names import stream
from waiting import becomes

#: Actions of a phone that comes back.
MONTH = 500


async def phone(hub, user):
    """A signed-in socket that hears its user's events too."""
    socket = await Socket.open(hub.port, lambda frame: None, lambda text: None)
    await socket.sign_in(user, hub.token(user))
    await socket.subscribe(stream(user))
    return socket


def web(hub, user):
    return Http(hub.port, user, hub.token(user), lambda text: None)


async def verdict(ask):
    """Asks until there is a verdict; rates may be limited."""
    while True:
        answer = await ask()
        if answer["status"] != "retry":
            return answer
        assert answer["code"] == "busy", answer
        await asyncio.sleep(answer["afterMs"] / 1000)


def by_socket(socket, envelope):
    async def ask():
        return await in_time(await socket.send(envelope), envelope["key"])

    return lambda: verdict(ask)


def by_http(http, envelope, shape):
    return lambda: verdict(lambda: http.act(envelope, shape))


def add_doses(hub, user, count):
    """Doses of yesterday whose windows have just ended, so that every action may be done, and the hub misses none."""
    return [row[0] for row in hub.query(
        "insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
        " select %s, 'zinc', now() - interval '1 day' + make_interval(secs => n), now() from generate_series(1, %s) as n"
        " returning id", [user, count])]


@pytest.mark.parametrize("ways", [("socket", "socket"), ("socket", "envelope"), ("seeds", "bulk"), ("bulk", "socket")])
def test_one_key_from_two_devices_at_once(hub, user, ways):
    """Fifty times each way."""
    doses = add_doses(hub, user, 50)

    async def run():
        sockets = [await phone(hub, user) for _ in ways]
        told = []
        for number, dose in enumerate(doses):
            envelope = {"v": 1, "key": f"{user}-{number}", "type": "bulkMarkAll",
                        "payload": {"occurrenceIds": [dose]}} if "bulk" in ways else {
                        "v": 1, "key": f"{user}-{number}", "type": "markTaken",
                        "payload": {"occurrenceId": dose, "note": f"note {number} of {user}"}}
            asks = [by_socket(socket, envelope) if way == "socket" else by_http(web(hub, user), envelope, way)
                    for way, socket in zip(ways, sockets)]
            told.append(await asyncio.gather(*[ask() for ask in asks]))
        for socket in sockets:
            await socket.close()
        return told

    for one, other in asyncio.run(run()):
        assert one["status"] == other["status"] == "applied" and alike(one, other), (one, other)
        assert [one.get("replayed"), other.get("replayed")].count(True) == 1, (one, other)
    assert hub.query("select count(*) from sync.action where user_id = %s", [user]) == [(50,)]
    # Each dose was changed once since it was made, and each note is there once.
    assert hub.query("select distinct status, rev from care.dose_occurrence where user_id = %s",
                     [user]) == [("taken", 2)]
    if "bulk" not in ways:
        assert hub.query("select count(*), count(distinct text) from care.dose_note where user_id = %s",
                         [user]) == [(50, 50)]


def percentiles(seconds):
    ordered = sorted(seconds)
    return "p50 {:.1f} ms, p99 {:.1f} ms of {}".format(
        1000 * ordered[len(ordered) // 2], 1000 * ordered[len(ordered) * 99 // 100], len(ordered))


def test_a_month_of_offline_actions(hub, user, record_property):
    """It drains faster than one after another. The report says how long others waited."""
    others = [f"{user}.{number}" for number in range(9)]
    dose, = add_doses(hub, user, 1)

    async def act_normally(socket, name, times, is_over):
        mine, = await asyncio.to_thread(add_doses, hub, name, 1)
        for number in itertools.count():
            if is_over.is_set():
                return
            started = time.monotonic()
            answer = await by_socket(socket, {
                "key": f"{name}-{number}-{started}", "type": "addNote",
                "payload": {"occurrenceId": mine, "text": f"note {number}"}})()
            assert answer["status"] == "applied", answer
            times.append(time.monotonic() - started)
            await asyncio.sleep(0.1)

    async def drain(socket):
        """All at once, in order; what was refused goes again, from the first of them on."""
        left = list(range(1, MONTH + 1))
        rounds = 0
        while left:
            rounds += 1
            futures = [await socket.send({
                "key": f"{user}-{n}", "deviceId": user, "n": n, "type": "addNote",
                "payload": {"occurrenceId": dose, "text": f"note {n}"}}) for n in left]
            answers = [await in_time(future, n) for n, future in zip(left, futures)]
            refused = [(n, answer) for n, answer in zip(left, answers) if answer["status"] == "retry"]
            assert all(answer["status"] in ("applied", "retry") for answer in answers)
            left = [n for n, _ in refused]
            waits = [answer["afterMs"] for _, answer in refused if "afterMs" in answer]
            if waits:
                await asyncio.sleep(min(waits) / 1000)
        return rounds

    async def run():
        sockets = [await phone(hub, name) for name in [user, *others]]
        calm, storm = [], []
        for times in (calm, storm):
            is_over = asyncio.Event()
            acting = [asyncio.create_task(act_normally(socket, name, times, is_over))
                      for socket, name in zip(sockets[1:], others)]
            if times is storm:
                started = time.monotonic()
                rounds = await drain(sockets[0])
                seconds = time.monotonic() - started
            await becomes(lambda: len(times) >= 90)
            is_over.set()
            await asyncio.gather(*acting)
        for socket in sockets:
            await socket.close()
        return calm, storm, seconds, rounds

    calm, storm, seconds, rounds = asyncio.run(run())
    record_property("report", f"{MONTH} offline actions drained in {seconds:.2f} s, in {rounds} rounds; nine others"
                              f" before it: {percentiles(calm)}; beside it: {percentiles(storm)}")
    numbers = hub.query("select n from sync.action where user_id = %s order by created_at, n", [user])
    assert [row[0] for row in numbers] == list(range(1, MONTH + 1))
    assert seconds < MONTH * sum(storm) / len(storm)


def test_a_locked_user_stalls_nobody(hub, user, record_property):
    """A slow writer locks a dose: actions on it are told to come again, and all others go on."""
    others = [f"{user}.{number}" for number in range(8)]
    dose, = add_doses(hub, user, 1)

    async def act(socket, name, times):
        mine, = await asyncio.to_thread(add_doses, hub, name, 1)
        for number in range(20):
            started = time.monotonic()
            answer = await by_socket(socket, {"key": f"{name}-{number}", "type": "addNote",
                                              "payload": {"occurrenceId": mine, "text": f"note {number}"}})()
            assert answer["status"] == "applied", answer
            times.append(time.monotonic() - started)

    def notes(count):
        return [{"key": f"{user}-{number}", "type": "addNote",
                 "payload": {"occurrenceId": dose, "text": f"note {number}"}} for number in range(count)]

    async def run(writer):
        sockets = [await phone(hub, name) for name in [user, *others]]
        times = []
        writer.execute("select from care.dose_occurrence where id = %s for update", [dose])
        acting = [asyncio.create_task(act(socket, name, times)) for socket, name in zip(sockets[1:], others)]
        while not all(task.done() for task in acting):
            futures = [await sockets[0].send(envelope) for envelope in notes(30)]
            for future in futures:
                answer = await in_time(future, "an answer to the locked user")
                assert (answer["status"], answer.get("code")) == ("retry", "busy"), answer
            # As a client does; one that does not is closed for its messages.
            await asyncio.sleep(answer["afterMs"] / 1000)
        await asyncio.gather(*acting)
        writer.rollback()
        for envelope in notes(30):
            assert (await by_socket(sockets[0], envelope)())["status"] == "applied"
        for socket in sockets:
            await socket.close()
        return times

    with hub.database(autocommit=False) as writer:
        times = asyncio.run(run(writer))
    record_property("report", f"eight others beside a locked user: {percentiles(times)}, max {max(times):.3f} s")
    assert max(times) < 5
    assert hub.query("select count(*) from care.dose_note where user_id = %s", [user]) == [(30,)]
