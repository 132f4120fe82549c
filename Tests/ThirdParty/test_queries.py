"""Statistics, history, export and feedback by HTTP: what the adherence screens of an app see."""

import concurrent.futures
import csv
import datetime
import http.client
import io
import json
import re
import time
import uuid
from urllib.parse import quote, urlencode

import pytest

from hub import ORIGIN, Hub
from waiting import PATIENCE, eventually


class Reader:
    """One user's HTTP client."""

    def __init__(self, hub, user):
        self.hub, self.user, self.token = hub, user, hub.token(user)

    def ask(self, path, method="GET", body=None, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.hub.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {self.token}"}
        headers.update({name.replace("_", "-"): text for name, text in fields.items()})
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        return answer

    def settled(self, path, method="GET", **fields):
        """The answer, once the hub's connections to the database are there and none of them runs an earlier export."""
        def answered():
            answer = self.ask(path, method, **fields)
            return answer if answer.status != 503 else None

        return eventually(answered, f"an answer of {path}")

    def path(self, name, **query):
        query = {name: value for name, value in query.items() if value is not None}
        return f"/users/{quote(self.user, safe='')}/adherence/{name}" + (f"?{urlencode(query)}" if query else "")

    def json(self, name, **query):
        answer = self.settled(self.path(name, **query))
        assert answer.status == 200, answer.text
        return json.loads(answer.text)


@pytest.fixture
def reader(hub, user):
    """A user with ten days of two doses, the last of them today; nothing is said of the oldest."""
    hub.query(
        "insert into care.dose_occurrence (id, user_id, product_id, status, taken_at, note, scheduled_at)"
        " select %(who)s || n, %(who)s, case n %% 2 when 0 then 'zinc' else 'iron' end,"
        " case when n %% 5 = 0 then 'missed' else 'taken' end, case when n %% 5 <> 0 then t.at end,"
        " case n when 3 then '=1+1' when 4 then E'two\\nlines, \"said\"' end, t.at"
        " from generate_series(0, 19) as n cross join lateral"
        " (select (current_date - n / 2) + time '00:01' + make_interval(mins => n %% 2) as at) as t", {"who": user})
    return Reader(hub, user)


TODAY = datetime.datetime.now(datetime.timezone.utc).date


def test_statistics(reader):
    stats = reader.json("stats")
    assert (stats["adherencePct"], stats["onTimePct"], stats["lastSyncAt"]) == (80.0, 80.0, None)
    assert len(stats["histogram"]["byDay"]) == 30 and len(stats["histogram"]["byHour"]) == 24
    assert sum(day["scheduled"] for day in stats["histogram"]["byDay"]) == 20
    assert {one["productId"]: one["scheduled"] for one in stats["byProduct"]} == {"zinc": 10, "iron": 10}
    today = TODAY()
    one = reader.json("stats", start=today - datetime.timedelta(days=3), end=today)
    assert [day["scheduled"] for day in one["histogram"]["byDay"]] == [2, 2, 2, 2]


@pytest.mark.parametrize("name, query, words", [
    ("stats", "start=yesterday", "start must be a day"), ("stats", "start=2025-02-29", "start must be a day"),
    ("stats", "start=2024-01-01&end=2025-01-01", "365 days"), ("stats", "start=2025-01-02&end=2025-01-01", "end"),
    ("history", "limit=0", "limit must be a whole number from 1 to 200"), ("history", "limit=201", "limit must"),
    ("history", "status=eaten", "status must be one of scheduled, taken"),
    ("history", "cursor=x", "cursor must be the next"),
    ("history", "productId=", "productId must be"), ("export", "format=xls", "format must be one of csv, json"),
    ("export", "end=1", "end must be a day"),
    ("history", "start=2025-01-02&end=2025-01-01", "Let end be start or later."),
    ("export", "start=2025-01-02&end=2025-01-01", "Let end be start or later."),
])
def test_bad_parameters_are_told(hub, user, name, query, words):
    reader = Reader(hub, user)
    answer = reader.settled(f"{reader.path(name)}?{query}")
    assert answer.status == 400 and words in json.loads(answer.text)["error"], answer.text
    assert json.loads(answer.text)["code"] == 400


@pytest.mark.parametrize("name", ["stats", "history"])
def test_answers_are_asked_for_again(reader, name):
    path = reader.path(name)
    first = reader.settled(path, Origin=ORIGIN)
    assert first.getheader("Cache-Control") == "no-store" and first.getheader("Access-Control-Allow-Origin")
    again = reader.settled(path, If_None_Match=first.getheader("ETag"))
    assert (again.status, again.text, again.getheader("ETag")) == (304, "", first.getheader("ETag"))
    assert again.getheader("X-Sync-Position") == first.getheader("X-Sync-Position")
    head = reader.settled(path, "HEAD")
    assert (head.status, head.text, head.getheader("ETag")) == (200, "", first.getheader("ETag"))
    reader.hub.query("update care.dose_occurrence set status = 'skipped' where id = %s", [reader.user + "0"])
    changed = reader.settled(path, If_None_Match=first.getheader("ETag"))
    assert changed.status == 200 and changed.getheader("X-Sync-Position") != first.getheader("X-Sync-Position")


def test_history_is_read_page_by_page(reader):
    seen, cursor = [], None
    while True:
        page = reader.json("history", limit=7, cursor=cursor)
        seen += [dose["id"] for dose in page["items"]]
        assert len(page["items"]) == 7 or page["next"] is None
        cursor = page["next"]
        if cursor is None:
            break
    days = range(10)
    assert seen == [f"{reader.user}{2 * day + half}" for day in days for half in (1, 0)]
    assert reader.json("history", status="missed", productId="zinc")["items"][0]["id"] == f"{reader.user}0"
    one = reader.json("history", start=TODAY() - datetime.timedelta(days=1), end=TODAY() - datetime.timedelta(days=1))
    assert [dose["note"] for dose in one["items"]] == ["=1+1", None]


def test_export_opens_as_a_table(reader):
    answer = reader.settled(reader.path("export"))
    assert answer.getheader("Content-Type").startswith("text/csv") and answer.getheader("Cache-Control") == "no-store"
    assert answer.text[0] == "\ufeff", "the mark by which spreadsheets know UTF-8"
    rows = list(csv.DictReader(io.StringIO(answer.text[1:], newline="")))
    assert len(rows) == 20 and rows[-1]["date"] == str(TODAY()) and rows[0]["status"] == "taken"
    notes = {row["id"]: row["note"] for row in rows}
    # A spreadsheet computes nothing.
    assert notes[f"{reader.user}3"] == "'=1+1" and notes[f"{reader.user}4"] == 'two\nlines, "said"'
    doses = json.loads(reader.settled(reader.path("export", format="json")).text)
    assert [dose["id"] for dose in doses] == [row["id"] for row in rows]
    assert doses == reader.json("history")["items"][::-1]
    head = reader.settled(reader.path("export"), "HEAD")
    assert (head.status, head.text) == (200, "")


def test_export_of_many_rows_takes_little_memory(hub, user):
    reader = Reader(hub, user)
    hub.query(
        "insert into care.dose_occurrence (user_id, scheduled_at, note)"
        " select %s, timestamptz '2020-01-01Z' + make_interval(hours => n), repeat('x', 2000)"
        " from generate_series(1, 5000) as n", [user])
    before = hub.resident_bytes()
    answer = reader.settled(reader.path("export", format="json"))
    assert len(json.loads(answer.text)) == 5_000 and len(answer.text) > 10_000_000
    assert hub.resident_bytes() - before < 8_000_000


def test_an_export_is_of_one_moment(hub, user):
    """What changes while it is read, it does not show: not even of the doses that come last."""
    reader = Reader(hub, user)
    with hub.superuser() as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(
            "insert into care.dose_occurrence (id, user_id, product_id, status, scheduled_at, tz, local_date,"
            " local_time, window_end, note)"
            " select %(who)s || n, %(who)s, 'zinc', 'taken', t.at, 'UTC', t.at::date, t.at::time, t.at,"
            " repeat('x', 8000) from generate_series(1, 2500) as n cross join lateral"
            " (select timestamptz '2020-01-01Z' + make_interval(hours => n) as at) as t", {"who": user})
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=PATIENCE)
    connection.request(
        "GET", reader.path("export", format="json"), headers={"Authorization": f"Bearer {reader.token}"})
    answer = connection.getresponse()
    text = answer.read(1000)
    reading = "select count(*) from pg_stat_activity where query like 'FETCH %export%' and xact_start is not null"
    with hub.superuser() as other:
        eventually(lambda: other.execute(reading).fetchone() == (1,), "the hub has not read to the end")
        other.execute("set session_replication_role = replica")
        other.execute("update care.dose_occurrence set note = 'y', status = 'skipped' where user_id = %s", [user])
        other.execute("delete from care.dose_occurrence where user_id = %s and local_date > '2020-02-01'", [user])
        assert other.execute(reading).fetchone() == (1,), "the hub still reads"
    doses = json.loads(text + answer.read())
    connection.close()
    assert len(doses) == 2_500 and {(dose["note"][0], dose["status"]) for dose in doses} == {("x", "taken")}


