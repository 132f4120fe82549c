"""The sync page: its program, its other code and its commands, as a person types them."""

import datetime
import json
import pathlib
import re
import subprocess
import tempfile
import uuid

import pytest

from actions import Caller, add_dose, envelope, row
from device import Device
from hub import PROGRAM, Hub
from pages import ROOT, SYNC, Opened, at, code, html_of, with_pusher
from waiting import PATIENCE, eventually
from web import Browser

#: Each block of the page, and the test that runs it. A block that is new needs one.
BLOCKS = {
    "# The sync wire": ["sh: test_the_page_is_one_program", "typed: test_the_dose_of_the_first_lines_is_shown"],
    "## Connect": ["js: test_the_page_is_one_program"],
    "### Without pusher-js": ["json: test_any_websocket_client_will_do"],
    "## Resume": ["js: test_the_page_is_one_program"],
    "## Events without a WebSocket": [
        "sh: test_sse.test_the_pages_curl_shows_a_users_events", "typed: test_sse.test_the_pages_curl_shows_a_users_events",
        "js: test_sse.test_the_pages_scripts_run_in_a_browser"],
    "## Actions": ["js: test_the_page_is_one_program", "typed: test_the_page_is_one_program"],
    "### Actions by HTTP": [
        "sh: test_the_commands_of_actions_by_http", "json: test_a_queue_of_reminders_is_carried_out"],
    "### Resolve a conflict": ["json: test_a_conflict_is_resolved"],
    "## Snapshots": ["typed: test_a_snapshot_is_fetched_with_curl"],
    "### An example with medications": ["sh: test_the_example_with_medications"],
    "## Feedback": ["json: test_feedback_is_taken"],
    "## Pushes": ["typed: test_a_device_is_registered"],
}


@pytest.fixture
def user():
    """An id that no other test uses. The page's program writes it into the channel's name as it is."""
    return f"page-{uuid.uuid4()}"


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def checkout():
    """A folder like that of a person who has typed `make run`, with its hub."""
    with tempfile.TemporaryDirectory(prefix="judge-") as path:
        folder = pathlib.Path(path)
        folder.chmod(0o711)
        (folder / ".build/release").mkdir(parents=True)
        (folder / ".build/release/carillon").symlink_to(pathlib.Path(PROGRAM).resolve())
        (folder / "Sources").symlink_to(ROOT / "Sources")
        (folder / ".carillon").mkdir()
        with Hub(folder=folder / ".carillon") as hub:
            hub.wait_until_listening()
            yield folder, hub


