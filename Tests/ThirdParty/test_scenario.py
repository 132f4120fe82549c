"""Two users, two devices each, and all that happens to rows and servers: each device has all of it, once, in order."""

import random
import threading

import cluster
import view
from device import Device
from hub import Hub
from names import private_stream, stream
from waiting import eventually
from writers import BOOK, DAYS, WINDOW_END, Writers, expected_events

#: A text that only notes hold, and so no event.
CANARY = "heard-only-by-the-doctor"

#: Doses of each user at the start.
DOSES = 24


class Screen:
    """A device that shows one user's doses."""

    def __init__(self, hub, user, channel, join):
        self.user = user
        self.channel = channel
        self.device = Device(hub)
        join(self.device)
        self.start = self.device.subscribed(channel).data["sync"]["offset"]
        self.doses, self.snapshot_at = view.snapshot(hub, user)

    def events(self):
        return self.device.events(self.channel)

    def offset(self):
        events = self.events()
        return events[-1].data["_sync"]["o"] if events else self.start


def sign_in(user):
    def join(device):
        # The subscribe comes first, as pusher-js does it, and is parked.
        device.subscribe(stream(user))
        device.sign_in(user)
    return join


def with_signature(user):
    return lambda device: device.subscribe_signed(private_stream(user))


def with_token(hub, user):
    def join(device):
        device.authenticate(hub.token(user))
        device.subscribe(stream(user))
    return join


def hold_open(hub, identity, is_open, may_end, failures):
    """A transaction with a change in it, at least ten seconds long, and open until it may end."""
    try:
        with hub.database(autocommit=False) as connection:
            connection.execute(
                "update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", [identity])
            is_open.set()
            connection.execute("select pg_sleep(10)")
            assert may_end.wait(240), "the transaction is never told to end"
    except Exception as error:
        failures.append(error)
        is_open.set()


def tops(hub, users):
    return dict(hub.query(
        "select user_id, top from sync.stream where topic = 'adherence' and user_id = any(%s)", [users]))


def wait_for_all(hub, screens, users):
    """Until every device is where the streams are."""
    ends = tops(hub, users)
    eventually(lambda: all(screen.offset() >= ends[screen.user] for screen in screens),
               f"the devices reach {ends}; they are at {[(screen.user, screen.offset()) for screen in screens]}")
    for screen in screens:
        screen.device.answered()
    return ends


def join_all(threads, writers):
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive(), "a writer hangs"
    assert not writers.failures, writers.failures


def test_every_device_has_every_change():
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    users = [f"scenario.{seed:x}", f"scenario.{seed:x}.adherence"]
    with Hub() as hub:
        hub.query(BOOK)
        for user in users:
            hub.query(
                "insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
                f" select %s, 'zinc', scheduled, {WINDOW_END} from generate_series(1, %s) as n"
                " cross join lateral (select date_trunc('day', now())"
                " + make_interval(days => (%s::int[])[1 + n %% 3], hours => 9) as scheduled) as t",
                [user, DOSES, list(DAYS)])
        hub.query("truncate judge.book")
        (held,), = hub.query("select id from care.dose_occurrence where user_id = %s limit 1", [users[0]])
        screens = [Screen(hub, users[0], stream(users[0]), sign_in(users[0])),
                   Screen(hub, users[0], private_stream(users[0]), with_signature(users[0])),
                   Screen(hub, users[1], stream(users[1]), with_token(hub, users[1])),
                   Screen(hub, users[1], private_stream(users[1]), with_signature(users[1]))]
        writers = Writers(hub, users, [held], seed, CANARY)
        deck = writers.deck()
        half = len(deck) // 2

        long_one_listens(hub, users, screens, writers, deck[:half], held)
        server_crashes(hub, users, screens, writers, deck[half:])
        ends = wait_for_all(hub, screens, users)

        changes = hub.query("select count(*) from judge.book")[0][0]
        assert changes >= 200, changes
        expected = expected_events(hub, users)
        for screen in screens:
            judge(hub, screen, ends[screen.user], expected, users)
        stored_summaries_are_those_of_the_rows(hub, users)
        # Both devices of a user were told the same, to the byte.
        for one, other in ((screens[0], screens[1]), (screens[2], screens[3])):
            assert [(frame.event, frame.raw_data) for frame in one.events()] == [
                (frame.event, frame.raw_data) for frame in other.events()]
        assert hub.stop() == 0