def test_every_query_has_a_tag_and_may_be_asked_by_pages(hub, user):
    """All routes of the document that are read: ETag, 304, position, CORS, and the preflight that comes before."""
    reader = Reader(hub, user)
    dose, medication, stack = (str(uuid.uuid4()) for _ in range(3))
    hub.query("insert into care.dose_occurrence (id, user_id, scheduled_at) values (%s, %s, now())", [dose, user])
    own = f"/users/{quote(user, safe='')}"
    made = reader.settled(f"{own}/medications", "POST", body={"id": medication, "name": "Zinc", "frequency": "daily"})
    assert made.status == 200, made.text
    schedule = json.loads(made.text)["schedules"][0]["id"]
    assert reader.ask(f"{own}/stacks", "POST", {"id": stack, "name": "Mine"}).status == 200
    rule = reader.ask("/reminders", "POST", {"productId": medication, "time": "08:00"})
    assert rule.status == 200, rule.text
    named = {"/occurrence/{id}": dose, "/medications/{id}": medication, "/schedules/{id}": schedule,
             "/stacks/{id}": stack, "/reminders/{id}": json.loads(rule.text)["id"]}
    document = json.loads(reader.ask("/openapi.json").text)
    asked = []
    for path, operations in document["paths"].items():
        operation = operations.get("get")
        if operation is None or "text/event-stream" in operation["responses"]["200"].get("content", {}):
            continue
        for ending, identity in named.items():
            path = path.replace(ending, ending.replace("{id}", identity))
        path = path.replace("{userId}", quote(user, safe=""))
        if "{" in path or not path.startswith(("/users/", "/reminders")):
            continue
        path += "?month=2025-11" if path.endswith("/month") else ""
        asked.append(path)
        first = reader.settled(path, Origin=ORIGIN)
        assert first.status == 200, f"{path}: {first.text}"
        assert first.getheader("Access-Control-Allow-Origin") in (ORIGIN, "*"), path
        preflight = reader.ask(path, "OPTIONS", Origin=ORIGIN, Access_Control_Request_Method="GET",
                               Access_Control_Request_Headers="authorization,if-none-match")
        assert preflight.status == 204 and preflight.getheader("Access-Control-Allow-Origin") in (ORIGIN, "*"), path
        assert "if-none-match" in preflight.getheader("Access-Control-Allow-Headers").lower(), path
        if path.endswith("/export"):
            assert first.getheader("Cache-Control") == "no-store"
            continue
        exposed = first.getheader("Access-Control-Expose-Headers").lower()
        assert "etag" in exposed and "x-sync-position" in exposed, path
        assert re.fullmatch(r".+:\d+", first.getheader("X-Sync-Position")), path
        # Statistics and next times go by the clock: they may change once.
        eventually(lambda: reader.settled(path, If_None_Match=reader.settled(path).getheader("ETag")).status == 304,
                   f"{path} is asked for again")
    assert len(asked) >= 14, asked


