"""The ground of a chaos of hubs: PostgreSQL, hubs in namespaces, and people's devices that act all the time."""

import contextlib
import socket
import threading

import psycopg

from hub import Program
from plain import APP
from stage import Serving, Stage, passing
from storm import Storm
from waiting import PATIENCE


class Housed(Serving):
    """A hub in a namespace, whose clients come to a socket outside it."""

    apps = (APP,)

    def __init__(self, database_url, settings, place):
        #: None: beside all others.
        self.place = place
        super().__init__(database_url, settings)

    def start(self, failpoint=None):
        if self.place is None:
            return super().start(failpoint)
        # A socket stays in the namespace where it was made. It is made for each life: while no hub is there, nobody listens.
        with socket.create_server(("127.0.0.1", self.port), backlog=4_096) as listener:
            launch = passing([listener])
            launch["before"] = (*self.place.command, *launch["before"])
            self.program = Program("serve", environment=self._environment, **launch)
            self.program.err.wait_for(lambda line: '"listening"' in line, "listening, in the log")

    def ready(self):
        self.program.err.wait_for(lambda line: '"ready"' in line, "ready, in the log", 2 * PATIENCE)


class Ground(Stage):
    """PostgreSQL, and a hub for each of the settings."""

    def __init__(self, settings, places):
        super().__init__(0)
        self.hubs = [Housed(self.url("carillon_hub"), own, place) for own, place in zip(settings, places)]
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def has_database(self):
        """PostgreSQL is there, and stays meanwhile."""
        with self._lock:
            yield

    @contextlib.contextmanager
    def has_no_database(self):
        """It is killed, and starts again behind this."""
        with self._lock:
            self.crash_database()
            try:
                yield
            finally:
                self.start_database()


class _Calm:
    """What befalls the hubs of a storm; here others see to that."""

    async def run(self):
        pass


class PeoplesStorm(Storm):
    """Devices act, whose streams are judged; others strike meanwhile."""

    def _populate(self):
        with self.stage.has_database():
            super()._populate()

    def _is_calm(self):
        try:
            return super()._is_calm()
        except psycopg.OperationalError:
            return False

    def _faults(self):
        return _Calm()


class Streams:
    """Storms of few people, one after the other, until it is told to end."""

    def __init__(self, ground, plan, seed):
        self.faults, self.count = [], 0
        self.counts = {}
        self._ground, self._plan, self._seed = ground, plan, seed
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._ends.is_set() and not self.faults:
                storm = PeoplesStorm(self._ground, self._seed + self.count, self._plan)
                storm.judgement = self._judgement(storm.judgement)
                report = storm.run()
                self.count += 1
                for name, count in storm.ledger.counts.items():
                    self.counts[name] = self.counts.get(name, 0) + count
                if storm.ledger.faults:
                    self.faults.append(report)
        except Exception as error:
            self.faults.append(f"a storm has failed: {error!r} {getattr(error, '__notes__', '')}")

    def _judgement(self, kind):
        ground = self._ground

        class Kept:
            def __init__(self, storm):
                self._judgement = kind(storm)

            def judge(self):
                with ground.has_database():
                    self._judgement.judge()

        return Kept

    def end(self):
        """Returns once the last storm is judged."""
        self._ends.set()
        self._thread.join()
