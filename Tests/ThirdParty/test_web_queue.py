"""The queue of the web client: what goes before what, what a person saw of it, and what several tabs know of it."""

import datetime

import pusher
import pytest

from actions import Caller, add_dose, plain
from hub import APP_KEY, APP_SECRET
from test_web_client import status
from test_web_tabs import one_leads, stored
from waiting import eventually
from web import Browser, agrees

#: Answers to actions do not come to the device.
SILENCE = """
    const { line } = client, hear = line.hear.bind(line);
    line.hear = (text) => { if (JSON.parse(text).event !== 'sync:result') hear(text); };"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def made(tab, kind, payload, value):
    """The id of a new thing, once the hub has confirmed it."""
    identity = tab.run("return (await client.act(given[0], given[1])).id", [kind, payload])
    tab.becomes(lambda: [one["isPending"] for one in tab.value(value)["items"]] == [False], "the hub has it")
    return identity


def leaves(phone, tab):
    phone.offline()
    tab.becomes(lambda: tab.get("connection") != "connected", "the device knows that it is offline")


def does(hub, user, kind, payload):
    """What another device of the user does."""
    answer = Caller(hub, user).settle(plain(kind, payload))
    assert answer.status == 200, answer


def conflicts(tab):
    return [(one["type"], one["code"]) for one in tab.get("conflicts")]


# What the person saw


def test_what_another_device_changed_between_two_own_changes_is_a_conflict(browser, hub, user):
    """Both own changes name the rule as the person saw it: the revision that the first one made has the other's change."""
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        rule = made(tab, "createReminder", {"productId": "zinc", "time": "08:00", "label": "a"}, "reminders")
        leaves(phone, tab)
        tab.act("updateReminder", {"id": rule, "label": "mine"})
        tab.act("updateReminder", {"id": rule, "time": "09:00"})
        does(hub, user, "updateReminder", {"id": rule, "time": "10:00"})
        phone.online()
        tab.becomes(lambda: conflicts(tab) == [("updateReminder", "field")], "the person is asked")
        told = hub.query("select label, time::text from care.reminder_rule where id = %s", [rule])
        assert told == [("mine", "10:00:00")]


def test_a_reminder_that_another_device_changed_is_not_deleted_unasked(browser, hub, user):
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        rule = made(tab, "createReminder", {"productId": "zinc", "time": "08:00"}, "reminders")
        leaves(phone, tab)
        tab.act("updateReminder", {"id": rule, "label": "mine"})
        tab.act("deleteReminder", {"id": rule})
        does(hub, user, "updateReminder", {"id": rule, "time": "10:00"})
        phone.online()
        tab.becomes(lambda: conflicts(tab) == [("deleteReminder", "state")], "the person is asked")
        assert hub.query("select count(*) from care.reminder_rule where id = %s", [rule]) == [(1,)]


def test_the_revision_of_a_day_is_not_that_of_its_rule(browser, hub, user):
    """Snoozed again and again, a day has a higher revision than its rule will have for long."""
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        rule = made(tab, "createReminder", {"productId": "zinc", "time": "08:00"}, "reminders")
        first = tab.value("reminders")["items"][0]["upcoming"][0]
        start = datetime.datetime.fromisoformat(first["start"])
        for minutes in (5, 10, 15):
            until = (start + datetime.timedelta(minutes=minutes)).isoformat()
            tab.act("snoozeReminder", {"occurrenceId": first["id"], "until": until})
            tab.becomes(lambda: tab.get("queueLength") == 0, "it is snoozed")
        tab.act("updateReminder", {"id": rule, "label": "mine"})
        tab.becomes(lambda: tab.get("queueLength") == 0, "it is answered")
        assert conflicts(tab) == [] and tab.get("failures") == []
        assert hub.query("select label from care.reminder_rule where id = %s", [rule]) == [("mine",)]


def test_a_confirmed_change_hides_no_conflict_of_the_next(browser, hub, user):
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        medication = made(tab, "createMedication", {"name": "Ramipril"}, "medications")
        leaves(phone, tab)
        does(hub, user, "updateMedication", {"id": medication, "name": "theirs"})
        tab.act("updateMedication", {"id": medication, "name": "mine"})
        phone.online()
        tab.becomes(lambda: conflicts(tab) == [("updateMedication", "state")], "the person is asked")
        assert hub.query("select name from care.product where id = %s", [medication]) == [("theirs",)]


