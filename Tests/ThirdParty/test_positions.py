"""`sync:resume` by hand: what is recovered, and each reason why not; the order of frames; snapshots that fit."""

import json

import pytest

import cluster
from device import Device
from doses import add_dose
from hub import Hub
from names import private_stream, stream
from waiting import eventually
from wire import Wire

#: A bound that tests can pass.
REPLAYED_MOST = 20


@pytest.fixture(scope="module")
def hub():
    with Hub("--limits-replay-events", str(REPLAYED_MOST)) as running:
        running.wait_until_listening()
        yield running


class Seat:
    """A device of a user, from one position of the stream on."""

    def __init__(self, hub, user, name=stream):
        self.hub, self.user, self.channel = hub, user, name(user)
        self.device = Device(hub, token=hub.token(user))
        self.device.authenticated()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.device.close()

    def subscribe(self):
        self.device.subscribe(self.channel)
        return self

    def position(self):
        return self.device.subscribed(self.channel).data["sync"]

    def resume(self, position, channel=None, start=0, as_text=False, **more):
        """Asks, and returns what it is told of the channel."""
        data = {"v": 1, "channels": {channel or self.channel: position}, **more}
        self.device.send("sync:resume", json.dumps(data) if as_text else data)
        return self.told(channel, start)

    def told(self, channel=None, start=0):
        channel = channel or self.channel
        return self.device.wait_for(
            lambda frame: frame.event == "sync:resumed" and channel in frame.data["channels"],
            f"sync:resumed of {channel}", start=start).data["channels"][channel]

    def offsets(self):
        return [frame.data["_sync"]["o"] for frame in self.device.events(self.channel)]

    def hears_up_to(self, offset):
        self.device.wait_for(lambda frame: frame.channel == self.channel and isinstance(frame.data, dict)
                             and frame.data.get("_sync", {}).get("o") == offset, f"event {offset}")
        self.device.answered()
        return self.offsets()


def change(hub, user, count=1):
    """Each change is two events: of the dose, and of its day."""
    for _ in range(count):
        add_dose(hub, user)


def position_of(hub, user):
    (epoch, top), = hub.query("select epoch, top from sync.positions(%s, %s)", [[user], ["adherence"]])
    return {"epoch": epoch, "offset": top}


@pytest.mark.parametrize("name", [stream, private_stream])
@pytest.mark.parametrize("moment", ["before", "with", "after"])
def test_what_was_missed_comes_in_order_and_then_what_is_new(hub, user, name, moment):
    with Seat(hub, user, name).subscribe() as before:
        start = before.position()
    change(hub, user, 3)
    with Seat(hub, user, name) as seat:
        if moment == "before":
            seat.device.send("sync:resume", {"v": 1, "channels": {seat.channel: start}})
            seat.device.answered()
        seat.subscribe()
        if moment == "after":
            seat.position()
        if moment != "before":
            seat.device.send("sync:resume", {"v": 1, "channels": {seat.channel: start}, "unknown": [1]})
        # What the hub has not heard of yet comes live.
        told = seat.told()
        assert told["recovered"] and told["epoch"] == start["epoch"] and told["replayed"] == told["offset"] <= 6
        change(hub, user)
        assert seat.hears_up_to(8) == list(range(1, 9))
        kinds = [frame.event for frame in seat.device.frames if not frame.event.startswith(("pusher:", "sync:auth"))]
        assert kinds[:2] == ["pusher_internal:subscription_succeeded", "sync:resumed"], kinds
        log = hub.query("select name, data from sync.event where user_id = %s and topic = 'adherence' order by o",
                        [user])
        assert [(frame.event, frame.data) for frame in seat.device.events(seat.channel)] == log


def test_nothing_missed(hub, user):
    change(hub, user)
    with Seat(hub, user).subscribe() as seat:
        position = seat.position()
        assert seat.resume(position, as_text=True) == {**position, "recovered": True, "replayed": 0}
        change(hub, user)
        assert seat.hears_up_to(4) == [3, 4]


def test_a_resume_before_the_identity_waits_with_its_subscribe(hub, user):
    change(hub, user)
    start = {**position_of(hub, user), "offset": 0}
    with Device(hub) as device:
        device.subscribe(stream(user))
        device.send("sync:resume", {"v": 1, "channels": {stream(user): start}})
        device.answered()
        assert not any(frame.event == "sync:resumed" for frame in device.frames)
        device.authenticate(hub.token(user))
        device.wait_for(lambda frame: frame.channel and isinstance(frame.data, dict) and "_sync" in frame.data
                        and frame.data["_sync"]["o"] == 2, "the second event")
        events = [frame.event for frame in device.frames[-4:]]
        assert events[:2] == ["pusher_internal:subscription_succeeded", "sync:resumed"], events


