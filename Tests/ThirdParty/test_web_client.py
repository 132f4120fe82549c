"""The web client in headless Chromium: two devices of one person, without a network and back, through all faults."""

import datetime
import os
import time

import pytest

from actions import Caller, add_dose, plain
from hub import Hub
from waiting import eventually
from web import Browser, agrees, shown_rows, today_rows


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def status(hub, dose):
    return hub.query("select status from care.dose_occurrence where id = %s", [dose])[0][0]


def keys(hub, user):
    return [key for key, in hub.query("select key from sync.action where user_id = %s order by created_at", [user])]


def test_a_dose_is_taken_on_one_device_and_seen_on_the_other(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone, browser.device(hub, user) as tablet:
        one, other = phone.tab().settles(), tablet.tab().settles()
        key = one.act("markTaken", {"occurrenceId": dose, "note": "with water"})
        # At once; the hub may have confirmed it already.
        assert one.dose(dose)["status"] == "taken"
        agrees(one, hub, user)
        agrees(other, hub, user)
        assert other.value("today")["summary"]["takenCount"] == 1
        assert keys(hub, user) == [key] and one.get("lastSyncAt") and one.errors == other.errors == []
        # Back again, from the other device.
        other.act("undo", {"targetKey": key})
        agrees(other, hub, user)
        agrees(one, hub, user)
        assert one.dose(dose)["status"] == "scheduled" and one.dose(dose)["note"] is None


def test_without_a_network_and_back(browser, hub, user):
    first, second, third = (add_dose(hub, user) for _ in range(3))
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        taken = tab.act("markTaken", {"occurrenceId": first})
        assert tab.dose(first)["status"] == "taken" and tab.dose(first)["isPending"]
        tab.act("skip", {"occurrenceId": second, "reason": "nausea"})
        tab.act("addNote", {"occurrenceId": third, "text": "later"})
        # Another tab of the device, opened without a network, shows the same.
        tab.page.close()
        tab = phone.tab()
        assert [tab.dose(one)["status"] for one in (first, second, third)] == ["taken", "skipped", "scheduled"]
        assert tab.get("queueLength") == 3 and tab.dose(third)["note"] == "later"
        Caller(hub, user).settle(plain("skip", {"occurrenceId": third}))
        phone.online()
        agrees(tab, hub, user)
        assert (status(hub, first), status(hub, second), status(hub, third)) == ("taken", "skipped", "skipped")
        assert taken in keys(hub, user) and tab.get("conflicts") == []
        numbers = [n for n, in hub.query("select n from sync.action where user_id = %s and n > 0 order by n", [user])]
        assert numbers == [1, 2, 3]


def test_a_browser_that_says_offline_is_believed_when_the_hub_is_silent(browser, hub, user):
    """As in a plane: the socket is open and brings nothing. By the ping alone it would be two minutes until that is told."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        # First the browser is wrong.
        tab.run("""
            globalThis.told = [];
            client.connection.subscribe((state) => told.push(state));
            const { line } = client, { hear } = line;
            line.hear = (text) => { hear.call(line, text); if (text.includes('pusher:pong')) told.push('pong'); };
            dispatchEvent(new Event('offline'));""")
        tab.becomes(lambda: tab.run("return told") == ["pong"], "the hub answers, and the connection stays")
        phone.context.set_offline(True)
        tab.becomes(lambda: tab.get("connection") != "connected", "the device tells that it is offline")
        tab.act("markTaken", {"occurrenceId": dose})
        assert tab.get("queueLength") == 1 and status(hub, dose) == "scheduled"
        phone.context.set_offline(False)
        agrees(tab, hub, user)
        assert status(hub, dose) == "taken"


def test_a_list_for_a_person_is_told_only_when_it_changes(browser, hub, user):
    """A page asks a person at each new list of conflicts: not again because a dose somewhere has changed."""
    first, second = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run("globalThis.told = []; client.conflicts.subscribe((all) => told.push(all.length))")
        phone.offline()
        tab.act("skip", {"occurrenceId": first})
        Caller(hub, user).settle(plain("markTaken", {"occurrenceId": first}))
        phone.online()
        tab.becomes(lambda: tab.run("return told") == [1], "the conflict is told")
        tab.act("markTaken", {"occurrenceId": second})
        tab.becomes(lambda: tab.get("queueLength") == 0, "another action is sent")
        assert tab.run("return told") == [1]
        tab.run("await client.resolve(client.conflicts.value[0].key, 'accept_server')")
        agrees(tab, hub, user)
        assert tab.run("return told") == [1, 0]


def test_an_unsent_action_and_its_undo_cancel_out(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        # What it acts before it knows of that may be sent already.
        tab.becomes(lambda: tab.get("connection") != "connected", "the device knows that it is offline")
        key = tab.act("markTaken", {"occurrenceId": dose})
        tab.run("await client.undo(given)", key)
        assert tab.get("queueLength") == 0 and tab.dose(dose)["status"] == "scheduled"
        phone.online()
        tab.settles()
        assert keys(hub, user) == [] and tab.sent() == []


def test_a_conflict_parks_its_entity_only(browser, hub, user):
    dose, other = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        mine = tab.act("markTaken", {"occurrenceId": dose})
        note = tab.act("addNote", {"occurrenceId": dose, "text": "after"})
        tab.act("skip", {"occurrenceId": other})
        assert Caller(hub, user).settle(plain("skip", {"occurrenceId": dose})).status == 200
        phone.online()
        tab.becomes(lambda: tab.get("conflicts") and tab.get("queueLength") == 0, "the conflict is told")
        conflict, = tab.get("conflicts")
        assert (conflict["key"], conflict["code"], conflict["conflict"]["server"]["status"]) == (mine, "state", "skipped")
        assert status(hub, other) == "skipped" and note not in keys(hub, user)
        assert tab.dose(dose)["status"] == "skipped" and tab.dose(dose)["hasConflict"]
        tab.run("await client.resolve(given, 'keep_local')", mine)
        assert tab.dose(dose)["status"] == "taken"
        agrees(tab, hub, user)
        eventually(lambda: note in keys(hub, user), "what waited behind the conflict is sent")
        agrees(tab, hub, user)
        assert status(hub, dose) == "taken" and tab.dose(dose)["note"] == "after" and tab.get("conflicts") == []


HOLD = """
    const { line } = client, hear = line.hear.bind(line), held = [];
    line.hear = (text) => { if (JSON.parse(text).channel) held.push(text); else hear(text); };
    globalThis.release = () => { delete line.hear; held.forEach(hear); };"""


def test_what_a_person_keeps_is_shown_until_its_event_is_here(browser, hub, user):
    keeps_and_waits(browser, hub, user, "client")


def keeps_and_waits(browser, hub, user, variant):
    """The answer to a decision comes before its event: there is no moment in which the hub's old value is shown."""
    dose = add_dose(hub, user)
    with browser.device(hub, user, variant=variant) as phone:
        tab = phone.tab().settles()
        phone.offline()
        mine = tab.act("markTaken", {"occurrenceId": dose})
        assert Caller(hub, user).settle(plain("skip", {"occurrenceId": dose})).status == 200
        phone.online()
        tab.becomes(lambda: tab.get("conflicts") and tab.get("queueLength") == 0, "the conflict is told")
        tab.becomes(lambda: tab.dose(dose)["status"] == "skipped", "and what the other device did")
        tab.run(HOLD)
        tab.run("await client.resolve(given, 'keep_local')", mine)
        assert tab.dose(dose)["status"] == "taken" and tab.get("conflicts") == []
        tab.becomes(lambda: tab.get("queueLength") == 0, "the decision is answered")
        assert tab.dose(dose)["status"] == "taken" and status(hub, dose) == "taken"
        tab.run("globalThis.release()")
        agrees(tab, hub, user)


def test_a_decision_that_is_taken_back_decides_nothing(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        mine = tab.act("markTaken", {"occurrenceId": dose})
        assert Caller(hub, user).settle(plain("skip", {"occurrenceId": dose})).status == 200
        phone.online()
        tab.becomes(lambda: tab.get("conflicts") and tab.get("queueLength") == 0, "the conflict is told")
        phone.offline()
        tab.becomes(lambda: tab.get("connection") != "connected", "the device knows that it is offline")
        decision = tab.run("return (await client.resolve(given, 'keep_local')).key", mine)
        assert tab.get("conflicts") == []
        tab.run("await client.undo(given)", decision)
        assert [one["key"] for one in tab.get("conflicts")] == [mine] and tab.dose(dose)["status"] == "skipped"
        tab.run("await client.resolve(given, 'accept_server')", mine)
        phone.online()
        agrees(tab, hub, user)
        assert status(hub, dose) == "skipped" and tab.get("conflicts") == []


def test_own_actions_never_conflict_with_each_other(browser, hub, user):
    takes_twice(browser, hub, user, "client")


def takes_twice(browser, hub, user, variant):
    """Taken; then taken back and taken again without a network."""
    dose = add_dose(hub, user)
    with browser.device(hub, user, variant=variant) as phone:
        tab = phone.tab().settles()
        key = tab.act("markTaken", {"occurrenceId": dose})
        agrees(tab, hub, user)
        phone.offline()
        tab.run("await client.undo(given)", key)
        assert tab.dose(dose)["status"] == "scheduled"
        tab.act("markTaken", {"occurrenceId": dose})
        assert tab.dose(dose)["status"] == "taken"
        phone.online()
        agrees(tab, hub, user)
        assert status(hub, dose) == "taken" and tab.get("conflicts") == []


def test_what_the_hub_refuses_is_shown(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        key = tab.act("undo", {"targetKey": "nothing"})
        tab.becomes(lambda: tab.get("failures"), "the refusal is shown")
        refused, = tab.get("failures")
        assert (refused["key"], refused["code"], refused["path"]) == (key, "invalid", "payload.targetKey")
        tab.act("markTaken", {"occurrenceId": dose})
        agrees(tab, hub, user)
        tab.run("await client.dismiss(given)", key)
        assert tab.get("failures") == [] and status(hub, dose) == "taken"


def test_a_device_that_was_forgotten_numbers_anew(browser, hub, user):
    first, second = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.act("markTaken", {"occurrenceId": first})
        agrees(tab, hub, user)
        hub.query("delete from sync.device where user_id = %s", [user])
        key = tab.act("markTaken", {"occurrenceId": second})
        agrees(tab, hub, user)
        assert key in keys(hub, user) and [one["n"] for one in tab.sent() if one["key"] == key] == [2, 1]


def test_a_locked_account_drops_nothing_that_is_shown(browser, hub, user):
    behind_a_lock(browser, hub, user, "client")


def behind_a_lock(browser, hub, user, variant):
    dose = add_dose(hub, user)
    with browser.device(hub, user, variant=variant) as phone:
        tab = phone.tab().settles()
        with hub.database(autocommit=False) as writer:
            writer.execute("select from care.dose_occurrence where id = %s for update", [dose])
            key = tab.act("markTaken", {"occurrenceId": dose})
            tab.becomes(lambda: len(tab.sent()) > 1, "the action is sent again")
            assert tab.dose(dose)["status"] == "taken", "the person still sees what waits"
            assert {one["key"] for one in tab.sent()} == {key}
        agrees(tab, hub, user)
        assert status(hub, dose) == "taken"


def test_time_is_folded_over_what_the_hub_said(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        tab.page.close()
        tab = phone.tab()
        assert tab.dose(dose)["status"] == "scheduled"
        # Its window ends after an hour, and the grace half an hour later.
        shown = tab.run("""
            const ahead = 91 * 60_000, now = Date.now;
            client.now = () => now() + ahead;
            await client.act('addNote', { occurrenceId: given, text: 'late' });
            return client.today().value?.occurrences.find((dose) => dose.id === given)?.status ?? 'of another day'""", dose)
        assert shown in ("missed", "of another day")


def test_a_whole_object_says_what_the_person_saw(browser, hub, user):
    """What another device changed between the look and the tap, the person has not seen, though the page has it."""
    with browser.device(hub, user) as phone, browser.device(hub, user) as tablet:
        one, other = phone.tab().settles(), tablet.tab().settles()
        made = one.run("return await client.act('createMedication', {name: 'Iron'})")["id"]
        one.act("createReminder", {"productId": made, "time": "08:00", "repeat": "daily", "label": "Iron"})

        def shown(tab):
            rules, entries = ((tab.value(name) or {"items": []})["items"] for name in ("reminders", "medications"))
            return [(each["time"], each["isPending"]) for each in rules] + [
                (each["name"], each["isPending"]) for each in entries]

        for tab in (one, other):
            tab.becomes(lambda: shown(tab) == [("08:00", False), ("Iron", False)], "both are confirmed")
        (rule,), (entry,) = one.value("reminders")["items"], one.value("medications")["items"]
        other.act("updateReminder", {"id": rule["id"], "time": "10:00"})
        other.act("updateMedication", {"id": made, "name": "Zinc"})
        one.becomes(lambda: shown(one) == [("10:00", False), ("Zinc", False)], "the other device's changes are here")
        stale = [one.act("updateReminder", {**rule, "time": "09:00"}),
                 one.act("updateMedication", {**entry, "name": "Copper"})]
        one.becomes(lambda: [each["key"] for each in one.get("conflicts")] == stale, "both are conflicts")
        for key in stale:
            one.run("await client.resolve(given, 'accept_server')", key)
        one.becomes(lambda: shown(one) == [("10:00", False), ("Zinc", False)], "the person takes what is there")
        one.act("updateReminder", {**rule, "label": "Mine"})
        one.becomes(lambda: one.value("reminders")["items"][0]["label"] == "Mine" and shown(one)[0] == ("10:00", False),
                    "what was only sent along is no wish")


def test_a_decision_about_an_occurrence_is_overwritten_by_nobody_who_has_not_seen_it(browser, hub, user):
    """By its rule and day, and by its id; also where it was as its rule says."""
    with browser.device(hub, user) as phone, browser.device(hub, user) as tablet:
        one, other = phone.tab().settles(), tablet.tab().settles()
        rule = one.run(
            "return await client.act('createReminder', {productId: 'zinc', time: '23:59', repeat: 'daily'})")["id"]

        def rules(tab):
            return [each["isPending"] for each in (tab.value("reminders") or {"items": []})["items"]]

        def days(tab):
            shown = tab.value("reminders")["occurrences"]
            return sorted((each["date"], each["status"], each["movedTo"]) for each in shown if not each["isPending"])

        for tab in (one, other):
            tab.becomes(lambda: rules(tab) == [False], "the rule is confirmed")
        upcoming = one.value("reminders")["items"][0]["upcoming"]
        first, second = (each["start"][:10] for each in upcoming[1:3])
        phone.offline()
        one.act("setReminderOccurrence", {"id": rule, "date": first, "movedTo": f"{first}T22:00"})
        one.act("setReminderOccurrence", {"occurrenceId": upcoming[2]["id"], "movedTo": f"{second}T22:00"})
        for day in (first, second):
            other.act("setReminderOccurrence", {"id": rule, "date": day, "enabled": False})
        told = [(first, "cancelled", None), (second, "cancelled", None)]
        other.becomes(lambda: days(other) == told, "the tablet's decisions stand")
        phone.online()
        one.becomes(lambda: len(one.get("conflicts")) >= 1, "the phone asks")
        for _ in range(2):
            one.becomes(lambda: len(one.get("conflicts")) == 1, "one after the other, for both are of one rule")
            conflict, = one.get("conflicts")
            one.run("await client.resolve(given, 'accept_server')", conflict["key"])
            one.becomes(lambda: all(each["key"] != conflict["key"] for each in one.get("conflicts")), "it is decided")
        for tab in (one, other):
            tab.becomes(lambda: days(tab) == told, "nothing of them is lost")
        one.act("setReminderOccurrence", {"id": rule, "date": first, "enabled": True})
        other.becomes(lambda: days(other)[0][1] == "scheduled", "who has seen it may bring it back")


def test_reminders_and_medications(browser, hub, user):
    with browser.device(hub, user) as phone, browser.device(hub, user) as tablet:
        one, other = phone.tab().settles(), tablet.tab().settles()
        phone.offline()
        made = one.run(
            "return await client.act('createMedication', {name: 'Ramipril', times: ['08:00'], frequency: 'daily'})")
        rule = one.run(
            "return await client.act('createReminder', {productId: given, time: '08:30', repeat: 'daily'})", made["id"])
        one.act("updateReminder", {"id": rule["id"], "time": "09:00"})
        # Sent back whole: its rev is from before an own action, and is not told.
        whole, = one.value("medications")["items"]
        one.act("updateMedication", {**whole, "name": "Ramipril 5"})
        shown, = one.value("reminders")["items"]
        assert shown["time"] == "09:00" and shown["isPending"] and len(shown["nextOccurrences"]) == 10
        assert [item["name"] for item in one.value("medications")["items"]] == ["Ramipril 5"]
        phone.online()
        one.settles()
        for tab in (one, other):
            tab.becomes(lambda: [(item["time"], item["isPending"]) for item in tab.value("reminders")["items"]]
                        == [("09:00", False)], "the reminder is there")
            tab.becomes(
                lambda: [item["name"] for item in tab.value("medications")["items"]] == ["Ramipril 5"],
                "and its medication")
        other.act("deleteReminder", {"id": rule["id"]})
        one.becomes(lambda: one.value("reminders")["items"] == [], "the reminder is gone")


def test_a_month_and_other_channels(browser, hub, user):
    add_dose(hub, user)
    month = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m")
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run("globalThis.month = client.month(given)", month)
        tab.becomes(lambda: tab.run("return globalThis.month.value !== undefined"), "the month is here")
        days = tab.run("return globalThis.month.value")
        assert sum(day["scheduledCount"] for day in days) == 1 and len(days) >= 28
        tab.run("globalThis.heard = []; client.subscribe('news', (event, data) => globalThis.heard.push([event, data]))")
        tab.becomes(lambda: tab.run("return globalThis.heard.length"), "the channel is joined")
        assert tab.run("return globalThis.heard[0][0]") == "pusher:subscription_succeeded"


def test_a_token_that_is_refused_and_one_that_is_not(browser, hub, user):
    with browser.device(hub, user) as phone:
        tab = phone.tab(token="wrong")
        tab.becomes(lambda: (tab.get("problem") or {}).get("code") == "unauthorized", "the refusal is told")
        tab.run("globalThis.token = given", hub.token(user))
        tab.settles()
        assert tab.get("problem") is None


def test_signing_out_asks(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        tab.act("markTaken", {"occurrenceId": dose})
        ask = "return await client.signOut(given).then(() => 'out', (error) => error.code)"
        assert tab.run(ask, {}) == "unsent_actions" and tab.dose(dose)["status"] == "taken"
        names = "return (await indexedDB.databases()).map((one) => one.name)"
        assert tab.run(ask, {"unsent": "discard"}) == "out" and tab.run(names) == []


def test_a_wipe_loses_no_action(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        key = tab.act("markTaken", {"occurrenceId": dose})
        device = tab.run("return client.deviceId")
        session = phone.context.new_cdp_session(tab.page)
        session.send("Storage.clearDataForOrigin", {"origin": browser.site.address, "storageTypes": "indexeddb"})
        tab.becomes(lambda: tab.get("storage").get("kept") == 1, "the wipe is told, and what was kept")
        assert tab.get("storage")["state"] == "wiped" and tab.run("return client.deviceId") != device
        phone.online()
        agrees(tab, hub, user)
        assert keys(hub, user) == [key]


def test_a_full_disk_is_told_and_takes_nothing(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        refused = tab.run("""
            globalThis.isFull = true;
            return client.act('markTaken', { occurrenceId: given }).then(() => 'kept', (error) => error.code)""", dose)
        assert refused == "storage_full" and tab.get("storage")["state"] == "full"
        assert tab.dose(dose)["status"] == "scheduled" and tab.get("queueLength") == 0
        Caller(hub, user).settle(plain("skip", {"occurrenceId": dose}))
        tab.run("globalThis.isFull = false")
        agrees(tab, hub, user)
        tab.becomes(lambda: tab.get("storage")["state"] == "ok", "there is room again")


def test_a_restored_database_needs_a_snapshot(browser, hub, user):
    """A position that the hub's log does not know: the whole state is fetched, and nothing of the old one stays."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        tab.page.close()
        hub.query("update care.dose_occurrence set status = 'skipped' where id = %s", [dose])
        hub.query("delete from sync.event where user_id = %s", [user])
        phone.online()
        tab = phone.tab()
        agrees(tab, hub, user)
        assert shown_rows(tab) == today_rows(hub, user)


def test_a_month_of_actions_drains(browser, record_property):
    """Actions that waited, against a hub that allows them at once; WEB_ACTIONS=3000 is the whole month."""
    count = int(os.environ.get("WEB_ACTIONS", "100"))
    with Hub("--limits-actions-per-second", "0", "--limits-messages-per-second", "0") as hub:
        hub.wait_until_listening()
        doses = [identity for identity, in hub.query(
            "insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
            " select 'away', 'zinc', now(), now() + interval '1 hour' from generate_series(1, 100) returning id")]
        with browser.device(hub, "away") as phone:
            tab = phone.tab().settles()
            phone.offline()
            tab.run("""
                for (let number = 0; number < given.count; number += 1) {
                    const occurrenceId = given.doses[number % given.doses.length];
                    await client.act('addNote', { occurrenceId, text: `note ${number}` });
                }""", {"doses": doses, "count": count})
            tab.page.close()
            tab = phone.tab()
            assert tab.get("queueLength") == count and len(tab.value("today")["occurrences"]) == 100
            read, size = tab.run("""
                const begin = performance.now();
                for (let number = 0; number < 1000; number += 1) client.today().get();
                return [(performance.now() - begin) / 1000, (await navigator.storage.estimate()).usage]""")
            begin = time.monotonic()
            phone.online()
            tab.becomes(lambda: tab.get("queueLength") == 0, "the queue is empty")
            took = time.monotonic() - begin
            assert hub.query("select count(*) from care.dose_note")[0][0] == count
            agrees(tab, hub, "away")
            report = f"{count} actions: {took:.1f} s, a read {read:.5f} ms, the store {size / 1e6:.1f} MB"
            record_property("report", report)
            assert read < 1 and size < 10e6