def test_a_query_has_a_time_budget(hub, user):
    """A query that takes too long ends in the database, and is told as passing. Others are answered meanwhile."""
    reader = Reader(hub, user)
    reader.json("stats")
    with hub.superuser() as connection:
        (found,), = connection.execute(
            "select pg_get_functiondef('sync.adherence_stats(text,date,date)'::regprocedure)").fetchall()
        connection.execute(
            "create or replace function sync.adherence_stats(who text, first_day date, last_day date)"
            " returns table(epoch text, top bigint, body text) language plpgsql stable security definer rows 1"
            " as $$ begin perform pg_sleep(60); end $$")
        try:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                begin = time.monotonic()
                slow = pool.submit(reader.ask, reader.path("stats"))
                eventually(lambda: connection.execute(
                    "select count(*) from pg_stat_activity where wait_event = 'PgSleep'").fetchone() == (1,), "it runs")
                assert Reader(hub, f"{user}-other").json("today")["occurrences"] == []
                answer = slow.result(timeout=PATIENCE)
                assert answer.status == 503 and int(answer.getheader("Retry-After")) > 0, answer.text
                assert time.monotonic() - begin < 20
            assert connection.execute(
                "select count(*) from pg_stat_activity where wait_event = 'PgSleep'").fetchone() == (0,)
        finally:
            connection.execute(found)
    reader.json("stats")


