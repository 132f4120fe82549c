"""A phone: a queue that survives everything, and a line to the hub that does not."""

import asyncio
import collections

import psycopg

import view
from lines import LOST, Http, Socket, Unanswered, in_time
from names import stream
from waiting import PATIENCE


class Sitting:
    """One connection's time: where the stream stood, the snapshot taken then, and all events since."""

    def __init__(self, position):
        self.epoch = position["epoch"]
        self.start = position["offset"]
        #: Doses and offset of one moment of the database; none where the line was lost before.
        self.snapshot = None
        self.frames = []

    @property
    def offset(self):
        return self.start + len(self.frames)


class Phone:
    """Acts, repeats, forges, loses its line, comes back, and remembers."""

    #: Seconds between two connections, from and to.
    pause = (0.01, 0.15)

    def __init__(self, storm, person, number, dice, source, actions):
        self.storm = storm
        self.ledger = storm.ledger
        self.person = person
        self.port = dice.choice(storm.stage.hubs).port
        self.name = f"{storm.name}.{number}"
        self.dice = dice
        self.source = source
        #: Actions that it will still make up.
        self.budget = actions
        self.queue = []
        self.done = collections.deque(maxlen=8)
        #: The last number it gave.
        self.n = 0
        self.window = dice.choice([1, 2, 4])
        #: Never restored from a backup, and no other device takes over its actions: it never has to number anew.
        self.is_steady = dice.random() < 0.5
        #: How it acts: by its socket, or by HTTP in one of three shapes.
        self.shape = dice.choice(["socket"] * 5 + ["envelope", "seeds", "bulk"])
        self.sittings = []
        self.socket = None
        self._joined = None
        self.http = Http(self.port, person.user, storm.token(person.user), self._text)
        self._work = asyncio.Event()
        #: All its actions, in the order of its queue.
        self.order = []

    # Life.

    async def live(self):
        while True:
            try:
                await self._sit()
            except (*LOST, psycopg.OperationalError):
                self.ledger.counts["reconnects"] += 1
            except Unanswered as error:
                self.ledger.fault(f"{self.name}: no good answer: {error}")
            finally:
                if self.socket:
                    socket, self.socket = self.socket, None
                    await socket.close()
            await asyncio.sleep(self.dice.uniform(*self.pause))

    async def _sit(self):
        self._joined = asyncio.get_running_loop().create_future()
        token = self.storm.token(self.person.user)
        with_upgrade = self.dice.random() < 0.3
        with_token = with_upgrade or not self.person.can_be_signed or self.dice.random() < 0.5
        socket = await Socket.open(self.port, self._frame, self._text, token if with_upgrade else None)
        self.socket = socket
        await socket.sign_in(self.person.user, token if with_token else None)
        await socket.subscribe(stream(self.person.user))
        await asyncio.wait([self._joined, socket.lost], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if not self._joined.done():
            raise EOFError("lost") if socket.lost.done() else Unanswered("a subscribe")
        sitting = self._joined.result()
        sitting.snapshot = await asyncio.to_thread(view.snapshot, self.storm.stage, self.person.user)
        acting = asyncio.create_task(self._act())
        try:
            await asyncio.wait([acting, socket.lost], return_when=asyncio.FIRST_COMPLETED)
            if acting.done():
                acting.result()
            raise EOFError("lost")
        finally:
            acting.cancel()
            await asyncio.wait([acting])

    @property
    def is_idle(self):
        return not self.queue and self.budget == 0

    @property
    def offset(self):
        """The offset of its position in its stream; -1 for none."""
        is_there = self.socket and self.sittings and self.sittings[-1].snapshot
        return self.sittings[-1].offset if is_there else -1

    # What it hears.

    def _text(self, text):
        self.storm.overheard(self.person, text)

    def _frame(self, frame):
        if frame.event == "pusher_internal:subscription_succeeded":
            sitting = Sitting(frame.data["sync"])
            self.sittings.append(sitting)
            self._joined.set_result(sitting)
        elif frame.channel:
            offset = frame.data["_sync"]["o"]
            if not self.sittings or offset != self.sittings[-1].offset + 1:
                self.ledger.fault(f"{self.name}: not the next event: {frame}")
                return
            self.sittings[-1].frames.append(frame)
            self.ledger.counts["events"] += 1
            updates = frame.data.get("updates")
            if updates:
                self.person.revisions[frame.data["occurrenceId"]] = updates["rev"]
        elif frame.event not in ("pusher:pong", "sync:auth_ok", "sync:status"):
            self.ledger.fault(f"{self.name}: nobody asked for {frame}")

    # What it does.

    def grant(self):
        """One more action to make up."""
        self.budget += 1
        self._work.set()

    def enqueue(self, action):
        self.ledger.enter(action, self)
        self.order.append(action)
        self.queue.append(action)
        self._work.set()

    async def _act(self):
        while True:
            if self.dice.random() < 0.05:
                self._make_up(self.dice.randrange(1, 6))
                raise EOFError("a tunnel")
            self._make_up(self.window - len(self.queue))
            batch = self.queue[:self.window if self.shape == "socket" else 1]
            if not batch:
                self._work.clear()
                await self._work.wait()
                continue
            for action in batch:
                if action.n is None:
                    self.n += 1
                    action.n = self.n
            answers = await self._exchange(batch)
            await self._settle(batch, answers)
            if not self.is_steady and self.dice.random() < self.storm.plan.restores:
                self._restore()

    def _make_up(self, count):
        for _ in range(min(count, self.budget)):
            self.budget -= 1
            self.enqueue(self.source.next())
            self.queue[-1].habit = self.storm.habit(self)

    def _restore(self):
        """Restores a backup: an old number, and the queue of that time."""
        count = min(len(self.done), self.dice.randrange(1, 6))
        if count:
            again = list(self.done)[-count:]
            self.queue[:0] = again
            self.n = self.dice.choice(again).n
            for action in self.queue[count:]:
                action.n = None
            self.done.clear()
            self.ledger.counts["restored phones"] += 1

    async def _exchange(self, batch):
        """Sends them in order, some of them twice; their answers, the last one where there were several."""
        is_cut = self.dice.random() < 0.03
        answers = []
        if self.shape != "socket":
            self.storm.repeat_elsewhere(self, batch[0], True)
            self.ledger.counts["sent"] += 1
            answer = await self.http.act(batch[0].envelope(self.name), self.shape, cut=is_cut)
            self.heard(batch[0], answer, self.shape == "envelope")
            return [answer]
        for action in batch:
            self.storm.repeat_elsewhere(self, action, action is batch[0])
            self.ledger.counts["sent"] += 1
            futures = [await self.socket.send(action.envelope(self.name))]
            if action.habit == "twice":
                action.habit = None
                self.ledger.counts["repeated"] += 1
                futures.append(await self.socket.send(action.envelope(self.name)))
            answers.append(futures)
        if is_cut:
            self.socket.cut()
        last = []
        for action, futures in zip(batch, answers):
            told = [await in_time(future, action.key) for future in futures]
            for answer in told:
                self.heard(action, answer)
            last.append(next((answer for answer in told if answer["status"] != "retry"), told[-1]))
        return last

    def heard(self, action, answer, is_whole=True):
        if answer.get("key") != action.key:
            self.ledger.fault(f"{self.name}: an answer to another key: {answer}")
        if self.ledger.heard(action.key, answer, is_whole):
            self.storm.verdict(self, action, answer)

    async def _settle(self, batch, answers):
        """Takes what is done off the queue; numbers anew where the hub says so."""
        left = [(action, answer) for action, answer in zip(batch, answers) if answer["status"] == "retry"]
        for action, answer in zip(batch, answers):
            if answer["status"] != "retry":
                self.queue.remove(action)
                self.done.append(action)
        for action in self.done:
            await self._afterwards(action)
        if not left:
            return
        action, answer = left[0]
        if answer["code"] == "out_of_order":
            if action is self.queue[0]:
                self.ledger.counts["renumbered"] += 1
                if self.is_steady:
                    self.ledger.fault(f"{self.name}: is in order, and was told {answer} of {action.n}")
                self.n = answer["expected"] - 1
                for waiting in self.queue:
                    self.n += waiting.n is not None
                    waiting.n = waiting.n and self.n
        else:
            await asyncio.sleep(min(answer["afterMs"], 1000) / 1000)

    async def _afterwards(self, action):
        """Of what is done, some is asked again, and some with another payload."""
        if action.habit is None:
            return
        habit, action.habit = action.habit, None
        is_changed = habit == "changed"
        sent = self.source.forged(action) if is_changed else action
        self.ledger.counts["changed" if is_changed else "repeated"] += 1
        envelope = sent.envelope(self.name if self.dice.random() < 0.7 else None)
        if self.shape == "socket" and self.dice.random() < 0.6 and not self.socket.is_waiting(action.key):
            answer = await in_time(await self.socket.send(envelope), action.key)
        else:
            answer = await self.http.act(envelope)
        if is_changed:
            self.ledger.heard_of_forgery(action.key, answer)
        else:
            self.heard(action, answer)
