"""What befalls hubs that share Redis: it, its sentinels, PostgreSQL, the hubs, and the ways between them."""

import contextlib
import signal
import time

from redis_group import USERS
from waiting import eventually


class Blows:
    """Each method strikes once, and returns when its cause is over.

    Two may strike at once, if only one is of `ONCE_MORE` and `LOSING`.
    """

    def __init__(self, ground, redis, audience, network, dice, most=15):
        """`most`: seconds that anything is away, at most."""
        self._ground, self._redis, self._audience, self._network, self._dice = ground, redis, audience, network, dice
        self._most = most

    def _some(self, *seconds):
        return self._dice.choice([one for one in seconds if one <= self._most])

    @property
    def _hubs(self):
        return self._ground.hubs

    def _master(self):
        """Another blow may have taken it away."""
        return eventually(self._redis.master, "there is a master")

    def _renew(self, hub, pause):
        """It is dead: after a pause, another one is there. A balancer sends its clients elsewhere."""
        self._audience.comes_to([other for other in self._hubs if other is not hub])
        time.sleep(pause)
        hub.start()
        hub.ready()
        self._audience.comes_to(self._hubs)

    # Hubs.

    def a_hub_is_killed(self):
        hub = self._dice.choice(self._hubs)
        hub.kill()
        self._renew(hub, 3 * self._dice.random())

    def a_hub_ends(self):
        hub = self._dice.choice(self._hubs)
        hub.end()
        self._renew(hub, 0)

    def a_hub_stands_still(self):
        program = self._dice.choice(self._hubs).program
        program.stand_still()
        time.sleep(self._some(1, 7))
        program.process.send_signal(signal.SIGCONT)

    # Ways.

    def _silence(self, hubs, addresses, seconds):
        for hub in hubs:
            hub.place.is_deaf_to(addresses)
        time.sleep(seconds)
        for hub in hubs:
            hub.place.hears_all()

    def _ways(self):
        return [*self._network.addresses, self._redis.place.address]

    def a_hub_has_no_way_to_redis(self):
        """Its packets come nowhere, and nobody tells it. Without namespaces: it is refused."""
        number, seconds = self._dice.randrange(len(self._hubs)), self._some(1, 3, 8, 15)
        if self._network:
            self._silence([self._hubs[number]], self._ways(), seconds)
        else:
            self._redis.cuts_off(USERS[number], seconds)

    def a_hub_has_no_way_to_the_master(self):
        """Sentinels tell it that the master is well."""
        self._silence([self._dice.choice(self._hubs)], [self._master().host], self._some(2, 6, 12))

    def no_hub_has_a_way_to_redis(self):
        self._silence(self._hubs, self._ways(), self._some(1, 4, 9))

    def connections_are_cut(self):
        for kind in self._dice.choice([("normal",), ("pubsub",), ("normal", "pubsub")]):
            # The blow that comes with it may end the server.
            with contextlib.suppress(ConnectionError):
                self._master()("CLIENT", "KILL", "TYPE", kind)

    # PostgreSQL.

    def postgresql_is_killed(self):
        with self._ground.has_no_database():
            time.sleep(3 * self._dice.random())

    # Sentinels.

    def a_sentinel_is_killed(self):
        with self._without_a_sentinel():
            time.sleep(2)

    @contextlib.contextmanager
    def _without_a_sentinel(self):
        sentinel = self._dice.choice(self._redis.sentinels)
        sentinel.stop()
        try:
            yield
        finally:
            sentinel.start()

    def sentinels_lose_the_master(self):
        """Hubs do not: for a while, two servers take themselves for the master."""
        self._redis.place.is_deaf_to([self._master().host])
        time.sleep(self._some(1, 4, 8))
        self._redis.place.hears_all()

    def the_master_is_killed_and_hubs_cannot_ask(self):
        """Sentinels know the new one, and no hub hears of it for a while."""
        for hub in self._hubs:
            hub.place.is_deaf_to([self._redis.place.address])
        self._redis.fails_over()
        time.sleep(self._some(0, 3))
        for hub in self._hubs:
            hub.place.hears_all()

    # Redis.

    def the_master_is_killed(self):
        self._redis.fails_over()

    def the_master_and_a_sentinel_are_killed(self):
        with self._without_a_sentinel():
            self._redis.fails_over()

    def the_master_stands_still(self):
        self._master().freeze(self._some(1.5, 6))

    def the_master_does_not_answer(self):
        self._master().pause(4_000)

    def the_master_is_emptied(self):
        self._master()("FLUSHALL")


#: Of those, nothing is lost that backends are to be told: Redis keeps it.
KEEPING = ("a_hub_is_killed", "a_hub_ends", "a_hub_stands_still", "a_hub_has_no_way_to_redis",
           "a_hub_has_no_way_to_the_master", "no_hub_has_a_way_to_redis", "connections_are_cut", "postgresql_is_killed",
           "a_sentinel_is_killed")
LOSING = ("sentinels_lose_the_master", "the_master_is_killed_and_hubs_cannot_ask", "the_master_is_killed",
          "the_master_and_a_sentinel_are_killed", "the_master_stands_still", "the_master_does_not_answer",
          "the_master_is_emptied")
#: Those that strike neither hubs nor their ways: one more blow may come with them.
ONCE_MORE = ("a_sentinel_is_killed", "sentinels_lose_the_master", "the_master_is_killed",
             "the_master_and_a_sentinel_are_killed", "the_master_stands_still", "the_master_does_not_answer",
             "the_master_is_emptied")
#: Those that need namespaces.
SILENT = ("a_hub_has_no_way_to_the_master", "no_hub_has_a_way_to_redis", "sentinels_lose_the_master",
          "the_master_is_killed_and_hubs_cannot_ask")
#: Those after which the other hubs may have taken one for dead, and its people have left.
DEADLY = ("a_hub_is_killed", "a_hub_ends", "a_hub_stands_still", "a_hub_has_no_way_to_redis",
          "a_hub_has_no_way_to_the_master")
