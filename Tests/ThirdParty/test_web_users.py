"""The web client and the app's tokens: what one person did is never written into another person's account."""

import pytest

from actions import add_dose
from waiting import eventually
from web import Browser, agrees


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def actors(hub, *users):
    """Whose actions the hub has, and how many."""
    return hub.query("select user_id, count(*) from sync.action where user_id = any(%s) group by 1", [list(users)])


def gives(tab, token):
    tab.run("globalThis.token = given", token)


def is_refused(tab, waiting):
    """The app is told, and all that the person did is still here."""
    tab.becomes(lambda: (tab.get("problem") or {}).get("code") == "wrong_user", "the app is told of the wrong token")
    assert tab.get("queueLength") == waiting
    return True


@pytest.mark.parametrize("over_pusher", [False, True])
def test_a_queue_goes_into_no_other_account(browser, hub, user, over_pusher):
    """At the start, and after a reconnect."""
    first, second = add_dose(hub, user), add_dose(hub, user)
    other = f"{user}-b"
    with browser.device(hub, user) as phone:
        phone.offline()
        tab = phone.tab(token=hub.token(other), isOverPusher=over_pusher)
        tab.act("markTaken", {"occurrenceId": first})
        phone.online()
        assert is_refused(tab, 1) and actors(hub, user, other) == []
        gives(tab, hub.token(user))
        agrees(tab, hub, user)
        assert tab.get("problem") is None and actors(hub, user, other) == [(user, 1)]
        phone.offline()
        tab.becomes(lambda: tab.get("connection") != "connected", "the device knows that it is offline")
        gives(tab, hub.token(other))
        tab.act("markTaken", {"occurrenceId": second})
        phone.online()
        assert is_refused(tab, 1) and actors(hub, user, other) == [(user, 1)]
        assert tab.get("connection") == "signing_in" and tab.run("return client.today().value !== undefined")
        # Loaded again it is no other.
        tab.page.close()
        tab = phone.tab(token=hub.token(other), isOverPusher=over_pusher)
        assert is_refused(tab, 1)
        gives(tab, hub.token(user))
        agrees(tab, hub, user)
        assert actors(hub, user, other) == [(user, 2)]


def test_a_wrong_token_at_a_refresh_goes_nowhere(browser, hub, user):
    """The line stays this user's until its own token has expired."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        gives(tab, hub.token(f"{user}-b"))
        tab.run("""
            const { line } = client, send = line.send.bind(line);
            globalThis.auths = 0;
            line.send = (event, ...rest) => { if (event === 'sync:auth') auths += 1; return send(event, ...rest); };
            line.hear('{"event": "sync:auth_expiring", "data": "{}"}');""")
        assert is_refused(tab, 0) and tab.run("return auths") == 0
        tab.act("markTaken", {"occurrenceId": dose})
        eventually(lambda: actors(hub, user, f"{user}-b") == [(user, 1)], "it is sent as this user's")
        gives(tab, hub.token(user))
        tab.becomes(lambda: tab.get("problem") is None, "the right token signs in")
        assert tab.run("return auths") == 1


def test_a_line_of_another_user_is_left(browser, hub, user):
    """Where the device cannot read the token: what the hub says counts."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        phone.offline()
        tab = phone.tab()
        tab.act("markTaken", {"occurrenceId": dose})
        tab.run("""
            const { line } = client, hear = line.hear.bind(line);
            globalThis.heard = 0;
            line.hear = (text) => {
              const isAnswer = text.includes('sync:auth_ok');
              if (isAnswer) heard += 1;
              hear(isAnswer ? text.replace(given, 'bob') : text);
            };""", user)
        phone.online()
        assert is_refused(tab, 1)
        tab.becomes(lambda: tab.run("return heard") > 2, "it tries other lines, after pauses")
        assert actors(hub, user, "bob") == [] and tab.sent() == [] and tab.get("queueLength") == 1
        tab.run("delete client.line.hear")
        agrees(tab, hub, user)
        assert actors(hub, user, "bob") == [(user, 1)]


def test_a_request_has_no_other_users_token(browser, hub, user):
    """A snapshot that waits for the right token is fetched then: its channel goes on."""
    add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab()
        tab.settles()
        hub.query("delete from sync.event where user_id = %s", [user])
        tab.run("""
            globalThis.requests = 0;
            const { api } = client, fetch = api.fetch;
            api.fetch = (...all) => { requests += 1; return fetch(...all); };
            globalThis.token = given;""", hub.token(f"{user}-b"))
        got = "return client.api.get('medications').then(() => 'got', (error) => error.code)"
        assert tab.run(got) == "wrong_user" and tab.run("return requests") == 0
        tab.run("client.month('2020-01')")
        assert is_refused(tab, 0) and tab.run("return requests") == 0
        gives(tab, hub.token(user))
        tab.becomes(lambda: tab.run("return client.month('2020-01').value !== undefined"), "the month is here")


def test_other_tabs_are_told_and_their_lines_are_the_users_too(browser, hub, user):
    add_dose(hub, user)
    with browser.device(hub, user) as phone:
        first = phone.tab(token=hub.token(f"{user}-b"))
        assert is_refused(first, 0)
        second = phone.tab(token=hub.token(f"{user}-b"))
        second.run("""
            globalThis.signedIn = [];
            const { send } = WebSocket.prototype;
            WebSocket.prototype.send = function (text) { signedIn.push(text); send.call(this, text); };
            client.subscribe('news', () => signedIn.push('joined'));""")
        assert is_refused(second, 0)
        second.becomes(lambda: "joined" in second.run("return signedIn"), "a public channel needs no user")
        assert not any("sync:auth" in text for text in second.run("return signedIn"))