def test_why_another_device_skipped_a_dose_is_known(browser, hub, user):
    """Neither events nor a day's answer tell it."""
    first, second = add_dose(hub, user), add_dose(hub, user)
    does(hub, user, "skip", {"occurrenceId": first, "reason": "nausea"})
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.becomes(lambda: tab.dose(first)["reason"] == "nausea", "the reason of a dose in the snapshot")
        does(hub, user, "skip", {"occurrenceId": second, "reason": "away"})
        tab.becomes(lambda: tab.dose(second)["reason"] == "away", "the reason of a dose in an event")


def test_all_doses_are_those_that_the_person_saw(browser, hub, user):
    """Criteria would mean another day when the hub hears of them, and no dose that was missed meanwhile."""
    first, second = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        tab.act("bulkMarkAll", {"criteria": {"productId": "zinc"}})
        tab.act("bulkMarkAll", {"criteria": {"productId": "nothing"}})
        third = add_dose(hub, user)
        hub.query("update care.dose_occurrence set status = 'missed' where id = %s", [first])
        phone.online()
        tab.becomes(lambda: tab.get("queueLength") == 0, "they are answered")
        named, of_a_day = [one["payload"] for one in tab.sent()]
        assert set(named) == {"occurrenceIds"} and set(named["occurrenceIds"]) == {first, second}
        today = tab.value("today")["date"]
        assert of_a_day == {"criteria": {"productId": "nothing", "date": today}}
        assert [status(hub, one) for one in (first, second, third)] == ["taken", "taken", "scheduled"]


# Order


def test_a_change_that_is_kept_goes_before_what_waited_behind_it(browser, hub, user):
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        medication = made(tab, "createMedication", {"name": "Ramipril"}, "medications")
        leaves(phone, tab)
        first = tab.act("updateMedication", {"id": medication, "name": "first"})
        tab.act("updateMedication", {"id": medication, "name": "second"})
        does(hub, user, "updateMedication", {"id": medication, "name": "theirs"})
        phone.online()
        tab.becomes(lambda: conflicts(tab), "the person is asked")
        tab.run("await client.resolve(given, 'keep_local')", first)
        shown = [one["name"] for one in tab.value("medications")["items"]]
        assert shown == ["second"], "what the person wrote last"
        tab.becomes(lambda: tab.get("queueLength") == 0, "both are answered")
        assert conflicts(tab) == []
        assert hub.query("select name from care.product where id = %s", [medication]) == [("second",)]


def test_what_waits_behind_a_conflict_makes_wait_in_turn(browser, hub, user):
    """The note is about a dose without a conflict. What was done to that dose before waits for the other one."""
    first, second = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        tab.act("markTaken", {"occurrenceId": first})
        both = tab.act("bulkMarkAll", {"occurrenceIds": [first, second]})
        note = tab.act("addNote", {"occurrenceId": second, "text": "after"})
        does(hub, user, "skip", {"occurrenceId": first})
        phone.online()
        tab.becomes(lambda: conflicts(tab) and tab.get("queueLength") == 0, "the person is asked")
        another = tab.act("addNote", {"occurrenceId": second, "text": "and again"})
        assert {both, note, another} & {key for key, _ in stored(hub, user)} == set()
        tab.run("await client.resolve(client.conflicts.value[0].key, 'accept_server')")
        tab.becomes(lambda: tab.get("queueLength") == 0, "they are sent")
        assert [key for key, _ in stored(hub, user) if key in (both, note, another)] == [both, note, another]


