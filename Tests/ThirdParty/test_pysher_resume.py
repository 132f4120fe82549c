"""Stock Pysher with the lines of Sources/Values/Sync/README.md.

Over cuts, silences, kills, outages and resets it shows what the server has.
"""

import collections
import contextlib
import json
import urllib.request
from urllib.parse import quote

import pytest

import cluster
import view
from client import Client
from follower import Follower
from hub import APP_SECRET, Hub
from names import private_stream, stream
from proxy import BackgroundProxy
from waiting import eventually

Heard = collections.namedtuple("Heard", "event data")


class App:
    """One day of a user on a screen, over Pysher."""

    def __init__(self, hub, port, user, channel, **options):
        self.hub = hub
        self.user = user
        self.page = None
        self.snapshots = 0
        #: Offsets applied since the last snapshot.
        self.offsets = []
        self.told = []
        self.follower = Follower(channel, self._send, self._fetch, self._show, self._apply)
        self.date = str(hub.query("select min(local_date) from care.dose_occurrence where user_id = %s", [user])[0][0])
        address = collections.namedtuple("Address", "port")(port)
        self.client = Client(address, auto_sub=True, **options)
        self.client.on_event = self._hear

    def _send(self, event, data):
        self.client.send(event, data)
        return True

    def _hear(self, event, data, channel):
        if event == "pusher:connection_established":
            self.client.send("sync:auth", {"token": self.hub.token(self.user)})
            self.follower.resume()
        elif event == "sync:resumed":
            told = json.loads(data)["channels"][self.follower.channel]
            self.told.append(told.get("reason", "recovered"))
            self.follower.resumed(told, lambda work: work())
        elif channel == self.follower.channel and event == "pusher_internal:subscription_succeeded":
            self.follower.subscribed(json.loads(data)["sync"])
        elif channel == self.follower.channel and not event.startswith("pusher"):
            self.follower.take(Heard(event, json.loads(data)))

    def _fetch(self, done):
        """Fetches on Pysher's own thread, which hears nothing meanwhile."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.hub.port}/users/{quote(self.user, safe='')}/adherence/today?date={self.date}",
            headers={"Authorization": f"Bearer {self.hub.token(self.user)}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            epoch, _, offset = answer.headers["X-Sync-Position"].rpartition(":")
            page = view.Page(self.date, json.load(answer), int(offset))
        done({"epoch": epoch, "offset": int(offset)}, page)

    def _show(self, page):
        self.page = page
        self.snapshots += 1
        self.offsets = []

    def _apply(self, heard):
        self.offsets.append(heard.data["_sync"]["o"])
        self.page.apply(heard)

    def is_there(self):
        (epoch, top), = self.hub.query("select epoch, top from sync.positions(%s, %s)", [[self.user], ["adherence"]])
        if not self.follower.is_complete or self.follower.position != {"epoch": epoch, "offset": top}:
            return False
        with self.hub.database() as connection:
            rows = view.rows(connection, self.user)
        assert self.page.shown() == view.on_page(rows, self.date)
        assert all(other == one + 1 for one, other in zip(self.offsets, self.offsets[1:])), self.offsets
        return True

    def arrives(self):
        eventually(self.is_there, f"it shows what is there; at {self.follower.position}, told {self.told}")


def write(hub, user, number):
    """Changes a dose, adds one, and cancels one."""
    hub.query("update care.dose_occurrence set note = %s, status = 'missed' where id ="
              " (select min(id) from care.dose_occurrence where user_id = %s and status <> 'cancelled')",
              [str(number), user])
    hub.query("insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
              " select user_id, 'zinc', scheduled_at, window_end from care.dose_occurrence where user_id = %s limit 1",
              [user])
    hub.query("update care.dose_occurrence set status = 'cancelled' where id ="
              " (select max(id) from care.dose_occurrence where user_id = %s)", [user])


def add_old_doses(hub, user):
    """Old ones whose windows have just ended: the hub misses none of them meanwhile."""
    hub.query("insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
              " select %s, 'zinc', now() - interval '5 days', now() from generate_series(1, 12)", [user])


@contextlib.contextmanager
def no_network(proxy):
    proxy.proxy.is_down = True
    proxy.do(proxy.proxy.cut_all())
    yield
    proxy.proxy.is_down = False


@contextlib.contextmanager
def on_screen(user, name, **options):
    """A hub, a network before it, and a user's app with its first snapshot."""
    with Hub("--feed-poll-interval", "100ms") as hub, BackgroundProxy(hub.port) as proxy:
        add_old_doses(hub, user)
        app = App(hub, proxy.port, user, name(user), **options)
        # The same port from life to life.
        hub.listen = f"127.0.0.1:{hub.port}"
        with app.client as client:
            client.subscribe(name(user))
            app.arrives()
            assert app.snapshots == 1
            yield hub, proxy, app


