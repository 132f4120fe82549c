"""The web client where several tabs share one device, where a page is killed, and over an object like pusher-js."""

import os

import pytest
from playwright.sync_api import Error

from actions import Caller, add_dose, plain
from waiting import eventually
from web import Browser, agrees, shown_rows, today_rows

#: A page is killed after each so many writes and sends; WEB_STEPS=1 is after every one.
STRIDE = int(os.environ.get("WEB_STEPS", "5"))


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def leaders(tabs):
    return [tab for tab in tabs if tab.get("isLeader")]


def one_leads(tabs):
    eventually(lambda: len(leaders(tabs)) == 1, "one tab leads")
    return leaders(tabs)[0]


def stored(hub, user):
    return hub.query("select key, n from sync.action where user_id = %s order by created_at", [user])


def notes(hub, user):
    return [text for text, in hub.query("select text from care.dose_note where user_id = %s", [user])]


def test_three_tabs_are_one_device(browser, hub, user):
    doses = [add_dose(hub, user) for _ in range(6)]
    with browser.device(hub, user) as phone:
        tabs = [phone.tab() for _ in range(3)]
        first = one_leads(tabs)
        for tab in tabs:
            tab.settles()
        phone.offline()
        for index, dose in enumerate(doses):
            tabs[index % 3].act("markTaken", {"occurrenceId": dose})
        for tab in tabs:
            tab.becomes(lambda tab=tab: [tab.dose(dose)["status"] for dose in doses] == ["taken"] * 6, "all tabs show all")
        phone.online()
        for tab in tabs:
            agrees(tab, hub, user)
        assert [n for _, n in sorted(stored(hub, user), key=lambda row: row[1])] == [1, 2, 3, 4, 5, 6]
        assert [tab for tab in tabs if tab.sent()] == [first], "one tab sends"
        # Its end makes another one lead.
        first.page.close()
        rest = [tab for tab in tabs if tab is not first]
        one_leads(rest)
        Caller(hub, user).settle(plain("undo", {"targetKey": stored(hub, user)[0][0]}))
        for tab in rest:
            agrees(tab, hub, user)


def test_a_frozen_tab_is_taken_over_and_sends_no_more(browser, hub, user):
    freeze_and_thaw(browser, hub, user, "client")


def freeze_and_thaw(browser, hub, user, variant):
    first, second = add_dose(hub, user), add_dose(hub, user)
    with browser.device(hub, user, variant=variant) as phone:
        # As in browsers without navigator.locks: the lease alone decides.
        tabs = [phone.tab(locks=None), phone.tab(locks=None)]
        old = one_leads(tabs)
        new, = [tab for tab in tabs if tab is not old]
        for tab in tabs:
            tab.settles()
        # Frozen, with its line and its lock: none of its code runs. It wakes in the middle of sending.
        session = phone.context.new_cdp_session(old.page)
        session.send("Debugger.enable")
        session.send("Debugger.pause")
        new.act("markTaken", {"occurrenceId": first})
        new.becomes(lambda: new.get("isLeader"), "the frozen tab's lease is taken over")
        agrees(new, hub, user)
        phone.offline()
        new.act("markTaken", {"occurrenceId": second})
        session.send("Debugger.resume")
        session.send("Debugger.disable")
        old.becomes(lambda: not old.get("isLeader"), "the frozen tab leads no more")
        phone.online()
        for tab in tabs:
            agrees(tab, hub, user)
        assert old.sent() == [] and len(stored(hub, user)) == 2


KEPT = """
    const db = await new Promise((resolve) => {
      const opening = indexedDB.open(client.name);
      opening.onsuccess = () => resolve(opening.result);
    });
    const keys = (store) => new Promise((resolve) => {
      const all = db.transaction(store).objectStore(store).getAllKeys();
      all.onsuccess = () => resolve([store, all.result]);
    });
    const kept = Object.fromEntries(await Promise.all([...db.objectStoreNames].map(keys)));
    db.close();
    return kept;"""


@pytest.mark.parametrize("hears", [True, False])
def test_no_tab_fills_the_store_again_after_a_sign_out(browser, hub, user, hears):
    """The page that signs out ends before it has deleted the store: another tab has its turn to lead, and must not."""
    add_dose(hub, user)
    with browser.device(hub, user) as phone:
        if not hears:
            phone.context.add_init_script("delete globalThis.BroadcastChannel")
        first = phone.tab().settles()
        other = phone.tab()
        waiting = "return (await navigator.locks.query()).pending.length"
        other.becomes(lambda: other.run(waiting) > 0, "the other tab waits for its turn")
        first.run("""
            indexedDB.deleteDatabase = () => ({});
            client.signOut();
            await new Promise((resolve) => { client.connection.subscribe((state) => state === 'closed' && resolve()); });""")
        first.page.close()
        if hears:
            other.becomes(lambda: other.get("storage")["state"] == "replaced", "the other tab is told")
        else:
            steps = other.run("return steps()")
            other.becomes(lambda: other.run("return steps()") > steps + 1, "it has looked twice whether it may lead")
        assert not other.get("isLeader")
        assert other.run(KEPT) == {"actions": [], "entities": [], "positions": [], "meta": ["isSignedOut"]}
        other.page.close()
        agrees(phone.tab(), hub, user)