def typed(place, script):
    """What a script prints, in the folder of the hub."""
    folder, hub = place
    text = script.replace("127.0.0.1:6001", f"127.0.0.1:{hub.port}")
    run = subprocess.run(["bash", "-euc", text], cwd=folder, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
    return run.stdout


def page_of(hub, user, folder, token=None):
    """The page that the first command makes, for that user."""
    shell, = re.findall(r"^```sh\n(.*?)^```", SYNC.read_text().split("\n## ")[0], re.S | re.M)
    shell = shell[:shell.index("} > doses.html")].replace("Sources/Values/Sync/README.md", str(SYNC)) + "} > doses.html\n"
    file = html_of(shell, folder, token or hub.token(user))
    text = at(hub, file.read_text())
    assert "userId = 'demo'" in text
    file.write_text(text.replace("userId = 'demo'", f"userId = {json.dumps(user)}"))
    return file


class Doses(Opened):
    """The page of doses, with what it shows."""

    def shown(self):
        text = super().shown()
        return {dose["id"]: dose for dose in json.loads(text)["occurrences"]} if text else {}

    def shows(self, dose, status):
        """`status`: None where the dose is not on the screen."""
        eventually(lambda: self.shown().get(dose, {}).get("status") == status, f"{dose} {status}; it shows {self.shown()}")

    def state(self):
        return self.type("({ position, fetching, date: today?.summary.date, queue: queue() })")

    def answers(self, key):
        """What the console says of an action's answers."""
        return [line.split()[1:] for line in self.printed() if line.startswith(key)]


def test_each_block_has_its_test():
    found, heading, previous = {}, None, ""
    lines = iter(SYNC.read_text().splitlines())
    for line in lines:
        if line.startswith("```"):
            found.setdefault(heading, []).append(line[3:])
            while next(lines) != "```":
                pass
            line = ""
        elif line.startswith("#"):
            heading = line
        elif line.startswith("    ") and not previous.strip():
            found.setdefault(heading, []).append("typed")
        previous = line if line.strip() or not previous.startswith("    ") else previous
    assert found == {name: [one.split(":")[0] for one in blocks] for name, blocks in BLOCKS.items()}
    for name in sum(BLOCKS.values(), []):
        place, _, test = name.split(": ")[1].rpartition(".")
        assert f"def {test}(" in (pathlib.Path(__file__).with_name(f"{place or 'test_sync_page'}.py")).read_text(), name


@with_pusher
def test_the_page_is_one_program(browser, hub, user, tmp_path, library):
    """It fetches a snapshot, applies events, and sends an action, twice in the same words."""
    lines, = re.findall(r"^    dose = .*\n(?:    .*\n)+", SYNC.read_text(), re.M)
    dose = add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(dose, "scheduled")
        for line in lines.splitlines():
            page.type(line.strip())
        key = page.type("action.key")
        eventually(lambda: page.answers(key) == [["applied"], ["applied", "again"]], "both answers")
        page.shows(dose, "taken")
        assert page.state()["queue"] == []
        hub.query("update care.dose_occurrence set status = 'skipped', taken_at = null where id = %s", [dose])
        page.shows(dose, "skipped")
        (offset,), = hub.query("select top from sync.stream where user_id = %s and topic = 'adherence'", [user])
        eventually(lambda: page.state()["position"]["offset"] == offset, "its position is that of the stream")
        assert page.state()["fetching"] == 1


@with_pusher
def test_it_shows_what_becomes_of_doses(browser, hub, user, tmp_path, library):
    """Cancelled, brought back, moved to another day and back again, deleted, and new ones: in the order of their times."""
    one, other = add_dose(hub, user), add_dose(hub, user)
    hub.query("update care.dose_occurrence set scheduled_at = scheduled_at - interval '1 minute' where id = %s", [other])
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(one, "scheduled")

        def change(what):
            hub.query(f"update care.dose_occurrence set {what} where id = %s", [one])

        change("status = 'cancelled'")
        page.shows(one, None)
        change("status = 'scheduled'")
        page.shows(one, "scheduled")
        change("local_date = local_date + 1")
        page.shows(one, None)
        change("local_date = local_date - 1")
        page.shows(one, "scheduled")
        assert list(page.shown()) == [other, one]
        hub.query("delete from care.dose_occurrence where id = %s", [one])
        page.shows(one, None)
        new = add_dose(hub, user)
        page.shows(new, "scheduled")
        page.shows(other, "scheduled")
        before = page.type("today.stats.bestStreakDays")
        hub.query("insert into care.dose_occurrence (user_id, product_id, scheduled_at, status, taken_at)"
                  " values (%s, 'zinc', now() - interval '3 days', 'taken', now() - interval '3 days')", [user])
        eventually(lambda: page.type("today.stats.bestStreakDays") == before + 1, "another day's dose counts in the streak")
        assert page.state()["fetching"] == 1


@with_pusher
def test_a_dose_of_another_of_the_users_days_stays_away(browser, hub, user, tmp_path, library):
    """It has today's date in its own zone, and the snapshot says that it is elsewhere."""
    one, other = add_dose(hub, user), add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(one, "scheduled")
        page.type(f"today.elsewhere = today.occurrences.filter((dose) => dose.id === '{one}');"
                  f" today.occurrences = today.occurrences.filter((dose) => dose.id !== '{one}'); store()")
        hub.query("update care.dose_occurrence set dose = '2' where id = %s", [one])
        hub.query("update care.dose_occurrence set status = 'skipped' where id = %s", [other])
        page.shows(other, "skipped")
        assert one not in page.shown()


@with_pusher
def test_it_keeps_what_was_done_offline(browser, hub, user, tmp_path, library):
    """A dose is taken without a network, and the page is closed. Later it is sent as it was, and once."""
    dose, second = add_dose(hub, user), add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(dose, "scheduled")
        assert not page.shown()[dose]["isWaiting"]
        page.type("pusher.disconnect()")
        take = "markTaken(today.occurrences.find((one) => one.id === '%s'))"
        action, later = page.type(take % dose), page.type(take % second)
        undo = page.type(f"act('undo', {{ targetKey: '{later['key']}' }})")
        assert page.state()["queue"] == [action, later, undo] and page.shown()[dose]["isWaiting"]
        assert row(hub, dose) == ("scheduled", None)
        page.page.reload()
        page.shows(dose, "taken")
        eventually(lambda: page.state()["queue"] == [], "all is sent")
        assert [page.answers(one["key"]) for one in (action, later, undo)] == [[["applied"]]] * 3
        page.shows(second, "scheduled")
        assert not page.shown()[dose]["isWaiting"]
        (taken_at,), = hub.query("select taken_at from care.dose_occurrence where id = %s", [dose])
        assert taken_at == datetime.datetime.fromisoformat(action["payload"]["takenAt"])

        # Its answer was lost: the dose is another one meanwhile, and the first answer does not put it back.
        hub.query("update care.dose_occurrence set status = 'skipped', taken_at = null where id = %s", [dose])
        page.shows(dose, "skipped")
        page.type(f"keep([{json.dumps(action)}]); pusher.disconnect(); pusher.connect()")
        eventually(lambda: page.answers(action["key"]) == [["applied"], ["applied", "again"]], "the first answer again")
        assert page.state()["queue"] == [] and page.shown()[dose]["status"] == "skipped"
        assert row(hub, dose) == ("skipped", None)


@with_pusher
def test_a_refused_action_leaves_the_queue(browser, hub, user, tmp_path, library):
    dose = add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(dose, "scheduled")
        page.type("pusher.disconnect()")
        refused = page.type("act('markTaken', { occurrenceId: 7 })")
        taken = page.type("markTaken(today.occurrences[0])")
        page.type("pusher.connect()")
        page.shows(dose, "taken")
        eventually(lambda: page.state()["queue"] == [], "nothing waits")
        assert page.answers(refused["key"])[0][0] == "rejected" and page.answers(taken["key"]) == [["applied"]]
        assert any(line.endswith(f"{refused['key']} rejected") for line in page.lines), "the user is told"


@with_pusher
def test_two_tabs_lose_nothing(browser, hub, user, tmp_path, library):
    one, other = add_dose(hub, user), add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(one, "scheduled")
        second = page.tab()
        eventually(lambda: second.evaluate("isSignedIn"), "the second tab is connected")
        take = "markTaken(today.occurrences.find((one) => one.id === '%s'))"
        page.type("pusher.disconnect()")
        page.type(take % one)
        second.evaluate("pusher.disconnect()")
        second.evaluate(take % other)
        assert len(page.state()["queue"]) == 2
        page.page.close()
        second.evaluate("pusher.connect()")
        for dose in (one, other):
            eventually(lambda: row(hub, dose) == ("taken", None), "what both tabs did is done")


@with_pusher
def test_a_queue_is_not_sent_as_another_user(browser, hub, user, tmp_path, library):
    dose = add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path, hub.token(f"{user}-other")), library) as page:
        eventually(lambda: page.type("pusher.connection.state") == "connected", "it is connected")
        page.type("pusher.bind('pusher:signin_success', () => console.log('signed in'))")
        page.type(f"markTaken({{ id: '{dose}', rev: 1 }})")
        page.type("pusher.disconnect(); pusher.connect()")
        eventually(lambda: "signed in" in page.printed(), "as another user")
        page.type("pusher.send_event('sync:backoff', {}); absence = null")
        eventually(lambda: page.type("absence !== null"), "the hub has read all that was sent before")
        assert len(page.state()["queue"]) == 1 and not any("retry" in line or "applied" in line for line in page.lines)