def test_feedback_is_kept_and_never_fails(hub, user):
    reader = Reader(hub, user)

    def kept():
        return hub.query("select type, event_id from care.feedback where user_id = %s order by id", [user])

    def send(body):
        return reader.ask("/feedback/adherence-event", "POST", body)

    assert send({"type": "tap", "id": "f1"}).status == 202
    assert send([{"type": "explode"}, {"type": "make-up", "id": "f2"}, {"type": "tap", "id": "f1"}]).status == 202
    eventually(lambda: len(kept()) == 2, "both events are kept")
    assert kept() == [("tap", "f1"), ("makeUp", "f2")]
    assert send("tap").status == 400 and send([]).status == 400
    assert reader.ask("/feedback/adherence-event").status == 405


#: Two years of a dose a day, a day of all users after the other: those of one user lie far apart.
TWO_YEARS = """
    set session_replication_role = replica;
    alter table care.dose_occurrence disable trigger user;
    insert into care.dose_occurrence (id, user_id, product_id, product_name, status, scheduled_at, tz, local_date,
                                      local_time, window_start, window_end)
    select d || '.' || u, 'user' || u, 'p', 'Magnesium',
           case when d = 0 then 'scheduled' when (d + u) % 12 = 0 then 'missed' when (d + u) % 100 = 1 then 'cancelled'
                else 'taken' end,
           t.at, 'UTC', t.at::date, '08:00', t.at, t.at + interval '4 hours'
    from generate_series(730, 0, -1) as d cross join generate_series(1, 100) as u
    cross join lateral (select (current_date - d) + time '08:00' at time zone 'UTC' as at) as t;
    insert into care.day_summary (user_id, date, scheduled_count, taken_count, missed_count, made_up_count,
                                  skipped_count, pending_count)
    select user_id, local_date, 1, 1, 0, 0, 0, 0 from care.dose_occurrence where product_id = 'p';
    alter table care.dose_occurrence enable trigger user;
    alter table care.dose_occurrence enable always trigger sync_insert;
    alter table care.dose_occurrence enable always trigger sync_update;
    alter table care.dose_occurrence enable always trigger sync_delete;
    analyze care.dose_occurrence, care.day_summary;
"""
QUERIES = {
    "today": "sync.adherence_day('user7', null)",
    "month": "sync.adherence_month('user7', date_trunc('month', current_date - 40)::date)",
    "stats": "sync.adherence_stats('user7', null, null)",
    "history": "sync.adherence_history('user7', null, null, null, null, null, 50)",
    "missed": "sync.adherence_history('user7', null, null, null, 'missed', null, 50)",
}


@pytest.fixture(scope="module")
def years():
    with Hub() as running:
        with running.superuser() as connection:
            connection.execute(TWO_YEARS)
        yield running


@pytest.mark.parametrize("name", QUERIES)
def test_plans_read_what_they_show(years, name, record_property):
    """The plans of the statements on doses and days within a query, as a hub runs it the third time."""
    call, told = f"select length(body) from {QUERIES[name]}", []
    with years.superuser() as connection:
        connection.execute("load 'auto_explain'")
        connection.execute("set default_transaction_isolation = 'repeatable read'")
        for _ in range(2):
            connection.execute(call)
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        for setting in ("min_duration = 0", "analyze = on", "timing = off", "nested_statements = on"):
            connection.execute(f"set auto_explain.log_{setting}")
        connection.execute("set client_min_messages = log")
        connection.execute(call)
        connection.execute("reset client_min_messages")
    # Of the tables alone, and each once: a month has one statement for each of its days.
    scans = []
    for plan in told:
        for line in plan.splitlines():
            line = re.sub(r"^[ >-]*|\(cost=[^)]*\) ", "", line)
            if re.search("Scan", line):
                scans.append([line])
            elif scans and re.search("Index Cond|Filter:|Removed", line):
                scans[-1].append(line)
    scans = [scan for scan in scans if re.search(r" on (dose_occurrence|day_summary) ", scan[0])]
    lines = list(dict.fromkeys("\n        ".join(scan) for scan in scans))
    assert lines
    record_property("report", "\n    ".join([name, *lines]))
    text = "\n".join(lines)
    assert not re.search("Seq Scan|Bitmap", text), text
    # What is read is what is shown: a page has 50 doses; one more says that there is a next page, and one more day ends
    # the sort of the last. A page by status walks the user's own doses: no index has the status.
    removed = sum(map(int, re.findall(r"Rows Removed by Filter: (\d+)", text)))
    assert removed < (731 if name == "missed" else 10), text
    assert max(map(int, re.findall(r"actual rows=(\d+)", text))) <= 52, text
