"""What the web client shows and says: equal values, a `Date`, a hub that has gone back, and stores that do not work."""

import datetime

import pytest

from actions import Caller, add_dose
from hub import APP_KEY
from test_web_client import status
from test_web_queue import leaves
from web import Browser, agrees


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def code(tab, script, argument=None):
    """The code of the error that a promise is rejected with."""
    said = ".then(() => 'none', (error) => error.code ?? error.name)"
    return tab.run(f"return (async () => {{ {script} }})(){said}", argument)


def test_equal_values_are_not_told(browser, hub, user):
    """Ten edits of medications change no dose, no month and no reminder."""
    add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run("return client.act('createReminder', {productId: 'p', time: '08:00', repeat: 'daily'})")
        tab.becomes(lambda: [one["isPending"] for one in (tab.value("reminders") or {"items": []})["items"]] == [False],
                    "the rule is confirmed")
        tab.run("globalThis.month = client.month(new Date().toISOString().slice(0, 7))")
        tab.becomes(lambda: tab.run("return month.value !== undefined"), "the month is here")
        tab.run("""
            globalThis.told = [];
            client.today().subscribe(() => told.push('today'));
            client.reminders().subscribe(() => told.push('reminders'));
            month.subscribe(() => told.push('month'));
            client.problem.subscribe(() => told.push('problem'));
            for (let n = 0; n < 10; n += 1) await client.act('createMedication', { name: `M${n}` });""")
        tab.becomes(lambda: [one["isPending"] for one in tab.value("medications")["items"]] == [False] * 10, "all are made")
        assert tab.run("return told") == []
        key = tab.act("createMedication", {"name": "last"})
        assert key and len(tab.value("medications")["items"]) == 11


def test_what_is_due_now_is_in_today_whatever_its_date(browser, hub, user):
    """A dose of a zone where it is another day: in the hub's list, in the client's, and taken by "take all"."""
    is_morning = datetime.datetime.now(datetime.timezone.utc).hour < 12
    zone, away = ("Etc/GMT+12", 24) if is_morning else ("Pacific/Kiritimati", -24)
    here, there = add_dose(hub, user, tz=zone), add_dose(hub, user, hours=away, tz=zone)
    body = Caller(hub, user).get("today").body
    assert [one["id"] for one in body["occurrences"]] == [here]
    assert [one["id"] for one in body["elsewhere"]] == [there]
    assert body["occurrences"][0]["localDate"] != body["summary"]["date"] == body["elsewhere"][0]["localDate"]
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        assert [one["id"] for one in tab.value("today")["occurrences"]] == [here]
        assert tab.value("today")["summary"]["scheduledCount"] == 1, "the date's own dose"
        tab.act("bulkMarkAll", {"criteria": {}})
        agrees(tab, hub, user)
        assert [one["status"] for one in tab.value("today")["occurrences"]] == ["taken"]
    assert status(hub, here) == "taken" != status(hub, there)


def test_a_date_is_a_time(browser, hub, user):
    """The prediction, what is shown, and what the hub has are those of the text."""
    first, second, third = (add_dose(hub, user) for _ in range(3))
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        predict = """
            const at = new Date(Date.now() - 60_000);
            const takenAt = given[1] === 'date' ? at : given[1] === 'text' ? at.toISOString() : at.getTime();
            const { prediction } = await client.act(given[2], given[2] === 'logDose'
              ? { productId: 'p', takenAt } : { occurrenceId: given[0], takenAt, note: undefined });
            return prediction && prediction.status;"""
        assert [tab.run(predict, [dose, kind, "markTaken"]) for dose, kind in (
            (first, "date"), (second, "text"), (third, "number"))] == ["applied"] * 3
        tab.run(predict, [first, "date", "logDose"])
        taken = [tab.dose(dose)["takenAt"] for dose in (first, second, third)]
        assert all(taken) and [tab.dose(dose)["status"] for dose in (first, second, third)] == ["taken"] * 3
        bad = "await client.act('markTaken', { occurrenceId: given, takenAt: new Date('no time') })"
        assert code(tab, bad, third) == "invalid"
        assert code(tab, "const payload = {}; payload.own = payload; await client.act('addNote', payload)") == "invalid"
        phone.online()
        agrees(tab, hub, user)
        assert status(hub, first) == "taken" and tab.dose(first)["takenAt"][:19] == taken[0][:19]