def test_a_conflict_of_one_of_several_parks_that_dose_only(browser, hub, user):
    """All doses are marked, and another device has changed two of them: the third is done, and those are asked about."""
    first, second, third = (add_dose(hub, user) for _ in range(3))
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        bulk = tab.act("bulkMarkAll", {"occurrenceIds": [first, second, third]})
        for dose in (first, third):
            tab.act("addNote", {"occurrenceId": dose, "text": "behind"})
        does(hub, user, "skip", {"occurrenceId": first})
        does(hub, user, "skip", {"occurrenceId": second})
        phone.online()
        tab.becomes(lambda: tab.get("conflicts") and tab.get("queueLength") == 0, "the person is asked")
        conflict, = tab.get("conflicts")
        assert (conflict["key"], conflict["code"]) == (bulk, "state") and tab.get("failures") == []
        told = [(one["occurrenceId"], one["conflict"]["server"]["status"]) for one in conflict["items"]]
        assert sorted(told) == sorted([(first, "skipped"), (second, "skipped")])
        tab.becomes(lambda: tab.dose(third)["note"] == "behind", "what is not in conflict goes on")
        assert status(hub, third) == "taken"
        flags = [tab.dose(one)["hasConflict"] for one in (first, second, third)]
        assert flags == [True, True, False] and tab.dose(first)["note"] is None
        # One of them changes once more: only about that one the person is asked again.
        leaves(phone, tab)
        tab.run("await client.resolve(given, 'keep_local')", bulk)
        assert tab.get("conflicts") == []
        does(hub, user, "undo", {"targetKey": last_key(hub, user, second)})
        phone.online()
        tab.becomes(lambda: tab.get("queueLength") == 0, "the decision is answered")
        tab.becomes(lambda: status(hub, first) == "taken", "the decision counts")
        again, = tab.get("conflicts")
        assert [one["occurrenceId"] for one in again["items"]] == [second]
        tab.run("await client.resolve(given, 'keep_local')", again["key"])
        agrees(tab, hub, user)
        eventually(lambda: tab.dose(first)["note"] == "behind", "what waited behind the conflict is sent")
        assert [status(hub, one) for one in (first, second, third)] == ["taken"] * 3
        assert tab.get("conflicts") == [] and tab.get("failures") == []


def test_several_of_which_one_conflicts_are_undone(browser, hub, user):
    first, second = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        bulk = tab.act("bulkMarkAll", {"occurrenceIds": [first, second]})
        does(hub, user, "skip", {"occurrenceId": first})
        phone.online()
        tab.becomes(lambda: tab.get("conflicts") and tab.get("queueLength") == 0, "the person is asked")
        tab.run("await client.undo(given)", bulk)
        assert tab.get("conflicts") == []
        agrees(tab, hub, user)
        assert [status(hub, one) for one in (first, second)] == ["skipped", "scheduled"]
        assert tab.get("conflicts") == [] and tab.get("failures") == []


def test_a_decision_goes_with_its_conflict(browser, hub, user):
    """Without a network the person decides, and then takes all back. The decision would be sent first, and carried out."""
    first, second = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        bulk = tab.act("bulkMarkAll", {"occurrenceIds": [first, second]})
        does(hub, user, "skip", {"occurrenceId": first})
        phone.online()
        tab.becomes(lambda: tab.get("conflicts") and tab.get("queueLength") == 0, "the person is asked")
        leaves(phone, tab)
        tab.run("await client.resolve(given, 'keep_local')", bulk)
        tab.run("await client.undo(given)", bulk)
        phone.online()
        agrees(tab, hub, user)
        assert [status(hub, one) for one in (first, second)] == ["skipped", "scheduled"]
        assert tab.get("conflicts") == [] and tab.get("failures") == []


def test_a_decision_under_way_is_taken_back_by_its_own_undo(browser, hub, user):
    first, second = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        bulk = tab.act("bulkMarkAll", {"occurrenceIds": [first, second]})
        does(hub, user, "skip", {"occurrenceId": first})
        phone.online()
        tab.becomes(lambda: tab.get("conflicts") and tab.get("queueLength") == 0, "the person is asked")
        tab.run(SILENCE)
        decision = tab.run("return (await client.resolve(given, 'keep_local')).key", bulk)
        eventually(lambda: status(hub, first) == "taken", "the hub has the decision")
        undone = "return client.undo(given).then(() => 'undone', (error) => error.code)"
        assert tab.run(undone, bulk) == "no_conflict"
        assert [tab.run(undone, one) for one in (decision, bulk)] == ["undone", "no_conflict"]
        leaves(phone, tab)
        tab.run("delete client.line.hear")
        phone.online()
        agrees(tab, hub, user)
        assert [status(hub, one) for one in (first, second)] == ["skipped", "taken"]


