"""Writers that know nothing of the hub: backend jobs and people at psql, on the same rows, all the time."""

import random
import threading

import psycopg

from waiting import eventually

#: How often each comes.
JOBS = {"status": 30, "note": 14, "day": 10, "two_users": 5, "hold": 3, "cancel": 3, "revive": 12, "insert": 4,
        "delete": 1, "other_day": 3, "rolled_back": 3}

STATUSES = ("scheduled", "scheduled", "taken", "skipped", "missed", "made_up")


class Foreigner(threading.Thread):
    """One connection, one transaction after the other; after a crash of the server, a new connection."""

    def __init__(self, stage, people, name, seed, pause):
        super().__init__(daemon=True)
        self.stage = stage
        self.people = people
        self.title = name
        self.pause = pause
        self.dice = random.Random(f"{seed}/{name}")
        self.done = 0
        self.failure = None
        self._is_over = threading.Event()
        self._connection = None
        self._count = 0

    def stop(self):
        self._is_over.set()

    def run(self):
        try:
            while not self._is_over.wait(self.dice.uniform(0, self.pause)):
                try:
                    if self._connection is None:
                        self._connection = eventually(self._connected, "the server takes connections")
                    job, = self.dice.choices(list(JOBS), JOBS.values())
                    getattr(self, job)(self.dice.choice(self.people))
                    self._connection.commit()
                    self.done += 1
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    # A deadlock, a lock timeout, or the server went away.
                    self._close()
        except BaseException as error:
            self.failure = error
        finally:
            self._close()

    def _connected(self):
        try:
            return self.stage.database(autocommit=False, connect_timeout=5, options="-c lock_timeout=2s")
        except psycopg.OperationalError:
            return None

    def _close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # The jobs.

    def _run(self, text, *parameters):
        return self._connection.execute(text, parameters)

    def _dose(self, person):
        return self.dice.choice(list(person.doses))

    def _note(self, person):
        self._count += 1
        return f"foreign {person.canary} {self.title}.{self._count}"

    def status(self, person, identity=None):
        status = self.dice.choice(STATUSES)
        self._run("update care.dose_occurrence set status = %s, reason = null,"
                  " taken_at = case when %s in ('taken', 'made_up') then now() end"
                  " where id = %s and status <> 'cancelled'", status, status, identity or self._dose(person))

    def note(self, person):
        self._run("update care.dose_occurrence set note = %s where id = %s", self._note(person), self._dose(person))

    def day(self, person):
        """Two doses in two statements, with a moment between them in which others commit."""
        first, second = sorted([self._dose(person), self._dose(person)])
        self.status(person, first)
        self._run("select pg_sleep(%s)", self.dice.uniform(0, 0.03))
        self.status(person, second)

    def two_users(self, person):
        """Writes doses of two users in one statement."""
        other = self.dice.choice(self.people)
        ids = sorted({self._dose(person), self._dose(person), self._dose(other), self._dose(other)})
        self._run("update care.dose_occurrence set status = 'scheduled', taken_at = null, reason = null"
                  " where id = any(%s) and status <> 'cancelled'", ids)

    def hold(self, person):
        """Longer than the hub waits for a lock."""
        self._run("select 1 from care.dose_occurrence where id = %s for update", self._dose(person))
        self._run("select pg_sleep(%s)", self.dice.uniform(0.3, 0.8))

    def cancel(self, person):
        self._run("update care.dose_occurrence set status = 'cancelled' where id = %s", self._dose(person))

    def revive(self, person):
        self._run("update care.dose_occurrence set status = 'scheduled', taken_at = null, reason = null"
                  " where user_id = %s and status in ('cancelled', 'skipped', 'made_up')", person.user)

    def insert(self, person):
        model = self._dose(person)
        row = self._run(
            "insert into care.dose_occurrence"
            " (user_id, product_id, tz, local_date, local_time, scheduled_at, window_end)"
            " select user_id, product_id, tz, local_date, local_time, scheduled_at, window_end"
            " from care.dose_occurrence where id = %s returning id, scheduled_at, window_end", model).fetchone()
        if row:
            self._connection.commit()
            person.doses[row[0]] = row[1:]

    def delete(self, person):
        self._run("delete from care.dose_occurrence where id = %s", self._dose(person))

    def other_day(self, person):
        identity, model = self._dose(person), self._dose(person)
        self._run("update care.dose_occurrence as d set local_date = m.local_date, scheduled_at = m.scheduled_at,"
                  " window_end = m.window_end from care.dose_occurrence as m where d.id = %s and m.id = %s",
                  identity, model)

    def rolled_back(self, person):
        self.status(person)
        self.note(person)
        self._connection.rollback()