@with_pusher
def test_it_resumes_where_it_was(browser, hub, user, tmp_path, library):
    """A device that comes back with its position is sent what it has missed, and fetches nothing."""
    dose = add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(dose, "scheduled")
        page.page.goto("about:blank")
        hub.query("update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", [dose])
        page.page.goto(page.file.as_uri())
        page.shows(dose, "taken")
        assert page.state()["fetching"] == 0
        page.type("pusher.disconnect()")
        hub.query("update care.dose_occurrence set status = 'skipped', taken_at = null where id = %s", [dose])
        page.type("pusher.connect()")
        page.shows(dose, "skipped")
        assert "resumed: 2 events were missed" in page.printed() and page.state()["fetching"] == 0


@with_pusher
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_next_morning_shows_the_next_day(browser, hub, user, tmp_path, library, zone):
    """In the user's zone, whatever the browser's is: one of these is at another day than the hub."""
    hub.query("insert into care.user_settings (user_id, zone) values (%s, %s)", [user, zone])
    dose = add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.page.clock.install()
        page.page.reload()
        page.shows(dose, "scheduled")
        date = page.state()["date"]
        (today,), = hub.query("select (now() at time zone %s)::date::text", [zone])
        assert date == today
        fetched = page.state()["fetching"]
        page.page.clock.run_for(200_000)
        assert page.state()["fetching"] == fetched, "no day has ended"
        evening = "today.summary.date = '2000-01-01'; today.occurrences = [];"
        page.type(f"{evening} store()")
        page.page.clock.run_for(70_000)
        eventually(lambda: page.state()["date"] == date and dose in page.shown(), "midnight has passed over an open page")
        page.type(f"{evening} store()")
        page.page.reload()
        eventually(lambda: page.state()["date"] == date and dose in page.shown(), "the page is opened the next morning")