def test_a_refusal_beside_a_conflict_has_its_own_reason(browser, hub, user):
    """The answer's reason is that of the conflict, which is decided by then."""
    first, second, early = add_dose(hub, user), add_dose(hub, user), add_dose(hub, user, hours=30)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        leaves(phone, tab)
        bulk = tab.act("bulkMarkAll", {"occurrenceIds": [first, second, early]})
        does(hub, user, "skip", {"occurrenceId": first})
        phone.online()
        tab.becomes(lambda: tab.get("conflicts") and tab.get("queueLength") == 0, "the person is asked")
        assert conflicts(tab) == [("bulkMarkAll", "state")] and tab.get("failures") == []
        tab.run("await client.resolve(given, 'accept_server')", bulk)
        tab.becomes(lambda: tab.get("failures"), "what is refused is told")
        failed, = tab.get("failures")
        assert failed["code"] == "not_due"
        assert [one["occurrenceId"] for one in failed["items"]] == [early] and failed["conflict"] is None


def last_key(hub, user, dose):
    """The key of the last action that changed a dose."""
    return hub.query("select changed_key from care.dose_occurrence where id = %s", [dose])[0][0]


def test_an_undo_is_told_where_the_action_was_perhaps_sent(browser, hub, user):
    """The hub has it; its answer is lost, and so is the store. The new device has not sent it, and must take it back."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run(SILENCE)
        key = tab.act("markTaken", {"occurrenceId": dose})
        eventually(lambda: status(hub, dose) == "taken", "the hub has it")
        leaves(phone, tab)
        session = phone.context.new_cdp_session(tab.page)
        session.send("Storage.clearDataForOrigin", {"origin": browser.site.address, "storageTypes": "indexeddb"})
        tab.becomes(lambda: tab.get("storage").get("kept") == 1, "the action is queued again")
        assert tab.run("return (await client.undo(given)).key", key), "the undo is queued too"
        phone.online()
        agrees(tab, hub, user)
        assert status(hub, dose) == "scheduled"


# Tabs


def test_what_a_tab_did_when_it_ended_is_sent(browser, hub, user):
    """It was on disk, and nobody was told: the leading tab looks."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tabs = [phone.tab().settles(), phone.tab().settles()]
        leader = one_leads(tabs)
        other, = [tab for tab in tabs if tab is not leader]
        other.run("BroadcastChannel.prototype.postMessage = () => {}")
        other.act("markTaken", {"occurrenceId": dose})
        other.page.close()
        eventually(lambda: status(hub, dose) == "taken", "it is sent")
        agrees(leader, hub, user)


def test_a_new_leader_knows_what_other_tabs_watch(browser, hub, user):
    """The tab that led is gone, and with it what it was told. The next one replaces all that is stored by a snapshot."""
    add_dose(hub, user)
    month = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m")
    counted = "return globalThis.month.value?.reduce((sum, day) => sum + day.scheduledCount, 0) ?? 'none'"
    with browser.device(hub, user) as phone:
        first, second = phone.tab().settles(), phone.tab().settles()
        assert one_leads([first, second]) is first
        waiting = "return (await navigator.locks.query()).pending.length"
        second.becomes(lambda: second.run(waiting) > 0, "the second one waits for its turn, before there is a third")
        third = phone.tab().settles()
        third.run("globalThis.month = client.month(given)", month)
        third.becomes(lambda: third.run(counted) == 1, "the month is here")
        first.page.close()
        assert one_leads([second, third]) is second, "who has waited longest"
        second.settles()
        phone.offline()
        add_dose(hub, user)
        hub.query("delete from sync.event where user_id = %s", [user])
        phone.online()
        third.becomes(lambda: third.run(counted) == 2, "the month is here again")