def long_one_listens(hub, users, screens, writers, jobs, held):
    """Half of the jobs while a transaction is held open; meanwhile the LISTEN backend is terminated."""
    is_open, may_end = threading.Event(), threading.Event()
    failures = []
    holder = threading.Thread(target=hold_open, args=(hub, held, is_open, may_end, failures), daemon=True)
    holder.start()
    assert is_open.wait(20)
    threads = writers.start(jobs)
    eventually(lambda: writers.done >= len(jobs) // 2 or writers.failures, "half of these jobs are done")
    listener = hub.wait_until_listening()
    with hub.superuser() as connection:
        assert connection.execute("select pg_terminate_backend(%s)", [listener]).fetchone()[0]
    join_all(threads, writers)
    hub.wait_until_listening(other_than=listener)
    # What others committed does not wait for the one that is open.
    wait_for_all(hub, screens, users)
    assert holder.is_alive(), failures
    assert not any(heard_of(held, screen) for screen in screens), "an event of a transaction that is still open"
    may_end.set()
    holder.join()
    assert not failures, failures
    eventually(lambda: all(heard_of(held, screen) for screen in screens[:2]), "the held transaction's change")


def heard_of(identity, screen):
    return any(frame.data.get("occurrenceId") == identity for frame in screen.events())


def server_crashes(hub, users, screens, writers, jobs):
    """The other half, with PostgreSQL stopped in the middle without a checkpoint."""
    goal = writers.done + len(jobs) // 2
    threads = writers.start(jobs)
    eventually(lambda: writers.done >= goal or writers.failures, "half of these jobs are done")
    cluster.crash(hub.folder)
    try:
        # Sockets stay; a stream that nobody has open here is answered when the database is back.
        for screen in screens:
            screen.device.answered()
        newcomer = f"newcomer.{users[0]}"
        late = Device(hub)
        sign_in(newcomer)(late)
        late.signed_in()
        late.answered()
        assert not [frame for frame in late.frames if frame.channel]
    finally:
        cluster.start(hub.folder)
    join_all(threads, writers)
    assert late.subscribed(stream(newcomer)).data["sync"]["offset"] == 0
    late.close()
    assert all(screen.device.is_open for screen in screens)


def judge(hub, screen, top, expected, users):
    events = screen.events()
    # In order, without a hole, none twice.
    assert [frame.data["_sync"]["o"] for frame in events] == list(range(screen.start + 1, top + 1))

    heard = {}
    for frame in events:
        assert frame.data["userId"] == screen.user, frame
        if frame.event != "adherence.summary_updated":
            heard.setdefault(frame.data["occurrenceId"], []).append((frame.event, frame.data["updates"]["rev"]))
    wanted = {identity: names for (user, identity), names in expected.items() if user == screen.user}
    assert heard == wanted

    shown = view.View(screen.doses)
    for frame in events:
        if frame.data["_sync"]["o"] > screen.snapshot_at:
            shown.apply(frame)
    with hub.database() as connection:
        assert shown.doses == view.rows(connection, screen.user)
    for date, told in shown.summaries.items():
        assert told == view.summary(shown.doses, date)

    text = screen.device.everything()
    assert CANARY not in text
    other = next(user for user in users if user != screen.user)
    assert f'"{other}"' not in text and f'\\"{other}\\"' not in text


def stored_summaries_are_those_of_the_rows(hub, users):
    for user in users:
        with hub.database() as connection:
            doses = view.rows(connection, user)
            stored = connection.execute(
                "select date::text, scheduled_count, taken_count, missed_count, made_up_count, skipped_count,"
                " pending_count, adherence_pct::float, on_time_pct::float"
                " from care.day_summary where user_id = %s order by date", [user])
            dates = sorted({dose["localDate"] for dose in doses.values()})
            assert [list(row) for row in stored] == [list(view.summary(doses, date).values()) for date in dates]