@with_pusher
def test_a_snapshot_that_fails_is_fetched_again(browser, hub, user, tmp_path, library):
    dose = add_dose(hub, user)
    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(dose, "scheduled")
        page.page.clock.install()
        page.type("localStorage.clear()")
        page.page.reload()
        failures = []
        page.page.route("**/adherence/today", lambda route: (failures.append(1), route.abort()))
        page.type("snapshot()")
        eventually(lambda: page.type("1") and failures, "there is no network")
        page.page.unroute("**/adherence/today")
        page.page.clock.run_for(6_000)
        page.shows(dose, "scheduled")


@with_pusher
def test_a_sign_in_that_fails_is_tried_again(browser, hub, user, tmp_path, library):
    """As while a hub starts, which cannot check tokens yet."""
    dose = add_dose(hub, user)
    failures = []

    def fail_once(route):
        failures.append(1)
        route.fulfill(status=503) if len(failures) == 1 else route.continue_()

    with Doses(browser, page_of(hub, user, tmp_path), library) as page:
        page.shows(dose, "scheduled")
        page.page.route("**/pusher/user-auth", fail_once)
        page.type("pusher.disconnect(); pusher.connect()")
        eventually(lambda: page.type("isSignedIn") and len(failures) > 1, "the second try signs in")
        hub.query("update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", [dose])
        page.shows(dose, "taken")


@with_pusher
def test_it_stays_away_as_it_is_told(browser, user, tmp_path, library):
    """When the hub has crashed, the page leaves by itself, comes back later, and continues."""
    with Hub() as hub:
        hub.wait_until_listening()
        dose = add_dose(hub, user)
        hub.listen = f"127.0.0.1:{hub.port}"
        with Doses(browser, page_of(hub, user, tmp_path), library) as page:
            page.shows(dose, "scheduled")
            eventually(lambda: page.type("absence?.minMs") == 1000, "it knows how long to stay away")
            page.type("pusher.connection.bind('state_change', ({ previous, current }) => console.log(previous, current))")
            hub.program.kill()
            eventually(lambda: "connected disconnected" in page.printed(), "it leaves by itself")
            hub.start()
            hub.query("update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", [dose])
            page.shows(dose, "taken")
            assert page.type("pusher.connection.state") == "connected" and page.state()["fetching"] == 1


def test_the_dose_of_the_first_lines_is_shown(checkout):
    top = SYNC.read_text().split("\n## ")[0]
    insert, = re.findall(r"^    psql .*\n(?:    .*\n)+", top, re.M)
    folder, hub = checkout
    for count in (1, 2):
        assert "INSERT 0 1" in typed(checkout, insert)
        found = hub.query("select count(*) from care.dose_occurrence where user_id = 'demo' and product_id = 'magnesium'"
                          " and scheduled_at between now() - interval '1 minute' and now()")
        assert found == [(count,)]