def test_signing_out_ends_the_other_tabs_too(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tabs = [phone.tab().settles(), phone.tab().settles()]
        leaves(phone, tabs[0])
        tabs[0].act("markTaken", {"occurrenceId": dose})
        tabs[0].run("await client.signOut({ unsent: 'keep' })")
        tabs[1].becomes(lambda: tabs[1].get("storage")["state"] == "replaced", "the other tab is told")
        acted = "return client.act('skip', { occurrenceId: given }).then(() => 'kept', (error) => error.code)"
        assert tabs[1].run(acted, dose) == "closed"
        phone.online()
        again = phone.tab()
        agrees(again, hub, user)
        assert status(hub, dose) == "taken", "it is sent when the user is back"


def test_a_sign_out_that_was_cut_short_keeps_nobody_out(browser, hub, user):
    """The page ended between its mark and the deletion of the store."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run("""
            indexedDB.deleteDatabase = () => ({});
            const out = client.signOut();
            await new Promise((resolve) => { client.connection.subscribe((state) => state === 'closed' && resolve()); });""")
        tab.page.close()
        tab = phone.tab()
        tab.act("markTaken", {"occurrenceId": dose})
        agrees(tab, hub, user)
        assert status(hub, dose) == "taken"


# What the page does


def test_signing_out_does_not_wait_for_a_frozen_tab(browser, hub, user):
    """A tab that is frozen keeps the store open. Nothing of the user is in it, and the sign-out ends."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.act("addNote", {"occurrenceId": dose, "text": "private"})
        agrees(tab, hub, user)
        # As a frozen tab it does not hear that it has to close.
        frozen = phone.context.new_page()
        frozen.goto(f"{browser.site.address}/client/page.html")
        frozen.evaluate("""async (name) => {
            const opening = indexedDB.open(name);
            globalThis.held = await new Promise((resolve) => { opening.onsuccess = () => resolve(opening.result); });
        }""", tab.run("return client.name"))
        tab.run("await client.signOut()")
        left = frozen.evaluate("""async () => {
            const keys = (store) => new Promise((resolve) => {
                const all = held.transaction(store).objectStore(store).getAllKeys();
                all.onsuccess = () => resolve([store, all.result]);
            });
            return Object.fromEntries(await Promise.all([...held.objectStoreNames].map(keys)));
        }""")
        assert left == {"actions": [], "entities": [], "positions": [], "meta": ["isSignedOut"]}
        frozen.close()
        names = "return (await indexedDB.databases()).map((one) => one.name)"
        tab.becomes(lambda: tab.run(names) == [], "it goes with the tab")


def test_a_fault_of_the_page_is_not_the_clients(browser, hub, user):
    """What a listener throws must not look as if the action was not kept: the person would do it again."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run("""
            globalThis.told = [];
            client.today().subscribe(() => { throw new Error('of the page'); });
            client.today().subscribe((today) => told.push(today.occurrences[0].status));""")
        tab.act("markTaken", {"occurrenceId": dose})
        assert "taken" in tab.run("return told")
        agrees(tab, hub, user)
        assert len(stored(hub, user)) == 1 and tab.errors and set(tab.errors) == {"of the page"}


def test_a_zone_is_asked_about_once(browser, hub, user):
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        made(tab, "createMedication", {"name": "Ramipril"}, "medications")
        leaves(phone, tab)
        tab.run("client.options.deviceZone = () => 'Asia/Tokyo'; await client.act('createMedication', { name: 'B' })")
        assert tab.get("zoneChanged") == {"from": "UTC", "to": "Asia/Tokyo"}
        tab.run("await client.setZone('convert'); await client.act('createMedication', { name: 'C' })")
        assert tab.get("zoneChanged") is None, "the answer waits in the queue"


def test_a_full_disk_stays_full_until_there_is_room(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run("""
            globalThis.states = [];
            client.storage.subscribe((storage) => states.push(storage.state));
            globalThis.isFull = true;""")
        does(hub, user, "skip", {"occurrenceId": dose})
        tab.becomes(lambda: tab.run("return states.includes('full')"), "it is told")
        before = tab.run("return [refused, client.lastSyncAt.value]")
        tab.becomes(lambda: tab.run("return refused") > before[0] + 4, "the event is asked for again")
        assert tab.run("return [[...new Set(states)], client.lastSyncAt.value]") == [["full"], before[1]]
        tab.run("globalThis.isFull = false")
        agrees(tab, hub, user)
        tab.becomes(lambda: tab.get("storage")["state"] == "ok", "there is room again")


def test_data_of_other_channels_may_be_any_text(browser, hub, user):
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run("""
            globalThis.heard = [];
            const end = client.subscribe('news', () => {});
            end();
            client.subscribe('news', (event, data) => heard.push([event, data]));
            end();""")
        tab.becomes(lambda: tab.run("return heard.length"), "the channel is joined")
        backend = pusher.Pusher(app_id="1", key=APP_KEY, secret=APP_SECRET, host="127.0.0.1", port=hub.port, ssl=False)
        for data in ("hello", {"a": 1}, "null"):
            backend.trigger("news", "told", data)
        told = "return heard.filter(([event]) => event === 'told').map(([, data]) => data)"
        tab.becomes(lambda: len(tab.run(told)) == 3, "all are heard")
        assert tab.run(told) == ["hello", {"a": 1}, None]
