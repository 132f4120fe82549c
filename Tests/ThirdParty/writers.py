"""Writers of doses: many at once, in all the ways in which SQL can change a row, and a book of what was committed."""

import collections
import itertools
import queue
import random
import threading

import psycopg

from waiting import PATIENCE, eventually

#: A book that no event and no table of the hub's has a part in. It is rolled back with what it tells of.
BOOK = """
    create schema judge;
    create table judge.book (
        seq bigint generated always as identity, xid text not null default pg_current_xact_id()::text, id text not null,
        old_user text, new_user text, old_rev bigint, new_rev bigint, new_status text, there_after boolean not null
    );
    create function judge.note() returns trigger language plpgsql as $$
    begin
        insert into judge.book (id, old_user, new_user, old_rev, new_rev, new_status, there_after)
        values (coalesce(new.id, old.id), old.user_id, new.user_id, old.rev, new.rev, new.status, tg_op <> 'DELETE');
        return null;
    end $$;
    create trigger judge after insert or update or delete on care.dose_occurrence
        for each row execute function judge.note();
"""

#: What a transaction may do, and how often in the scenario.
JOBS = collections.Counter(
    one_row=40, insert=16, delete=10, other_user=10, other_day=12, same_row_twice=12, savepoints=10, rolled_back=8,
    one_day_at_once=10, there_and_back=4, insert_and_delete=4, delete_and_insert=4, move_and_change=4, anonymise=2,
    cancel=4, both_users=3)

#: Days of the doses, from today: their windows have ended, or end long hence.
DAYS = (-3, -2, 2)

#: The end of the window of a dose at `scheduled`. None that has ended did so more than a minute before the scenario: the
#: hub misses doses half an hour after, and the book shall be of the writers alone.
WINDOW_END = "greatest(scheduled + interval '4 hours', now() - interval '1 minute')"

STATUSES = ("taken", "skipped", "missed", "made_up", "scheduled")