def live(tab, doses):
    """What a person does until the page dies."""
    try:
        tab.run("""
            const [taken, noted] = given;
            const acts = globalThis.acted = [];
            const act = async (type, payload) => { acts.push((await client.act(type, payload)).key); };
            await act('markTaken', { occurrenceId: taken });
            await act('addNote', { occurrenceId: noted, text: `note of ${noted}` });
            await act('skip', { occurrenceId: noted });
            await client.undo(acts[0]);""", doses)
    except Exception:
        assert tab.run("return globalThis.isDead"), "nothing fails before the page dies"


def dies_at(browser, hub, user, variant, step):
    """Lives until that step, and comes back; returns whether it died."""
    doses = [add_dose(hub, user), add_dose(hub, user)]
    with browser.device(hub, user, variant=variant) as phone:
        tab = phone.tab(die_after=step)
        live(tab, doses)
        other = Caller(hub, user).settle(plain("addNote", {"occurrenceId": doses[0], "text": f"of another device {step}"}))
        assert other.status == 200
        eventually(lambda: tab.run("return globalThis.isDead || client.queueLength.value === 0"), "the page dies or is done")
        has_died = bool(tab.run("return globalThis.isDead"))
        kept = tab.run("return globalThis.acted ?? []")
        tab.page.close(run_before_unload=False)
        tab = phone.tab()
        agrees(tab, hub, user)
        written = [key for key, n in stored(hub, user)]
        # The first may have been cancelled out by its undo.
        assert set(kept[1:]) <= set(written), "an action that was kept is lost"
        said = notes(hub, user)
        assert len(said) == len(set(said)), f"an action is done twice: {said}"
        assert tab.get("failures") == [] and shown_rows(tab) == today_rows(hub, user)
    return has_died


def test_a_page_is_killed_between_any_two_writes(browser, hub, user, record_property):
    step = 1
    while dies_at(browser, hub, f"{user}.{step}", "client", step):
        step += STRIDE
    record_property("report", f"killed at each {STRIDE}th of {step} writes and sends")
    assert step > STRIDE


def test_an_event_and_its_position_are_one(browser, hub, user):
    dies_with_an_event(browser, hub, user, "client")


def dies_with_an_event(browser, hub, user, variant):
    """The page dies right after the first write that an event causes."""
    dose = add_dose(hub, user)
    with browser.device(hub, user, variant=variant) as phone:
        tab = phone.tab().settles()
        tab.run("globalThis.dieAfter = globalThis.steps() + 1")
        Caller(hub, user).settle(plain("skip", {"occurrenceId": dose}))
        tab.becomes(lambda: tab.run("return globalThis.isDead"), "the page dies")
        tab.page.close()
        agrees(phone.tab(), hub, user)


def test_a_stolen_lock_ends_the_lead(browser, hub, user):
    """With navigator.locks too: a tab that wakes up finds its lock gone."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tabs = [phone.tab(), phone.tab()]
        old = one_leads(tabs)
        new, = [tab for tab in tabs if tab is not old]
        session = phone.context.new_cdp_session(old.page)
        session.send("Debugger.enable")
        session.send("Debugger.pause")
        new.becomes(lambda: new.get("isLeader"), "the frozen tab's lease is taken over")
        session.send("Debugger.resume")
        session.send("Debugger.disable")
        old.becomes(lambda: not old.get("isLeader"), "the frozen tab leads no more")
        new.act("markTaken", {"occurrenceId": dose})
        for tab in tabs:
            agrees(tab, hub, user)


def test_a_crash_of_the_page(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        phone.offline()
        key = tab.act("markTaken", {"occurrenceId": dose})
        with pytest.raises(Error):
            tab.page.goto("chrome://crash")
        tab = phone.tab()
        assert tab.dose(dose)["status"] == "taken"
        phone.online()
        agrees(tab, hub, user)
        assert [one for one, _ in stored(hub, user)] == [key]


def test_over_the_apps_own_pusher(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab(isOverPusher=True).settles()
        phone.offline()
        tab.act("markTaken", {"occurrenceId": dose})
        Caller(hub, user).settle(plain("addNote", {"occurrenceId": dose, "text": "from elsewhere"}))
        phone.online()
        agrees(tab, hub, user)
        assert tab.dose(dose)["note"] == "from elsewhere" and tab.run("return pusher.connection.state") == "connected"
