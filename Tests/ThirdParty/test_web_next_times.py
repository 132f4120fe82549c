"""The next times of reminders in the web client: those that the hub would tell now, however long ago it told the rule."""

import datetime

import pytest

from waiting import eventually
from web import Browser

DAY = 86_400_000


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def makes(tab, kind, payload):
    """Acts, and waits until the hub has confirmed all."""
    made = tab.run("return (await client.act(given[0], given[1])).id", [kind, payload])
    tab.becomes(lambda: tab.run("""
        const { items, occurrences } = client.reminders().value ?? {};
        return client.queueLength.value === 0 && items && ![...items, ...occurrences].some((one) => one.isPending)"""),
        f"{kind} is confirmed")
    return made


def at(tab, milliseconds):
    """The device's clock goes on, and nothing else happens."""
    tab.run("client.now = () => Date.now() + given; await client.act('addNote', {occurrenceId: 'none', text: 'x'});",
            milliseconds)
    return tab.run("return client.now()")


def told(hub, user, rule, now):
    """What the hub has next after a moment."""
    since = datetime.datetime.fromtimestamp(now / 1000, datetime.timezone.utc).isoformat()
    (body,), = hub.query("select body::jsonb -> 'upcoming' from sync.reminder(%s, %s, 10, %s)", [user, rule, since])
    return body


def shown(tab, rule):
    return tab.run("return client.reminders().value.items.find(({ id }) => id === given)", rule)


def agrees(tab, hub, user):
    """All that is shown is what the hub would say now, in its order."""
    def difference():
        return tab.run("""
            const plain = ({ isPending, hasConflict, ...rest }) => rest;
            const sorted = (one) => (one === null || typeof one !== 'object' ? one
              : Array.isArray(one) ? one.map(sorted)
              : Object.fromEntries(Object.keys(one).sort().map((name) => [name, sorted(one[name])])));
            const text = (list) => list.map(plain).map((one) => JSON.stringify(sorted(one)));
            const { body } = await client.api.get('reminders');
            const value = client.reminders().value;
            for (const name of ['items', 'occurrences']) {
              const [here, there] = [text(value[name]), text(body[name])];
              if (JSON.stringify(here) !== JSON.stringify(there)) return { name, here, there };
            }
            return null;""")
    eventually(lambda: difference() is None, "what is shown is what the hub has")


RULES = [
    {"time": "05:57", "timezone": "Europe/Berlin"},
    {"time": "23:40", "timezone": "Asia/Tokyo", "repeat": "weekdays"},
    {"time": "02:30", "timezone": "America/New_York", "repeat": "custom", "repeatOn": [7]},
]


@pytest.mark.parametrize("rule", RULES, ids=[rule["timezone"] for rule in RULES])
def test_days_without_a_network_leave_ten_next_times(browser, hub, user, rule):
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        made = makes(tab, "createReminder", {"productId": "p", "repeat": "daily", **rule})
        agrees(tab, hub, user)
        second = shown(tab, made)["upcoming"][1]["id"]
        makes(tab, "setReminderOccurrence", {"occurrenceId": second, "enabled": False})
        agrees(tab, hub, user)
        phone.offline()
        for days in (0, 1, 5, 10, 25, 70):
            now = at(tab, days * DAY)
            upcoming = shown(tab, made)["upcoming"]
            assert len(upcoming) == 10 and upcoming == told(hub, user, made, now)
            assert shown(tab, made)["nextOccurrences"] == [one["start"] for one in upcoming]
        # By the id of a time that the hub has never told.
        far = shown(tab, made)["upcoming"][2]["id"]
        tab.act("setReminderOccurrence", {"occurrenceId": far, "enabled": False})
        assert far not in [one["id"] for one in shown(tab, made)["upcoming"]] and len(shown(tab, made)["upcoming"]) == 10


def test_a_time_goes_when_it_passes(browser, hub, user):
    """Nothing is heard and nothing is done: the clock alone."""
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        made = makes(tab, "createReminder", {"productId": "p", "time": "12:00", "timezone": "UTC", "repeat": "daily"})
        phone.offline()
        before = shown(tab, made)["upcoming"]
        due = datetime.datetime.fromisoformat(before[0]["start"]).timestamp() * 1000
        tab.run("const ahead = given - Date.now(); client.now = () => Date.now() + ahead;"
                "await client.act('addNote', {occurrenceId: 'none', text: 'x'})", due - 1500)
        assert shown(tab, made)["upcoming"] == before
        tab.becomes(lambda: shown(tab, made)["upcoming"][:9] == before[1:], "the time that has passed is gone")


def test_a_day_follows_the_rule_that_another_device_has_changed(browser, hub, user):
    """Cancelled and brought back; then the rule gets another time, and the hub does not tell the day again."""
    with browser.device(hub, user) as phone, browser.device(hub, user) as tablet:
        one, other = phone.tab().settles(), tablet.tab().settles()
        made = makes(one, "createReminder", {"productId": "p", "time": "08:30", "timezone": "UTC", "repeat": "daily"})
        days = [next_["start"][:10] for next_ in shown(one, made)["upcoming"]]
        for number, change in ((3, {"enabled": False}), (5, {"enabled": False}), (4, {"movedTo": f"{days[4]}T09:15"})):
            makes(one, "setReminderOccurrence", {"id": made, "date": days[number], **change})
        makes(one, "setReminderOccurrence", {"id": made, "date": days[3], "enabled": True})
        for tab in (one, other):
            tab.becomes(lambda tab=tab: len((tab.value("reminders") or {"occurrences": []})["occurrences"]) == 3, "all")
            agrees(tab, hub, user)
        makes(other, "updateReminder", {"id": made, "time": "20:00"})
        one.becomes(lambda: shown(one, made)["time"] == "20:00", "the new time is here")
        starts = {day["date"]: day["start"][11:16] for day in one.value("reminders")["occurrences"]}
        assert starts == {days[3]: "20:00", days[4]: "09:15", days[5]: "20:00"}
        agrees(one, hub, user)
        agrees(other, hub, user)


def test_lists_are_in_the_hubs_order(browser, hub, user):
    """Rules of one second, days in any order, medicines of one name: after events, and after a snapshot."""
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        for number, name in enumerate(["b", "é", "a", "Z", "c"]):
            rule = {"id": f"{name}-{user}"[:40], "productId": "p", "time": f"1{number}:00", "repeat": "daily"}
            tab.act("createReminder", rule)
            tab.act("createMedication", {"id": f"m-{name}-{user}"[:40], "name": "same"})
        rule = makes(tab, "createReminder", {"productId": "p", "time": "11:30", "timezone": "UTC", "repeat": "daily"})
        days = [one["start"][:10] for one in shown(tab, rule)["upcoming"]]
        for number in (5, 2, 7, 1):
            makes(tab, "setReminderOccurrence", {"id": rule, "date": days[number], "enabled": False})
        makes(tab, "setReminderOccurrence", {"id": rule, "date": days[8], "movedTo": f"{days[0]}T23:00"})
        agrees(tab, hub, user)
        lists = """
            const { body } = await client.api.get('medications');
            return [body.items, client.medications().value.items].map((list) => list.map(({ id }) => id))"""
        there, here = tab.run(lists)
        assert len(there) == 5 and here == there
