"""A bad network: a TCP proxy that cuts, goes silent, delays, dribbles and stalls; each link by a fate of its own."""

import asyncio
import collections
import contextlib
import random
import socket
import struct
import threading

from waiting import PATIENCE

#: What befalls links, and how often each.
FAULTS = {"cut": 4, "half_open": 2, "delay": 3, "dribble": 3, "stall_down": 4, "stall_up": 1}

#: Bytes taken at a time.
CHUNK = 16_384

#: A segment and a window as phones have them: on the loopback interface both ends would keep megabytes in the kernel,
#: and no stall would ever reach the hub.
SEGMENT, WINDOW = 1_400, 8_192


class Lane:
    """One direction of a link."""

    def __init__(self, source, sink):
        self._source = source
        self._sink = sink
        #: Closed: nothing is taken from the source, whose peer then has to wait.
        self.gate = asyncio.Event()
        self.gate.set()
        #: All is taken, and nothing passed on.
        self.is_hole = False
        #: Seconds that each chunk waits.
        self.pause = 0.0
        #: Bytes still to pass one at a time.
        self.dribble = 0

    async def run(self):
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(self._source, CHUNK):
                await self.gate.wait()
                if self.pause:
                    await asyncio.sleep(self.pause)
                while data and self.dribble > 0 and not self.is_hole:
                    await loop.sock_sendall(self._sink, data[:1])
                    data = data[1:]
                    self.dribble -= 1
                if data and not self.is_hole:
                    await loop.sock_sendall(self._sink, data)


class Link:
    """One client's connection and the one to the hub that stands for it."""

    def __init__(self, proxy, client, number):
        self._proxy = proxy
        self._client = client
        self._dice = random.Random(f"{proxy.seed}/link/{number}")
        self._is_half_open = False
        self._cut = asyncio.get_running_loop().create_future()
        self.up = self.down = None

    async def run(self):
        loop = asyncio.get_running_loop()
        hub = socket.socket()
        tasks = []
        try:
            hub.setblocking(False)
            hub.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW)
            hub.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
            for end in (hub, self._client):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(hub, ("127.0.0.1", self._dice.choice(self._proxy.targets)))
            self.up, self.down = Lane(self._client, hub), Lane(hub, self._client)
            tasks = [asyncio.create_task(work) for work in (self.up.run(), self.down.run(), self._fate())]
            lanes = set(tasks[:2])
            while lanes and not self._cut.done():
                done, _ = await asyncio.wait([*lanes, self._cut], return_when=asyncio.FIRST_COMPLETED)
                # Where nothing passes, neither end hears that the other has gone.
                lanes = lanes - done if self._is_half_open else set() if done & lanes else lanes
        except OSError:
            self._proxy.counts["hub not there"] += 1
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            is_rude = self._dice.random() < 0.5
            for end in (hub, self._client):
                if is_rude:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.close()

    async def _fate(self):
        """Faults at random times, until the link is cut or the faults end."""
        while self._proxy.every is not None:
            await asyncio.sleep(self._dice.expovariate(1 / self._proxy.every))
            fault, = self._dice.choices(list(FAULTS), FAULTS.values())
            if self._proxy.every is None or self._is_half_open:
                return
            self._proxy.counts[fault] += 1
            await getattr(self, fault)()

    # The faults.

    async def cut(self):
        """Both ends lose the other: a reset, or an end as if each had left."""
        if not self._cut.done():
            self._cut.set_result(None)

    async def half_open(self):
        """The sockets stay, and nothing passes any more."""
        self._is_half_open = True
        self.up.is_hole = self.down.is_hole = True

    async def delay(self):
        self.up.pause = self.down.pause = self._dice.uniform(0.02, 0.3)
        await asyncio.sleep(self._dice.uniform(1, 5))
        self.up.pause = self.down.pause = 0

    async def dribble(self):
        """A byte at a time, for a while: frames and heads end anywhere."""
        self.up.dribble = self.down.dribble = self._dice.randrange(50, 1_500)
        # Each byte costs a turn of this process. On a busy machine a thousand of them took longer than any answer may.
        await asyncio.sleep(5)
        self.up.dribble = self.down.dribble = 0

    async def stall_down(self):
        """The client does not read."""
        await self._stall(self.down)

    async def stall_up(self):
        await self._stall(self.up)

    async def _stall(self, lane):
        lane.gate.clear()
        await asyncio.sleep(self._dice.choice([0.3, 1, 2, 5]))
        lane.gate.set()


class Proxy:
    """Listens on a port of its own, and stands before the hubs'."""

    def __init__(self, *targets, seed=0, every=None):
        #: The hubs' ports: each link goes to one of them.
        self.targets = targets
        self.seed = seed
        #: Mean seconds between two faults of a link; none where faults are had by hand only.
        self.every = every
        #: Whether new links are cut at once: no network.
        self.is_down = False
        self.counts = collections.Counter()
        self._links = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]

    async def run(self):
        """Serves until it is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                client, _ = await loop.sock_accept(self._listener)
                if self.is_down:
                    client.close()
                    continue
                client.setblocking(False)
                self.counts["links"] += 1
                link = Link(self, client, self.counts["links"])
                task = asyncio.create_task(link.run())
                self._links[task] = link
                task.add_done_callback(self._links.pop)
        finally:
            self._listener.close()
            for task in list(self._links):
                task.cancel()
            if self._links:
                await asyncio.wait(list(self._links))

    async def cut_all(self):
        for link in list(self._links.values()):
            await link.cut()

    async def calm(self):
        """No more faults from now on: what was silent is cut, what was slow is not."""
        self.every = None
        for link in list(self._links.values()):
            if link.up is None or link.up.is_hole:
                await link.cut()
                continue
            for lane in (link.up, link.down):
                lane.pause = lane.dribble = 0
                lane.gate.set()


class BackgroundProxy:
    """A proxy on a thread of its own, for clients that have theirs. `do` runs one of its coroutines there."""

    def __init__(self, *arguments, **options):
        self.proxy = Proxy(*arguments, **options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        self._running = asyncio.run_coroutine_threadsafe(self.proxy.run(), self._loop)
        return self

    def __exit__(self, *_):
        async def end():
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others)

        self.do(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    @property
    def port(self):
        return self.proxy.port

    def do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)
