"""A rolling restart: hubs behind a proxy end and start, one after the other, while devices stay on the way and act."""

import asyncio
import dataclasses
import json
import time
import urllib.error
import urllib.request

from websockets.exceptions import InvalidHandshake

from balancers import HOSTS
from lines import Http
from resume import SETTINGS, Journey, JourneyFaults, Route
from roaming_phone import RoamingPhone
from stage import Stage, free_port
from waiting import PATIENCE, becomes, eventually


@dataclasses.dataclass
class Deploy(Route):
    """One restart of all hubs, and nothing else befalls them; links break as phones make them."""

    users: int = 8
    phones: int = 5
    kills: int = 0
    stops: int = 0
    terminations: int = 0
    freezes: int = 0
    epochs: int = 0
    deletions: int = 0
    herds: int = 0
    rate: float = 25
    calm: float = 60
    limit: float = 240


class TwoHubs(Stage):
    """A stage whose hubs a balancer finds: on two loopback addresses, with the same two ports."""

    def __init__(self, settings=None):
        super().__init__(2, {**SETTINGS, **(settings or {})})
        self.clients, self.operations = free_port(), free_port()
        for host, hub in zip(HOSTS, self.hubs):
            hub.use(CARILLON_LISTEN=f"127.0.0.1:{hub.port},{host}:{self.clients}",
                    CARILLON_OPERATIONS_LISTEN=f"{host}:{self.operations}", CARILLON_TRUSTED_PROXIES="127.0.0.0/8")

    def asked(self, number, page):
        """Status and text of a page of a hub's operations; none where it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOSTS[number]}:{self.operations}/{page}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()
        except OSError:
            return None, ""

    def is_ready(self, number):
        return self.asked(number, "readyz")[0] == 200

    def has_clients(self, number):
        """Whether WebSockets are open there."""
        lines = self.asked(number, "metrics")[1].splitlines()
        return any(line.startswith('carillon_connections{kind="websocket"}') and not line.endswith(" 0")
                   for line in lines)


class Front:
    """The balancer, in place of a journey's bad network."""

    def __init__(self, port):
        self.port = port
        self.counts = {}

    async def run(self):
        await asyncio.get_running_loop().create_future()

    async def calm(self):
        pass


class BalancedHttp(Http):
    """A proxy may say 502 to a request that a hub may have heard: its sender does not know, and repeats it."""

    async def _response(self, reader):
        try:
            return await super()._response(reader)
        except json.JSONDecodeError:
            raise EOFError("the proxy's own answer") from None


class BalancedPhone(RoamingPhone):
    """Comes by the balancer alone, and is never refused."""

    def __init__(self, journey, person, *rest):
        super().__init__(journey, person, *rest)
        self.http = BalancedHttp(journey.port, person.user, journey.token(person.user), self._text)

    async def _open(self, token):
        # A device has a processor of its own. Here a thousand share one: if all connected first and asked later, the hub
        # would close them, because it waits ten seconds for a request.
        async with self.storm.doors:
            return await super()._open(token)

    async def _sit(self):
        try:
            await super()._sit()
        except (InvalidHandshake, ConnectionRefusedError) as error:
            self.ledger.fault(f"{self.name}: refused: {error!r}")
            raise


class Restarts(JourneyFaults):
    """One hub after the other: it ends, starts, is ready, and has clients again. Then the next."""

    #: Actions of people before, between and after the restarts. However fast the hubs are, devices have much to lose.
    between = 30

    def __init__(self, journey):
        super().__init__(journey)
        self.journey = journey

    async def run(self):
        counts = self.ledger.counts
        await becomes(lambda: counts["applied"] > 100, PATIENCE)
        await self._people_act()
        for number, hub in enumerate(self.stage.hubs):
            before, started = counts["applied"], time.monotonic()
            await asyncio.to_thread(hub.end)
            counts[f"hub {number + 1}: ms to end"] = round(1000 * (time.monotonic() - started))
            await asyncio.to_thread(hub.start)
            await asyncio.to_thread(eventually, lambda: self.stage.is_ready(number), f"hub {number + 1} is ready", 60)
            await asyncio.to_thread(eventually, lambda: self.stage.has_clients(number),
                                    f"new clients find hub {number + 1}", 60)
            counts[f"hub {number + 1}: ms in all"] = round(1000 * (time.monotonic() - started))
            counts[f"hub {number + 1}: events meanwhile"] = counts["applied"] - before
            await self._people_act()
        self.journey.is_over = True

    async def _people_act(self):
        counts = self.ledger.counts
        goal = counts["actions"] + self.between
        await becomes(lambda: counts["actions"] >= goal, PATIENCE)


class Rolling(Journey):
    """A journey whose network is good, by a balancer's port."""

    phone = BalancedPhone
    #: Whether all hubs have been restarted, and people act no more.
    is_over = False

    def __init__(self, stage, seed, port, plan=None):
        super().__init__(stage, seed, plan or Deploy())
        self.port = port
        #: Devices that connect at a time.
        self.doors = asyncio.Semaphore(32)

    def _network(self):
        return Front(self.port)

    def _faults(self):
        return Restarts(self)

    async def _grant(self):
        while not self.is_over:
            self.dice.choice(self.phones).grant()
            await asyncio.sleep(self.dice.expovariate(self.plan.rate))
