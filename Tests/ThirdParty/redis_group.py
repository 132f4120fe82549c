"""A master of Redis with two replicas, and three sentinels that replace a master which is silent for two seconds."""

import contextlib
import pathlib
import random
import tempfile
import time

from redis_server import Redis
from waiting import eventually

SERVICE = "main"

#: Users of hubs, with the rights that the operator's page gives them.
USERS = [f"hub{number}" for number in range(3)]
RIGHTS = (">secret", "~carillon:*", "&carillon:*", "+@all", "-@dangerous", "+info")


class RedisGroup:
    """Servers that may be killed, paused and started, one at a time."""

    def __init__(self, dice=None, network=None):
        """With a network, each server has an address of its own in it, and the sentinels are in its last place."""
        self._dice = dice or random.Random()
        self._network = network
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        # Seen by the sentinel within two seconds, and by the hubs soon after.
        settings = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2", "--repl-ping-replica-period", "1",
                    "--repl-timeout", "10", "--repl-diskless-sync-delay", "0",
                    *(word for user in USERS for word in ("--user", user, "on", *RIGHTS)))
        hosts = self._network.addresses if self._network else ["127.0.0.1"] * 3

        def server(number, *more):
            return self._stack.enter_context(
                Redis(*settings, "--replica-announce-ip", hosts[number], *more, host=hosts[number]))

        first = server(0)
        self.servers = [first] + [server(number, "--replicaof", first.host, str(first.port)) for number in (1, 2)]
        eventually(lambda: "connected_slaves:2" in first("INFO", "replication"), "both follow")
        folder = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="judge-")))
        self.sentinels = []
        for number in range(3):
            file = folder / f"sentinel-{number}.conf"
            file.write_text(
                f"sentinel monitor {SERVICE} {first.host} {first.port} 2\n"
                f"sentinel down-after-milliseconds {SERVICE} 2000\nsentinel failover-timeout {SERVICE} 6000\n")
            where = {"host": self.place.address, "before": self.place.command} if self.place else {}
            self.sentinels.append(self._stack.enter_context(Redis(file=file, **where)))
        for sentinel in self.sentinels:
            eventually(lambda: self._knows_all(sentinel), "it knows all others")
        return self

    @staticmethod
    def _knows_all(sentinel):
        told = sentinel("SENTINEL", "MASTER", SERVICE)
        return "num-slaves\r\n$1\r\n2" in told and "num-other-sentinels\r\n$1\r\n2" in told

    def __exit__(self, *failure):
        self._stack.__exit__(*failure)

    @property
    def place(self):
        """Where the sentinels are; None: beside all others."""
        return self._network.places[-1] if self._network else None

    @property
    def url(self):
        return self.url_of("default")

    def url_of(self, user):
        """For a hub that is that user, and so can be cut off from the others."""
        who = "" if user == "default" else f"{user}:secret@"
        return f"redis+sentinel://{who}{','.join(f'{one.host}:{one.port}' for one in self.sentinels)}/{SERVICE}"

    def cuts_off(self, user, seconds):
        """That user's hub cannot reach Redis for so long, while others can."""
        self._all("ACL", "SETUSER", user, "off")
        self._all("CLIENT", "KILL", "USER", user)
        time.sleep(seconds)
        self._all("ACL", "SETUSER", user, "on")

    def _all(self, *command):
        for server in self.servers:
            server(*command)

    def master(self):
        """The one that takes writes; None while there is none."""
        for server in self.servers:
            # One that has just been started does not listen yet.
            with contextlib.suppress(OSError, AssertionError):
                if server.is_running and "role:master" in server("INFO", "replication"):
                    return server
        return None

    def is_writable(self):
        """Whether one of them takes writes at this moment."""
        for server in self.servers:
            with contextlib.suppress(OSError, AssertionError):
                if server.is_running and "OK" in server("SET", "judge", "1", timeout=1):
                    return True
        return False

    def is_whole(self):
        """Whether the master takes writes, both others follow it, and the sentinels know that.

        Sentinels that lose a master before they have told both others of it can leave them following each other.
        """
        master = self.master()
        with contextlib.suppress(OSError, AssertionError):
            return (master is not None and all(
                        str(master.port) in sentinel("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                        for sentinel in self.sentinels if sentinel.is_running)
                    and master("INFO", "replication").count("state=online") == 2 and "OK" in master("SET", "judge", "1"))
        return False

    def fails_over(self):
        """The master is killed, and comes back once another one is there: without what it had, as a replica."""
        old = eventually(self.master, "there is a master")
        old.stop()
        try:
            eventually(lambda: (new := self.master()) is not None and new is not old, "another one is the master")
        finally:
            old.start(wait=False)

    def is_well(self):
        """Returns once all is as it shall be."""
        try:
            eventually(self.is_whole, "Redis is whole", 90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._states()}") from None

    def _states(self):
        """How each server sees itself, and how a sentinel sees the master."""
        asked = [(server, ("INFO", "replication")) for server in self.servers]
        asked.append((self.sentinels[0], ("SENTINEL", "MASTER", SERVICE)))
        asked.append((self.sentinels[0], ("SENTINEL", "REPLICAS", SERVICE)))
        states = []
        for server, command in asked:
            try:
                states.append(f"{server.port}: {server(*command)}")
            except (OSError, AssertionError) as error:
                states.append(f"{server.port}: {error}")
        return "\n".join(states)
