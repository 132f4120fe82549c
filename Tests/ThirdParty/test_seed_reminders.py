"""The client code of seed 001, as printed, ends with the right list: no rule twice, none stale.

A device that comes back sends all twice: react-query resumes what it had paused, and the app posts its queue. Either may be
first; what is queued is dated, as the seed says, or not, as it does."""

import contextlib
import datetime

import pytest

from seed_reminders import SeedClient


def rule(label, time="08:00", **more):
    return {"productId": "zinc", "appliesTo": "item", "label": label, "time": time, "timezone": "Europe/Berlin",
            "repeat": "daily", "delivery": "local", "enabled": True, **more}


#: How a device comes back, and whether it dates what it queues.
WAYS = [(True, True), (False, False), (False, True), (True, False)]
any_order = pytest.mark.parametrize("mutations_first, is_dated", WAYS[:2])
every_way = pytest.mark.parametrize("mutations_first, is_dated", WAYS)


@pytest.fixture
def is_dated():
    return True


@pytest.fixture
def clients(hub, user, is_dated):
    """Two devices of a user's, both online."""
    with contextlib.ExitStack() as stack:
        made = [SeedClient(hub, user, is_dated) for _ in range(2)]
        for client in made:
            client.connect()
            stack.callback(lambda client=client: client.is_online and client.disconnect())
        yield made


def caught_up(client, hub, user):
    """What a device shows when it has heard all that there is."""
    (top,), = hub.query(
        "select coalesce(max(top), 0) from sync.stream where user_id = %s and topic = 'reminders'", [user])
    client.heard(top)
    return client.shown()


def stored(hub, user):
    return sorted(hub.query(
        "select label, to_char(time, 'HH24:MI'), enabled from care.reminder_rule where user_id = %s", [user]))


def agree(hub, user, clients, *expected):
    """All devices and PostgreSQL have this list, and no other."""
    assert stored(hub, user) == sorted(expected)
    for client in clients:
        assert caught_up(client, hub, user) == sorted(expected)
        identities = [item["id"] for item in client.cache["items"]]
        assert len(set(identities)) == len(identities)
        assert not any(identity.startswith("tmp-") for identity in identities)


def test_saving_and_deleting_online(hub, user, clients):
    phone, tablet = clients
    created, _ = phone.save(rule("a"))
    agree(hub, user, clients, ("a", "08:00", True))
    assert created["id"] == phone.cache["items"][0]["id"] and created["nextOccurrences"]
    # The whole object of the cache, with all that the hub has put into it, is sent back.
    item = tablet.cache["items"][0]
    assert "_sync" in item and "nextOccurrences" in item
    tablet.save({**item, "time": "09:30"})
    agree(hub, user, clients, ("a", "09:30", True))
    phone.save({**phone.cache["items"][0], "enabled": False})
    agree(hub, user, clients, ("a", "09:30", False))
    phone.save(rule("b", "12:00"))
    phone.delete(created["id"])
    agree(hub, user, clients, ("b", "12:00", True))
    assert phone.delete(created["id"])["_sync"]["status"] == "noop", "a repeat"


@every_way
def test_a_post_and_the_queue_make_one_rule(hub, user, clients, mutations_first):
    """react-query posts what it had paused, without an id; the queue sends the same rule with a temporary one."""
    phone, _ = clients
    phone.disconnect()
    _, temporary = phone.save(rule("a"))
    assert temporary.startswith("tmp-") and phone.shown() == [("a", "08:00", True)]
    told = phone.reconnect(mutations_first)
    agree(hub, user, clients, ("a", "08:00", True))
    made = told["mutations"][0]["id"]
    assert phone.cache["items"][0]["id"] == made and phone.cache["items"][0]["clientId"] == temporary
    assert [item["id"] for item in told["sync"]["items"]] == [made] and told["sync"]["conflicts"] == []
    # What the person still sees under its old name is that rule.
    changed = phone.api.update_reminder(temporary, {"time": "08:15"})
    assert (changed["id"], changed["time"]) == (made, "08:15")
    agree(hub, user, clients, ("a", "08:15", True))


@every_way
@pytest.mark.parametrize("changes", [{"label": "b", "enabled": False}, {"time": "09:00"}], ids=["label", "time"])
def test_a_rule_that_was_made_and_changed_offline(hub, user, clients, mutations_first, changes):
    phone, _ = clients
    phone.disconnect()
    _, temporary = phone.save(rule("a"))
    phone.save({**phone.cache["items"][0], **changes})
    assert phone.cache["items"][0]["id"] == temporary
    phone.reconnect(mutations_first)
    wanted = {**rule("a"), **changes}
    agree(hub, user, clients, (wanted["label"], wanted["time"], wanted["enabled"]))


@every_way
@pytest.mark.parametrize("is_made_again", [False, True], ids=["for good", "and made again"])
def test_a_rule_that_was_made_and_deleted_offline(hub, user, clients, mutations_first, is_made_again):
    phone, _ = clients
    phone.disconnect()
    _, temporary = phone.save(rule("a"))
    phone.save({**phone.cache["items"][0], "time": "09:00"})
    phone.delete(temporary)
    assert phone.shown() == []
    expected = [("a", "08:00", True)] if is_made_again else []
    if is_made_again:
        phone.save(rule("a"))
    phone.reconnect(mutations_first)
    agree(hub, user, clients, *expected)
    # Once more, on purpose.
    phone.save(rule("b", "11:00"))
    agree(hub, user, clients, *expected, ("b", "11:00", True))