def test_any_websocket_client_will_do(hub, user):
    sign_in, subscribe, take = code(SYNC, "### Without pusher-js", "json")[0].splitlines()
    dose, key = add_dose(hub, user), str(uuid.uuid4())
    with Device(hub, query="?protocol=7") as device:
        assert "?protocol=7`" in SYNC.read_text()
        device.send_text(sign_in.replace("TOKEN", hub.token(user)))
        device.send_text(subscribe.replace("user.demo.", f"user.{user}."))
        device.subscribed(f"user.{user}.adherence")
        device.send_text(take.replace("a new UUID", key).replace("…", dose))
        result = device.wait_for_event("sync:result").data
        assert (result["key"], result["status"], result["result"]["status"]) == (key, "applied", "taken")
        assert device.authenticated().data["userId"] == user
        device.wait_for_event("occurrence.updated", f"user.{user}.adherence")


def test_the_commands_of_actions_by_http(checkout):
    block, = code(SYNC, "### Actions by HTTP", "sh")
    first, second = typed(checkout, block).splitlines()
    assert '"_sync":{"replayed":false,"status":"applied"' in first and '"status": "taken"' in first
    assert '"_sync":{"replayed":true,"status":"applied"' in second


def test_a_queue_of_reminders_is_carried_out(hub, user):
    block, = code(SYNC, "### Actions by HTTP", "json")
    for _ in range(2):
        answer = Caller(hub, user).post(block.encode(), "/sync/reminders")
        assert answer.status == 200 and [one["status"] for one in answer.body["results"]] == ["applied", "applied"]
    rule, = answer.body["items"]
    assert rule["time"] == "08:30" and answer.body["conflicts"] == []


def test_a_conflict_is_resolved(hub, user):
    block, = code(SYNC, "### Resolve a conflict", "json")
    dose, caller = add_dose(hub, user), Caller(hub, user)
    hub.query("update care.dose_occurrence set status = 'skipped' where id = %s", [dose])
    (rev,), = hub.query("select rev from care.dose_occurrence where id = %s", [dose])
    key = str(uuid.uuid4())
    answer = caller.post(envelope("markTaken", {"occurrenceId": dose}, key, base={"rev": rev - 1}))
    assert (answer.status, answer.body["code"]) == (409, "state")
    decision = json.loads(block.replace("KEY-OF-THE-ACTION", key))
    decision = {**decision, "key": str(uuid.uuid4()), "base": {"rev": answer.body["conflict"]["server"]["rev"]}}
    answer = caller.post(decision)
    assert (answer.status, answer.body["status"], row(hub, dose)[0]) == (200, "applied", "taken")


def test_a_snapshot_is_fetched_with_curl(checkout):
    command, = re.findall(r"^    curl -i .*\n(?:    .*\n)+", SYNC.read_text(), re.M)
    head, _, body = typed(checkout, command).replace("\r", "").partition("\n\n")
    assert " 200 " in head and "x-sync-position: " in head.lower() and "etag: " in head.lower()
    assert set(json.loads(body)) == {"occurrences", "summary", "stats", "elsewhere"}


def test_the_example_with_medications(checkout):
    block, = code(SYNC, "### An example with medications", "sh")
    lines = typed(checkout, block).splitlines()
    for line, status in zip(lines[2:], ["taken", "scheduled", "made_up"], strict=False):
        assert f'"status": "{status}"' in line and '"status":"applied"' in line
    assert '"currentStreakDays"' in lines[5] and "Ramipril" in (checkout[0] / "doses.csv").read_text()


def test_feedback_is_taken(hub, user):
    block, = code(SYNC, "## Feedback", "json")
    for _ in range(2):
        assert Caller(hub, user).post(block.encode(), "/feedback/adherence-event").status == 202
    kept = "select type, event_id from care.feedback where user_id = %s"
    eventually(lambda: hub.query(kept, [user]) == [("tap", "4b9f")], "the event is kept, once")


def test_a_device_is_registered(checkout, user):
    request, = re.findall(r"^    PUT (\S+)\n    ({.*})$", SYNC.read_text(), re.M)
    path = request[0].replace("{id}", user).replace("{deviceId}", "phone-1")
    body = request[1].replace('"…"', json.dumps("ab" * 32))
    folder, hub = checkout
    run = ["curl", "-sS", "-X", "PUT", "-H", f"Authorization: Bearer {hub.token(user)}",
           "-H", "Content-Type: application/json", "-d", body, "-w", "\n%{http_code}", f"http://127.0.0.1:{hub.port}{path}"]
    told = subprocess.run(run, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True).stdout
    assert told.endswith("\n200"), told
    assert hub.query("select device_id, platform, permission from care.device where user_id = %s", [user]) == [
        ("phone-1", "apns", "granted")]