def test_a_hub_that_has_gone_back_leaves_nothing_pending(browser, hub, user):
    """As after a restore: the device's position, and what its answered actions wait for, are ahead of the hub."""
    dose, other = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.act("markTaken", {"occurrenceId": dose})
        tab.run("await client.act('createMedication', { name: 'A' })")
        agrees(tab, hub, user)
        name = tab.run("return client.name")
        tab.run("await client.close()")
        tab.run("""
            const wanted = (one) => new Promise((resolve, reject) => {
              one.onsuccess = () => resolve(one.result);
              one.onerror = () => reject(one.error);
            });
            const db = await wanted(indexedDB.open(given));
            const write = db.transaction(['positions', 'actions', 'meta'], 'readwrite');
            for (const row of await wanted(write.objectStore('positions').getAll())) {
              write.objectStore('positions').put({ ...row, offset: row.offset + 100 });
            }
            for (const row of await wanted(write.objectStore('actions').getAll())) {
              for (const told of Object.values(row.until ?? {})) told.offset += 100;
              write.objectStore('actions').put(row);
            }
            await new Promise((resolve) => { write.oncomplete = resolve; });
            db.close();""", name)
        tab.page.close()
        tab = phone.tab()
        agrees(tab, hub, user)
        tab.becomes(lambda: [one["isPending"] for one in tab.value("medications")["items"]] == [False], "the lists too")
        tab.act("skip", {"occurrenceId": other})
        agrees(tab, hub, user)


# Stores

OPTIONS = "{ hub: 'http://127.0.0.1:1', key: '%s', user: 'u', token: () => 'T' }" % APP_KEY


@pytest.fixture
def page(browser):
    context = browser.chromium.new_context()
    opened = context.new_page()
    opened.goto(f"{browser.site.address}/client/page.html")
    opened.wait_for_function("globalThis.pages")
    yield opened
    context.close()


def fails(page, script):
    return page.evaluate("""async (script) => {
        const Async = (async () => {}).constructor;
        try { await new Async(script)(); } catch (error) {
            return [error.constructor.name, error.code, globalThis.made?.storage.value.state];
        }
    }""", f"globalThis.made = new Carillon({OPTIONS}); {script}")


@pytest.mark.parametrize("script", [
    "await made.act('markTaken', { occurrenceId: 'd' })", "await made.undo('k')", "await made.resolve('k', 'keep_local')",
    "await made.dismiss('k')", "await made.signOut()", "made.deviceId"])
def test_before_start_it_says_so(page, script):
    assert fails(page, script) == ["CarillonError", "not_started", "opening"]


@pytest.mark.parametrize("broken", [
    "Object.defineProperty(globalThis, 'indexedDB', { value: undefined })",
    "Object.defineProperty(globalThis, 'indexedDB', { value: null })",
    "IDBFactory.prototype.open = () => { throw new DOMException('denied', 'SecurityError'); }",
    "IDBFactory.prototype.open = () => { throw new DOMException('a private window', 'InvalidStateError'); }",
])
def test_where_there_is_no_store_it_says_so(page, broken):
    page.evaluate(f"() => {{ {broken} }}")
    assert fails(page, "await made.start()") == ["CarillonError", "storage_unavailable", "unavailable"]
    assert fails(page, "await made.start().catch(() => {}); await made.act('x')")[:2] == ["CarillonError", "not_started"]