@any_order
def test_a_lost_answer_to_the_queue(hub, user, clients, mutations_first, is_dated):
    """The queue is posted again, as it was."""
    phone, _ = clients
    phone.save(rule("old", "07:00"))
    old = phone.cache["items"][0]
    phone.disconnect()
    phone.save(rule("a"))
    phone.save({**old, "time": "07:30"})
    phone.delete(old["id"])
    phone.save(rule("b", "10:00"))
    queue = list(phone.offline_queue)
    first = phone.api.sync(queue)
    again = phone.api.sync(queue)
    assert [result["status"] for result in first["results"]] == ["applied"] * 4
    # A deletion that is neither dated nor names a revision is no repeat, but there is nothing left to delete.
    assert [bool(result.get("replayed")) for result in again["results"]] == [True, True, is_dated, True]
    assert again["positions"] == first["positions"]
    phone.reconnect(mutations_first)
    agree(hub, user, clients, ("a", "08:00", True), ("b", "10:00", True))


@every_way
def test_a_queue_that_changes_a_rule_twice(hub, user, clients, mutations_first):
    """Both changes carry the revision that the device had seen: the second one does not conflict with the first."""
    phone, _ = clients
    phone.save(rule("a"))
    phone.heard(1)
    phone.disconnect()
    phone.save({**phone.cache["items"][0], "time": "09:00"})
    phone.save({**phone.cache["items"][0], "time": "10:00"})
    told = phone.reconnect(mutations_first)
    # What the device finds done it knows, so its next change is no conflict with that.
    assert [result["status"] for result in told["sync"]["results"]] == ["noop" if mutations_first else "applied", "applied"]
    agree(hub, user, clients, ("a", "10:00", True))


@every_way
def test_a_change_that_was_taken_back_offline(hub, user, clients, mutations_first):
    """The queue changes the time and changes it back; the request for the first change comes after both, or before them."""
    phone, _ = clients
    phone.save(rule("a"))
    phone.heard(1)
    phone.disconnect()
    phone.save({**phone.cache["items"][0], "time": "09:00"})
    phone.save({**phone.cache["items"][0], "time": "08:00"})
    phone.reconnect(mutations_first)
    agree(hub, user, clients, ("a", "08:00", True))


@any_order
def test_the_last_writer_without_a_revision_wins(hub, user, clients, mutations_first):
    phone, tablet = clients
    phone.save(rule("a"))
    phone.heard(1)
    tablet.heard(1)
    phone.disconnect()
    mine = {name: value for name, value in phone.cache["items"][0].items() if name not in ("rev", "_sync")}
    phone.save({**mine, "time": "06:00"})
    tablet.save({**tablet.cache["items"][0], "time": "09:00"})
    told = phone.reconnect(mutations_first)
    assert told["sync"]["conflicts"] == []
    agree(hub, user, clients, ("a", "06:00", True))


@every_way
def test_a_conflict_is_shown_with_both_times(hub, user, clients, mutations_first):
    """"Server changed time to 09:00, you changed to 08:30: which do you want?" """
    phone, tablet = clients
    phone.save(rule("a"))
    tablet.heard(1)
    phone.heard(1)
    phone.disconnect()
    phone.save({**phone.cache["items"][0], "time": "08:30", "label": "mine"})
    tablet.save({**tablet.cache["items"][0], "time": "09:00", "snoozeMinutes": 15})
    told = phone.reconnect(mutations_first)
    conflict, = told["sync"]["conflicts"]
    shown = conflict.get("conflict", conflict)
    assert [(field["name"], field["base"], field["server"], field["local"]) for field in shown["fields"]] == [
        ("time", "08:00", "09:00", "08:30")]
    assert shown["options"] == ["keep_local", "accept_server", "merge"]
    agree(hub, user, clients, ("a", "09:00", True))


@any_order
def test_an_edit_of_a_deleted_rule(hub, user, clients, mutations_first):
    phone, tablet = clients
    phone.save(rule("a"))
    tablet.heard(1)
    phone.disconnect()
    phone.save({**phone.cache["items"][0], "time": "08:30"})
    tablet.delete(tablet.cache["items"][0]["id"])
    told = phone.reconnect(mutations_first)
    assert told["mutations"][0].status == 409 and told["mutations"][0].body["code"] == "gone"
    agree(hub, user, clients)


def test_upcoming_occurrences_can_be_snoozed(hub, user, clients):
    phone, tablet = clients
    created, _ = phone.save(rule("a"))
    upcoming = phone.cache["items"][0]["upcoming"]
    assert {one["ruleId"] for one in upcoming} == {created["id"]}
    assert all(one["status"] == "scheduled" and one["start"] for one in upcoming)
    until = datetime.datetime.fromisoformat(upcoming[0]["start"]) + datetime.timedelta(minutes=20)
    path = f"/reminders/occurrences/{upcoming[0]['id']}/snooze"
    snoozed = phone.api.ask("POST", path, {"until": until.isoformat()})
    assert snoozed["_sync"]["status"] == "applied"
    phone.invalidate()
    first = phone.cache["items"][0]["upcoming"][0]
    assert first["id"] == upcoming[0]["id"] and datetime.datetime.fromisoformat(first["start"]) == until
    told = tablet.device.wait_for_event("reminder.occurrence_updated").data
    assert told["id"] == told["occurrenceId"] == first["id"] and told["ruleId"] == created["id"]
    agree(hub, user, clients, ("a", "08:00", True))
