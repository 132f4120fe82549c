"""A phone on the move: it loses its line all the time, resumes where it was, and shows some days without a gap."""

import asyncio
import copy
import json

from follower import Follower
from lines import LOST, Socket, Unanswered
from names import stream
from phone import Phone
from view import Page
from waiting import PATIENCE

#: Seconds of silence after which it asks whether the hub is there, and that it then waits: pusher-js in a hurry.
SILENCE, PATIENCE_FOR_A_PONG = 2, 3

#: What it must be told of a resume.
REASONS = ("stream_reset", "position_expired", "ahead", "too_many", "store_unavailable")


class RoamingPhone(Phone):
    """Keeps its position and its days over all connections. The wire is judged frame by frame, the days at the end."""

    pause = (0.1, 0.8)

    def __init__(self, journey, person, *rest):
        super().__init__(journey, person, *rest)
        self.channel = stream(person.user)
        #: The days that it shows.
        self.dates = []
        self.pages = []
        self.follower = Follower(self.channel, self._ask, self._fetch, self._show, self._apply)
        #: By offset, the event that was applied there last.
        self.applied = {}
        #: Where this connection's next event must be; none before the acknowledgement.
        self._expected = None
        #: Offsets of the resumes that were sent on this connection and are not answered.
        self._asked = []
        self._backup = None
        self._heard = 0
        self._errands = set()

    # Life.

    async def _sit(self):
        self._prepare()
        self._joined = asyncio.get_running_loop().create_future()
        self._expected, self._asked, self.follower.is_resuming = None, [], False
        # Soon to expire: it is told so in its time.
        token = self.storm.stage.token(self.person.user, lifetime=self.dice.randrange(61, 120))
        with_upgrade = self.dice.random() < 0.3
        with_token = with_upgrade or not self.person.can_be_signed or self.dice.random() < 0.5
        moment = self.dice.choice(["before", "with", "after"])
        socket = self.socket = await self._open(token if with_upgrade else None)
        watching = asyncio.create_task(self._watch(socket))
        acting = None
        try:
            if moment == "before":
                self.follower.resume()
            await socket.sign_in(self.person.user, token if with_token else None)
            await socket.subscribe(self.channel)
            if moment == "with":
                self.follower.resume()
            await asyncio.wait([self._joined, socket.lost], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if not self._joined.done():
                raise EOFError("lost") if socket.lost.done() else Unanswered("a subscribe")
            if moment == "after":
                self.follower.resume()
            acting = asyncio.create_task(self._act())
            await asyncio.wait([acting, socket.lost], return_when=asyncio.FIRST_COMPLETED)
            if acting.done():
                acting.result()
            raise EOFError("lost")
        finally:
            tasks = [task for task in (watching, acting) if task]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _open(self, token):
        return await Socket.open(self.storm.proxy.port, self._frame, self._text, token)

    async def _watch(self, socket):
        """A line may die without a word."""
        while True:
            heard = self._heard
            await asyncio.sleep(SILENCE)
            if self._heard != heard:
                continue
            self._errand(socket.say("pusher:ping", {}))
            await asyncio.sleep(PATIENCE_FOR_A_PONG)
            if self._heard == heard:
                self.ledger.counts["silent lines"] += 1
                socket.cut()
                return

    def _prepare(self):
        """Between two connections: backups are made and restored, and some come with a position that cannot be."""
        position = self.follower.position
        if position is None:
            return
        what = self.dice.random()
        if what < 0.15:
            self._backup = self._backup or (position, copy.deepcopy(self.pages))
        elif what < 0.25 and self._backup:
            self.follower.position, self.pages = self._backup
            self._backup = None
            self.ledger.counts["restored views"] += 1
        elif what < 0.26:
            self.follower.position = {**position, "offset": position["offset"] + 100_000}
            self.ledger.counts["impossible positions"] += 1
        elif what < 0.27:
            self.follower.position = {**position, "epoch": "elsewhere.0"}
            self.ledger.counts["impossible positions"] += 1
        elif what < 0.31:
            # From a drawer. What it shows is newer, and takes nothing twice.
            self.follower.position = {**position, "offset": 0}
            self.ledger.counts["ancient positions"] += 1

    @property
    def offset(self):
        return self.follower.position["offset"] if self.socket and self.follower.is_complete else -1

    # What the follower asks of it.

    def _errand(self, work):
        async def run():
            try:
                await work
            except LOST:
                pass

        task = asyncio.create_task(run())
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def _ask(self, event, data):
        if self.socket is None or self.socket.lost.done():
            return False
        offset = data["channels"][self.channel]["offset"]
        for _ in range(2 if self.dice.random() < 0.1 else 1):
            self._asked.append(offset)
            self.ledger.counts["resumes"] += 1
            self._errand(self.socket.say(event, data if self.dice.random() < 0.5 else json.dumps(data)))
        return True

    def _fetch(self, done):
        self._errand(self._load(done))

    async def _load(self, done):
        """Its days by HTTP, until all are of one epoch."""
        while True:
            pages, epochs = [], set()
            try:
                for date in self.dates:
                    status, fields, body = await self.http.get(f"/adherence/today?date={date}")
                    if status == 503:
                        break
                    if status != 200:
                        self.ledger.fault(f"{self.name}: a snapshot was answered {status}: {body}")
                    epoch, _, offset = fields["x-sync-position"].rpartition(":")
                    epochs.add(epoch)
                    pages.append(Page(date, body, int(offset)))
            except LOST:
                pass
            except AssertionError as error:
                self.ledger.fault(f"{self.name}: {error}")
            if len(pages) == len(self.dates) and len(epochs) == 1:
                break
            await asyncio.sleep(self.dice.uniform(0.2, 1))
        self.ledger.counts["snapshots"] += 1
        # Each page knows its own offset; what is between them comes again to the later ones.
        done({"epoch": epochs.pop(), "offset": min(page.at for page in pages)}, pages)

    def _show(self, pages):
        self.pages = pages

    def _apply(self, frame):
        self.ledger.counts["applied"] += 1
        self.applied[frame.data["_sync"]["o"]] = frame
        try:
            for page in self.pages:
                page.apply(frame)
        except AssertionError as error:
            self.ledger.fault(f"{self.name}: {error}")

    # What it hears.

    def _text(self, text):
        self._heard += 1
        super()._text(text)

    def _frame(self, frame):
        if frame.event == "pusher_internal:subscription_succeeded":
            if self._joined.done():
                self.ledger.fault(f"{self.name}: a second acknowledgement: {frame}")
                return
            self._joined.set_result(None)
            self._expected = frame.data["sync"]["offset"] + 1
            self.follower.subscribed(frame.data["sync"])
        elif frame.event == "sync:resumed":
            for channel, told in frame.data["channels"].items():
                self._resumed(channel, told)
        elif frame.channel:
            self._event(frame)
        elif frame.event == "sync:auth_expiring":
            if self.socket and self.dice.random() < 0.8:
                self.ledger.counts["tokens renewed"] += 1
                self._errand(self.socket.say("sync:auth", {"token": self.storm.token(self.person.user)}))
        elif frame.event == "sync:status":
            self.ledger.counts["told of an outage" if frame.data["degraded"] else "told of its end"] += 1
        elif frame.event not in ("pusher:pong", "sync:auth_ok"):
            self.ledger.fault(f"{self.name}: nobody asked for {frame}")

    def _event(self, frame):
        offset = frame.data["_sync"]["o"]
        if offset != self._expected:
            self.ledger.fault(f"{self.name}: {self._expected} must come next, not {frame}")
        self._expected = offset + 1
        self.ledger.counts["events"] += 1
        updates = frame.data.get("updates")
        if updates:
            self.person.revisions[frame.data["occurrenceId"]] = updates["rev"]
        if self.dice.random() < 0.003:
            # The app crashes over it, and is back in a moment.
            self.ledger.counts["events dropped by the app"] += 1
            asyncio.get_running_loop().call_later(0.5, self.follower.resume)
        else:
            self.follower.take(frame)

    def _resumed(self, channel, told):
        """Where the next event must be, and what the follower is to do."""
        counts = self.ledger.counts
        if channel != self.channel:
            self.ledger.fault(f"{self.name}: told of another channel: {channel}")
        elif told["recovered"]:
            start = told["offset"] - told["replayed"]
            if start not in self._asked:
                self.ledger.fault(f"{self.name}: asked from {self._asked}, and was told {told}")
            else:
                # Resumes before this one are answered by it.
                del self._asked[:self._asked.index(start) + 1]
            self._expected = start + 1
            counts["recovered"] += 1
            counts["replayed"] += told["replayed"]
        elif told["reason"] in REASONS:
            counts[told["reason"]] += 1
            del self._asked[:1]
            self._expected = told["offset"] + 1
        else:
            self.ledger.fault(f"{self.name}: told {told}")
            return
        self.follower.resumed(told, self._later)

    def _later(self, work):
        asyncio.get_running_loop().call_later(self.dice.uniform(0.5, 1.5), work)