def test_a_page_without_https_is_told(page):
    page.evaluate("Object.defineProperty(globalThis, 'isSecureContext', { value: false })")
    assert fails(page, "await made.start()")[1] == "insecure"


def test_a_newer_store_is_refused_and_can_be_removed(page):
    newer = """async () => {
        const made = new Carillon(%s), opening = indexedDB.open(made.name, 99);
        await new Promise((resolve) => { opening.onsuccess = () => { opening.result.close(); resolve(); }; });
    }""" % OPTIONS
    page.evaluate(newer)
    assert fails(page, "await made.start()") == ["CarillonError", "newer_store", "unavailable"]
    assert fails(page, "await made.removeStore(); await made.start(); await made.removeStore()") is None
    assert page.evaluate("async () => (await indexedDB.databases()).length") == 0


#: As Chromium does on a disk without room: the transaction ends with the words of the disk, the connection closes, and it
#: opens no other one.
NO_ROOM = """
    const { transaction } = IDBDatabase.prototype, { open } = IDBFactory.prototype;
    const connections = new Set();
    globalThis.hasRoom = false;
    IDBFactory.prototype.open = function (...all) {
      const opening = open.apply(this, all);
      if (hasRoom) return opening;
      const refused = {};
      setTimeout(() => { refused.error = new DOMException('Internal error opening backing store', 'UnknownError');
        refused.onerror?.(); });
      opening.onsuccess = () => opening.result.close();
      return refused;
    };
    IDBDatabase.prototype.transaction = function (stores, mode, ...rest) {
      if (hasRoom || mode !== 'readwrite') return transaction.call(this, stores, mode, ...rest);
      if (connections.has(this)) throw new DOMException('The database connection is closing.', 'InvalidStateError');
      connections.add(this);
      setTimeout(() => this.dispatchEvent(new Event('close')), 20);
      throw new DOMException('Connection is closing because of: IO error: FILE_ERROR_NO_SPACE', 'UnknownError');
    };"""


def test_a_disk_without_room_is_full_until_it_has_some(browser, hub, user):
    dose, other = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        kept = tab.act("skip", {"occurrenceId": other})
        device = tab.run("return client.deviceId")
        tab.run(NO_ROOM)
        taking = "await client.act('markTaken', { occurrenceId: given })"
        assert [code(tab, taking, dose) for _ in range(2)] == ["storage_full"] * 2
        tab.run("await new Promise((resolve) => setTimeout(resolve, 40))")
        assert code(tab, taking, dose) == "storage_full" and tab.get("storage")["state"] == "full"
        assert tab.dose(dose)["status"] == "scheduled" and tab.dose(other)["status"] == "skipped"
        assert tab.get("queueLength") == 1
        tab.run("globalThis.hasRoom = true")
        tab.becomes(lambda: tab.get("storage")["state"] == "ok", "there is room again")
        assert code(tab, taking, dose) == "none" and tab.run("return client.deviceId") == device
        phone.online()
        agrees(tab, hub, user)
        assert (status(hub, dose), status(hub, other)) == ("taken", "skipped")
        assert kept in [one["key"] for one in tab.sent()] and tab.errors == []


def test_no_answer_stays_in_the_browsers_cache(browser, hub, user):
    """After a sign-out nothing of the user is on the disk: what a browser keeps of answers, no page can delete."""
    add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run("globalThis.paths = ['adherence/today', 'reminders', 'medications'];"
                "for (const path of paths) await client.api.get(path);")
        cached = """
            const { hub, user } = client.api;
            return Promise.all(paths.map((path) => fetch(`${hub}/users/${encodeURIComponent(user)}/${path}`, {
              headers: { Authorization: `Bearer ${globalThis.token}` }, cache: 'force-cache', mode: 'cors',
            }).then((answer) => answer.status, () => 'none')))"""
        leaves(phone, tab)
        assert tab.run(cached) == ["none"] * 3
        tab.run("await client.signOut()")
        assert tab.run(cached) == ["none"] * 3