def test_a_gap_is_repaired_on_the_same_connection(hub, user):
    with Seat(hub, user).subscribe() as seat:
        start = seat.position()
        change(hub, user, 2)
        assert seat.hears_up_to(4) == [1, 2, 3, 4]
        mark = seat.device.count()
        assert seat.resume({**start, "offset": 1}, start=mark) == {
            "epoch": start["epoch"], "offset": 4, "recovered": True, "replayed": 3}
        change(hub, user)
        assert seat.hears_up_to(6) == [1, 2, 3, 4, 2, 3, 4, 5, 6]


def test_another_epoch(hub, user):
    change(hub, user)
    with Seat(hub, user).subscribe() as seat:
        position = seat.position()
        assert seat.resume({"epoch": "another.1", "offset": 1}) == {
            **position, "recovered": False, "reason": "stream_reset"}
        change(hub, user)
        assert seat.hears_up_to(4) == [3, 4]


def test_ahead(hub, user):
    change(hub, user)
    with Seat(hub, user).subscribe() as seat:
        position = seat.position()
        assert seat.resume({**position, "offset": 3}) == {**position, "recovered": False, "reason": "ahead"}
        change(hub, user)
        assert seat.hears_up_to(4) == [3, 4]


def test_too_many(hub, user):
    change(hub, user, REPLAYED_MOST // 2 + 1)
    with Seat(hub, user).subscribe() as seat:
        position = seat.position()
        assert seat.resume({**position, "offset": 1}) == {**position, "recovered": False, "reason": "too_many"}
        mark = seat.device.count()
        assert seat.resume({**position, "offset": 2}, start=mark) == {
            **position, "recovered": True, "replayed": REPLAYED_MOST}
        assert seat.hears_up_to(position["offset"]) == list(range(3, position["offset"] + 1))


def test_a_log_that_no_longer_reaches_back(hub, user):
    change(hub, user, 3)
    hub.query("delete from sync.event where user_id = %s and o <= 3", [user])
    with Seat(hub, user).subscribe() as seat:
        position = seat.position()
        assert seat.resume({**position, "offset": 2}) == {**position, "recovered": False, "reason": "position_expired"}
        mark = seat.device.count()
        assert seat.resume({**position, "offset": 3}, start=mark) == {**position, "recovered": True, "replayed": 3}
        assert seat.hears_up_to(6) == [4, 5, 6]


def test_channels_that_are_not_ones_own(hub, user):
    other = user + "x"
    change(hub, other)
    theirs = position_of(hub, other)
    with Seat(hub, user).subscribe() as seat:
        seat.position()
        for channel in (stream(other), "public-channel"):
            # What it said itself comes back, and nothing of where the other stands.
            asked = {"epoch": "mine", "offset": 7}
            assert seat.resume(asked, channel) == {**asked, "recovered": False, "reason": "forbidden"}
        assert seat.resume({**theirs, "offset": 0})["recovered"] is True
        seat.device.answered()
        assert other + '"' not in seat.device.everything().replace(stream(other), "")


@pytest.mark.parametrize("data", [
    {}, {"v": 1}, {"v": 1, "channels": {}}, {"v": 2, "channels": {"%": {"epoch": "e", "offset": 0}}},
    {"v": 1, "channels": []}, {"v": 1, "channels": {"%": {}}}, {"v": 1, "channels": {"%": {"epoch": "e"}}},
    {"v": 1, "channels": {"%": {"epoch": 7, "offset": 0}}}, {"v": 1, "channels": {"%": {"epoch": "e", "offset": -1}}},
    {"v": 1, "channels": {"%": {"epoch": "e", "offset": 1.5}}},
    {"v": 1, "channels": {"%": {"epoch": "e", "offset": "1"}}},
    {"v": 1, "channels": {"%": {"epoch": "e", "offset": 1 << 63}}},
    {"v": 1, "channels": {"%": {"epoch": "e" * 129, "offset": 0}}},
    {"v": 1, "channels": {"%": {"epoch": "e", "offset": 0}, **{f"user.x.t{chr(97 + n // 26)}{chr(97 + n % 26)}": {
        "epoch": "e", "offset": 0} for n in range(120)}}},
    "no object", 7, None, [],
], ids=lambda data: json.dumps(data)[:40])
def test_what_cannot_be_understood_is_said_and_changes_nothing(hub, user, data):
    with Seat(hub, user).subscribe() as seat:
        position = seat.position()
        seat.device.send_text(json.dumps({"event": "sync:resume", "data": data}).replace("%", seat.channel))
        assert seat.device.complaint().data["code"] is None
        assert not any(frame.event == "sync:resumed" for frame in seat.device.frames)
        change(hub, user)
        assert seat.hears_up_to(position["offset"] + 2) == [1, 2]


def test_the_epochs_rotate_under_open_connections():
    """After `carillon migrate --new-epoch`, all are told without asking, as soon as the feed is back."""
    with Hub("--feed-poll-interval", "100ms") as hub:
        change(hub, "demo3")
        with Seat(hub, "demo3").subscribe() as seat:
            before = seat.position()
            fresh, = hub.query("select sync.new_epoch()")[0]
            told = seat.told()
            assert told["recovered"] is False and told["reason"] == "stream_reset"
            assert told["offset"] == before["offset"] and told["epoch"].startswith(fresh)
            change(hub, "demo3")
            assert seat.hears_up_to(4) == [3, 4]


def test_a_dropped_event_is_found(user):
    """An event that the tail never shows reaches devices all the same: positions are checked."""
    with Hub("--feed-poll-interval", "100ms") as hub:
        with Seat(hub, user).subscribe() as seat:
            seat.position()
            # As if the tail had been past this transaction: its number is old.
            with hub.database(autocommit=False) as connection:
                connection.execute("select set_config('sync.notify', 'off', true)")
                connection.execute("insert into care.dose_occurrence (user_id, product_id, scheduled_at)"
                                   " values (%s, 'zinc', now())", [user])
                connection.execute("set constraints all immediate")
                connection.execute("update sync.event set xid = '3' where user_id = %s", [user])
            assert seat.hears_up_to(2) == [1, 2]


def test_an_outage_is_told_and_resumes_wait_for_its_end(user):
    with Hub() as hub:
        change(hub, user, 2)
        start = {**position_of(hub, user), "offset": 1}
        with Seat(hub, user) as seat:
            cluster.crash(hub.folder)
            status = seat.device.wait_for_event("sync:status")
            assert status.data["degraded"] is True and status.data["reason"] == "database_unavailable"
            with Device(hub) as late:
                assert late.wait_for_event("sync:status").data["degraded"] is True
            seat.subscribe()
            seat.device.send("sync:resume", {"v": 1, "channels": {seat.channel: start}})
            seat.device.answered()
            cluster.start(hub.folder)
            assert seat.told() == {"epoch": start["epoch"], "offset": 4, "recovered": True, "replayed": 3}
            assert seat.hears_up_to(4) == [2, 3, 4]
            seat.device.wait_for(lambda frame: frame.event == "sync:status" and not frame.data["degraded"], "its end")


def test_a_stalled_reader_is_fed_from_the_log(user):
    """Ten thousand events while it does not read: nobody is closed, the hub stays small, and all of them come."""
    with Hub("--limits-send-queue-bytes", "2MiB") as hub:
        hub.query("insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
                  " select %s, 'zinc', now() - interval '9 days', now() from generate_series(1, 2500)", [user])
        start = position_of(hub, user)["offset"]
        with Wire(hub, receive_buffer=4096) as stalled, Seat(hub, user).subscribe() as healthy:
            stalled.opened(Authorization=f"Bearer {hub.token(user)}")
            assert stalled.event()["event"] == "sync:auth_ok"
            answer = stalled.ask({"event": "pusher:subscribe", "data": {"channel": stream(user)}})
            assert answer["event"] == "pusher_internal:subscription_succeeded"
            healthy.position()
            before = hub.resident_bytes()
            for number in range(4):
                hub.query("update care.dose_occurrence set note = %s where user_id = %s", [str(number), user])
            end = position_of(hub, user)["offset"]
            assert end >= start + 10_000
            assert healthy.hears_up_to(end) == list(range(start + 1, end + 1))
            grown = hub.resident_bytes() - before
            offsets = []
            while not offsets or offsets[-1] < end:
                offsets.append(json.loads(stalled.event()["data"])["_sync"]["o"])
            assert offsets == list(range(start + 1, end + 1))
            stalled.lives()
            # Ten megabytes were sent to each; the window holds a quarter of one.
            assert grown < 32 << 20, grown
