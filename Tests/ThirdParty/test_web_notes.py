"""Texts that no event tells: the web client fetches them, whatever happens meanwhile."""

import pytest

from actions import add_dose
from test_web_queue import does, leaves
from web import Browser

#: The next answer with a dose's texts is held until `release()`. `given`: whether it is lost then.
HOLD = """
    const { api } = client, { fetch } = api;
    const held = new Promise((resolve) => { globalThis.release = resolve; });
    api.fetch = async (url, options) => {
      if (!url.includes('/occurrence/')) return fetch(url, options);
      api.fetch = fetch;
      const answer = await fetch(url, options);
      globalThis.isHeld = true;
      await held;
      if (given) throw new TypeError('the line is gone');
      return answer;
    };"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def hold(tab, fails):
    tab.run(HOLD, fails)


def is_held(tab):
    tab.becomes(lambda: tab.run("return globalThis.isHeld"), "the note is asked for")


def has_note(tab, dose, note):
    tab.becomes(lambda: tab.dose(dose)["note"] == note, f"the note is {note}")


@pytest.mark.parametrize("fails", [True, False])
def test_a_note_whose_fetch_outlives_its_line_is_fetched_again(browser, hub, user, fails):
    """When the new line is there, that fetch is still on its way; when it ends, nothing else asks."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        hold(tab, fails)
        does(hub, user, "addNote", {"occurrenceId": dose, "text": "theirs"})
        is_held(tab)
        leaves(phone, tab)
        phone.online()
        tab.becomes(lambda: tab.run("return client.streams.get('adherence').isLive"), "the new line has all events")
        tab.run("release()")
        has_note(tab, dose, "theirs")


def test_a_note_that_changes_while_it_is_fetched_is_fetched_again(browser, hub, user):
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        hold(tab, False)
        does(hub, user, "addNote", {"occurrenceId": dose, "text": "first"})
        is_held(tab)
        rev = tab.dose(dose)["rev"]
        does(hub, user, "addNote", {"occurrenceId": dose, "text": "second"})
        tab.becomes(lambda: tab.dose(dose)["rev"] > rev, "the event of the second is there")
        tab.run("release()")
        has_note(tab, dose, "second")


#: The hub does not have the dose whose texts are asked for first, until `isBack`. `asked`: how often it was asked for it.
MISS = """
    const { api } = client, { fetch } = api;
    globalThis.asked = 0;
    api.fetch = async (url, options) => {
      if (!url.includes('/occurrence/')) return fetch(url, options);
      globalThis.missed ??= url;
      if (url === globalThis.missed) globalThis.asked += 1;
      return url !== globalThis.missed || globalThis.isBack ? fetch(url, options) : new Response('{}', { status: 404 });
    };"""


@pytest.mark.parametrize("by", ["event", "line"])
def test_a_note_that_is_gone_holds_up_no_other(browser, hub, user, by):
    """It is asked for again when an event tells of its dose, or on a new line."""
    doses = [add_dose(hub, user), add_dose(hub, user)]
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run(MISS)
        leaves(phone, tab)
        for dose in doses:
            does(hub, user, "addNote", {"occurrenceId": dose, "text": "theirs"})
        phone.online()
        tab.becomes(lambda: "theirs" in [tab.dose(dose)["note"] for dose in doses], "the other note is there")
        gone = next(dose for dose in doses if tab.dose(dose)["note"] is None)
        there = next(dose for dose in doses if dose != gone)
        does(hub, user, "addNote", {"occurrenceId": there, "text": "more"})
        has_note(tab, there, "more")
        assert tab.run("return globalThis.asked") == 1 and tab.get("problem") is None
        tab.run("globalThis.isBack = true")
        if by == "event":
            does(hub, user, "addNote", {"occurrenceId": gone, "text": "again"})
        else:
            leaves(phone, tab)
            phone.online()
        has_note(tab, gone, "again" if by == "event" else "theirs")
