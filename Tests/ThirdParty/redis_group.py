"""A master of Redis with two replicas, and a sentinel that replaces a master which is silent for two seconds."""

import contextlib
import pathlib
import random
import tempfile

from redis_server import Redis
from stage import free_port
from waiting import eventually

SERVICE = "main"


class RedisGroup:
    """Servers that may be killed, paused and started, one at a time."""

    def __init__(self, dice=None):
        self._dice = dice or random.Random()
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        # Seen by the sentinel within two seconds, and by the hubs soon after.
        settings = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2", "--repl-ping-replica-period", "1",
                    "--repl-timeout", "10", "--repl-diskless-sync-delay", "0")
        first = self._stack.enter_context(Redis(*settings))
        self.servers = [first] + [
            self._stack.enter_context(Redis(*settings, "--replicaof", "127.0.0.1", str(first.port))) for _ in range(2)]
        eventually(lambda: "connected_slaves:2" in first("INFO", "replication"), "both follow")
        folder = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="judge-")))
        file = folder / "sentinel.conf"
        file.write_text(
            f"sentinel monitor {SERVICE} 127.0.0.1 {first.port} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} 2000\nsentinel failover-timeout {SERVICE} 6000\n")
        self.sentinel = self._stack.enter_context(Redis(file=file))
        eventually(lambda: "num-slaves\r\n$1\r\n2" in self.sentinel("SENTINEL", "MASTER", SERVICE), "it knows them")
        return self

    def __exit__(self, *failure):
        self._stack.__exit__(*failure)

    @property
    def url(self):
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{SERVICE}"

    def master(self):
        """The one that takes writes; None while there is none."""
        for server in self.servers:
            # One that has just been started does not listen yet.
            with contextlib.suppress(OSError, AssertionError):
                if server.is_running and "role:master" in server("INFO", "replication"):
                    return server
        return None

    def is_whole(self):
        """Whether the master takes writes, both others follow it, and the sentinel knows that.

        A sentinel that loses a master before it has told both others of it can leave them following each other.
        """
        master = self.master()
        with contextlib.suppress(OSError, AssertionError):
            return (master is not None and str(master.port) in self.sentinel("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                    and master("INFO", "replication").count("state=online") == 2 and "OK" in master("SET", "judge", "1"))
        return False

    def fails_over(self):
        """The master is killed, and comes back as a replica once another one is there."""
        old = self.master()
        old.stop()
        eventually(lambda: (new := self.master()) is not None and new is not old, "another one is the master")
        old.start(wait=False)
        self.is_well()

    def is_well(self):
        """Returns once all is as it shall be."""
        try:
            eventually(self.is_whole, "Redis is whole", 90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._states()}") from None

    def _states(self):
        """How each server sees itself, and how the sentinel sees the master."""
        asked = [(server, ("INFO", "replication")) for server in self.servers]
        asked.append((self.sentinel, ("SENTINEL", "MASTER", SERVICE)))
        asked.append((self.sentinel, ("SENTINEL", "REPLICAS", SERVICE)))
        states = []
        for server, command in asked:
            try:
                states.append(f"{server.port}: {server(*command)}")
            except (OSError, AssertionError) as error:
                states.append(f"{server.port}: {error}")
        return "\n".join(states)