@pytest.mark.parametrize("name, options", [(stream, {}), (private_stream, {"secret": APP_SECRET})])
def test_what_happens_while_the_line_is_down_comes_afterwards(user, name, options):
    """It comes by the user's channel, and by the private one."""
    with on_screen(user, name, **options) as (hub, proxy, app):
        for number in range(3):
            with no_network(proxy):
                write(hub, user, number)
            app.arrives()
        assert app.snapshots == 1 and set(app.told) == {"recovered"}
        with no_network(proxy):
            hub.query("select sync.new_epoch()")
            write(hub, user, 12)
        app.arrives()
        assert app.snapshots == 2 and app.told[-1] == "stream_reset"


def test_a_client_without_a_right_to_a_channel_stops_asking():
    sent, fetches = [], []
    shown = []
    follower = Follower("user.a.adherence", lambda *said: sent.append(said) or True, fetches.append, shown.append, None)
    follower.subscribed({"epoch": "e", "offset": 0})
    fetches[0]({"epoch": "e", "offset": 7}, "seven")
    follower.resume()
    follower.snapshot()
    follower.resumed({"epoch": "e", "offset": 7, "recovered": False, "reason": "forbidden"}, None)
    assert sent[1:] == [("pusher:unsubscribe", {"channel": "user.a.adherence"})]
    # The snapshot that was on its way, and the next connection.
    fetches[1]({"epoch": "e", "offset": 8}, "eight")
    follower.resume()
    assert (len(sent), len(fetches), follower.position, shown) == (2, 2, None, ["seven"])


def test_what_happens_while_no_hub_runs_comes_afterwards(user):
    with on_screen(user, stream) as (hub, proxy, app):
        hub.program.kill()
        cluster.stop_if_running(hub.folder)
        cluster.start(hub.folder)
        write(hub, user, 10)
        hub.start()
        app.arrives()
        cluster.crash(hub.folder)
        cluster.start(hub.folder)
        write(hub, user, 11)
        app.arrives()
        assert app.snapshots == 1

        # And where the log has gone meanwhile, a snapshot.
        with no_network(proxy):
            hub.stop()
            cluster.start(hub.folder)
            write(hub, user, 13)
            hub.query("delete from sync.event where user_id = %s", [user])
            cluster.crash(hub.folder)
            hub.start()
        app.arrives()
        assert app.snapshots == 2 and app.told[-1] == "position_expired"


def test_a_snapshot_that_came_between_connected_and_subscribed_is_followed_up():
    sent, fetches = [], []
    follower = Follower("user.a.adherence", lambda *said: sent.append(said) or True, fetches.append, lambda shown: None,
                        None)
    follower.subscribed({"epoch": "e", "offset": 30})
    # The line is cut, and is back before the snapshot is.
    follower.resume()
    assert sent == []
    fetches.pop()({"epoch": "e", "offset": 35}, None)
    follower.subscribed({"epoch": "e", "offset": 42})
    assert sent == [("sync:resume", {"v": 1, "channels": {"user.a.adherence": {"epoch": "e", "offset": 35}}})]
    follower.resumed({"epoch": "e", "offset": 42, "recovered": True, "replayed": 7}, None)
    follower.subscribed({"epoch": "e", "offset": 35})
    assert len(sent) == 1 and fetches == [], "where it is already"


def test_a_snapshot_that_a_later_one_has_overtaken_is_not_shown():
    """Events between the two would be missing in it, and its offset would not show that."""
    fetches, happened = [], []
    follower = Follower("user.a.adherence", lambda *said: True, fetches.append, happened.append,
                        lambda frame: happened.append(frame.data["_sync"]["o"]))
    follower.subscribed({"epoch": "e", "offset": 30})
    # The line is cut before the snapshot has come, and the next one's comes first.
    follower.subscribed({"epoch": "e", "offset": 31})
    fetches[1]({"epoch": "e", "offset": 31}, "31")
    follower.take(Heard("occurrence.updated", {"_sync": {"o": 32}}))
    fetches[0]({"epoch": "e", "offset": 30}, "30")
    follower.take(Heard("occurrence.updated", {"_sync": {"o": 33}}))
    assert happened == ["31", 32, 33]
    assert follower.position == {"epoch": "e", "offset": 33}