class Writers:
    """Threads that do jobs until there are none; a job that failed is done again."""

    def __init__(self, hub, users, reserved, seed, canary):
        self.hub = hub
        self.users = users
        #: Doses that other transactions of the scenario hold.
        self.reserved = reserved
        self.seed = seed
        self.canary = canary
        self.done = 0
        self.failures = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def deck(self):
        """All jobs, shuffled."""
        jobs = list(JOBS.elements())
        random.Random(self.seed).shuffle(jobs)
        return jobs

    def start(self, jobs, count=6):
        waiting = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        threads = [threading.Thread(target=self._work, args=(waiting,), daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        return threads

    def _work(self, waiting):
        connections = []
        try:
            while True:
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                with self._lock:
                    number = next(self._numbers)
                try:
                    if not connections:
                        connections = self._connections()
                    Job(self, connections, random.Random(f"{self.seed}/{number}"), f"{self.canary}-{number}").do(job)
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    # A deadlock, or the server went away: whether that commit was done, the book tells.
                    waiting.put(job)
                    self._close(connections)
                    connections = []
                    continue
                with self._lock:
                    self.done += 1
        except BaseException as error:
            self.failures.append(error)
            raise
        finally:
            self._close(connections)

    def _connections(self):
        def connect():
            try:
                return [self.hub.database(autocommit=False, connect_timeout=5) for _ in range(2)]
            except psycopg.OperationalError:
                return None

        return eventually(connect, "the server takes connections again")

    @staticmethod
    def _close(connections):
        for connection in connections:
            connection.close()


class Job:
    """One transaction, or two at once."""

    def __init__(self, writers, connections, dice, note):
        self.writers = writers
        self.first, self.second = connections
        self.dice = dice
        #: Differs each time, so that no update leaves a row as it was.
        self.note = note

    def do(self, name):
        getattr(self, name)()
        self.first.commit()

    def run(self, text, *parameters):
        return self.first.execute(text, parameters)

    def user(self):
        return self.dice.choice(self.writers.users)

    def doses(self, count, user=None):
        """Ids of some doses that are there now; another writer may be faster."""
        rows = self.run("select id from care.dose_occurrence where user_id = any(%s) and id <> all(%s) order by id",
                        [user] if user else self.writers.users, self.writers.reserved).fetchall()
        return [row[0] for row in self.dice.sample(rows, count)]

    def change(self, identity, connection=None):
        status = self.dice.choice(STATUSES)
        (connection or self.first).execute(
            "update care.dose_occurrence set status = %s, note = %s,"
            " taken_at = case when %s in ('taken', 'made_up') then now() end where id = %s",
            [status, self.note, status, identity])

    def add(self, user, identity=None, rev=1):
        self.run("insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, window_end, rev)"
                 f" select coalesce(%s, gen_random_uuid()::text), %s, 'zinc', scheduled, {WINDOW_END}, %s"
                 " from (select date_trunc('day', now()) + make_interval(days => %s, hours => 9) as scheduled) as t",
                 identity, user, rev, self.dice.choice(DAYS))

    def give(self, identity, user):
        self.run("update care.dose_occurrence set user_id = %s, note = %s where id = %s", user, self.note, identity)

    # The jobs.

    def one_row(self):
        self.change(*self.doses(1))

    def insert(self):
        self.add(self.user())

    def delete(self):
        self.run("delete from care.dose_occurrence where id = any(%s)", self.doses(1))

    def other_user(self):
        self.run("update care.dose_occurrence set user_id = case user_id when %s then %s else %s end, note = %s"
                 " where id = any(%s)", *self.writers.users, self.writers.users[0], self.note, self.doses(1))

    def other_day(self):
        days = self.dice.choice(DAYS)
        self.run("update care.dose_occurrence set local_date = current_date + %s, note = %s,"
                 " scheduled_at = date_trunc('day', now()) + make_interval(days => %s, hours => 8) where id = any(%s)",
                 days, self.note, days, self.doses(1))

    def same_row_twice(self):
        identity, = self.doses(1)
        self.change(identity)
        self.run("update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", identity)

    def savepoints(self):
        kept, undone, last = self.doses(3)
        self.change(kept)
        self.run("savepoint one")
        self.change(undone)
        self.add(self.user())
        self.run("savepoint two")
        self.run("delete from care.dose_occurrence where id = %s", kept)
        self.run("rollback to one")
        self.run("savepoint three")
        self.change(last)
        self.run("release three")

    def rolled_back(self):
        for identity in self.doses(3):
            self.change(identity)
        self.add(self.user())
        self.first.rollback()

    def one_day_at_once(self):
        """Two transactions have each changed a dose of one day before either commits; both commit at once."""
        row = self.run("select array_agg(id order by id) from care.dose_occurrence"
                       " where user_id = %s and id <> all(%s) group by local_date having count(*) >= 2 limit 1",
                       self.user(), self.writers.reserved).fetchone()
        mine, other = self.dice.sample(row[0], 2)
        self.change(mine)
        self.first.execute("set local lock_timeout = '5s'")
        self.second.execute("set local lock_timeout = '5s'")
        self.change(other, self.second)
        both = threading.Barrier(2, timeout=PATIENCE)
        failures = []

        def commit(connection):
            try:
                both.wait()
                connection.commit()
            except psycopg.Error as error:
                failures.append(error)

        thread = threading.Thread(target=commit, args=(self.second,))
        thread.start()
        commit(self.first)
        thread.join()
        if failures:
            raise failures[0]

    def there_and_back(self):
        """Moves a dose to the other user and back: an update for the one, nothing for the other."""
        identity, = self.doses(1, self.writers.users[0])
        self.give(identity, self.writers.users[1])
        self.give(identity, self.writers.users[0])

    def insert_and_delete(self):
        identity = f"passing-{self.note}"
        self.add(self.user(), identity)
        self.run("delete from care.dose_occurrence where id = %s", identity)

    def delete_and_insert(self):
        user = self.user()
        identity, = self.doses(1, user)
        row = self.run("delete from care.dose_occurrence where id = %s returning rev", identity).fetchone()
        if row:
            self.add(user, identity, row[0] + 1)

    def move_and_change(self):
        identity, = self.doses(1, self.writers.users[0])
        self.give(identity, self.writers.users[1])
        self.change(identity)

    def anonymise(self):
        self.give(*self.doses(1), None)

    def cancel(self):
        self.run("update care.dose_occurrence set status = 'cancelled', note = %s where id = any(%s)",
                 self.note, self.doses(1))

    def both_users(self):
        self.run("update care.dose_occurrence set note = %s where user_id = any(%s) and id <> all(%s)",
                 self.note, self.writers.users, self.writers.reserved)


def expected_events(hub, users):
    """The events (name, rev) that the committed transactions should have made, in order, by user and dose."""
    transactions = collections.defaultdict(list)
    for xid, identity, *rest in hub.query(
            "select xid, id, old_user, new_user, old_rev, new_rev, new_status, there_after"
            " from judge.book order by seq"):
        transactions[xid, identity].append(rest)
    events = collections.defaultdict(list)
    # Rows of one dose are in the order of its lock, and so are the transactions by their last row.
    for (_, identity), rows in transactions.items():
        owner_before = rows[0][0]
        _, owner_after, _, rev_after, status_after, there_after = rows[-1]
        for user in users:
            has_after = there_after and owner_after == user
            if has_after and owner_before != user:
                events[user, identity].append(("occurrence.created", rev_after))
            elif has_after:
                name = "occurrence.cancelled" if status_after == "cancelled" else "occurrence.updated"
                events[user, identity].append((name, rev_after))
            elif owner_before == user:
                last_rev = [old_rev for old_user, _, old_rev, *_ in rows if old_user == user][-1]
                events[user, identity].append(("occurrence.cancelled", last_rev))
    return events
