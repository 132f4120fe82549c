"""The console of a hub, as an operator with a browser finds it, and who is let in."""

import contextlib
import json
import re
import secrets
from urllib.parse import urlencode, urlsplit

import pytest

from actions import add_dose
from client import Client
from console import Console, ask, asked
from device import BACKEND
from hub import APP_KEY, APP_SECRET, Hub, Server
from test_demo import BLOCKING, PALE, nameless
from waiting import eventually
from web import Browser

TABS = ["Overview", "Connections", "Channels", "Events", "Why not?", "Send"]


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def credential():
    return secrets.token_hex(16)


@pytest.fixture(scope="module")
def guarded(credential):
    """A hub without a database, in production, with a console."""
    apps = json.dumps([{"id": "1", "key": APP_KEY, "secret": APP_SECRET}])
    with Server(CARILLON_APPS=apps, CARILLON_CONSOLE_CREDENTIAL=credential) as running:
        yield running


def audit(hub, message):
    lines = [json.loads(line) for line in hub.program.err.text().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("message") == message]


# What an operator sees


def test_the_overview_moves(hub, browser, user, record_property):
    with Client(hub) as phone, Console(browser, hub) as console:
        paint = console.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        record_property("report", f"first paint after {paint:.0f} ms")
        plot = console.page.locator("figure", has_text="Connections").locator(".value")
        eventually(lambda: plot.inner_text() not in ("–", "0"), "connections are counted")
        memory = console.page.locator("figure", has_text="Memory").locator(".value")
        eventually(lambda: memory.inner_text().endswith("MiB"), "so is memory")
        phone.sign_in(user)
        phone.subscribe(f"user.{user}.adherence", "occurrence.created")
        phone.subscribed(f"user.{user}.adherence")
        events = console.page.locator("figure", has_text="Events of users").locator(".value")

        def rises():
            add_dose(hub, user)
            return re.fullmatch(r"[\d.]*[1-9][\d.]* / [\d.]*[1-9][\d.]*", events.inner_text())

        eventually(rises, "events are read and delivered")
        latency = console.page.locator("figure", has_text="From commit").locator(".value")
        eventually(lambda: re.search(r"\d (ms|s|µs)", latency.inner_text()), "and their time is known")
        assert console.row("apps", "1").locator("td").nth(1).inner_text() != "0"
        own = urlsplit(hub.operations).netloc
        assert console.page.evaluate(BLOCKING) == [], "the first paint waits for nothing but the page"
        assert {urlsplit(url).netloc for url in console.requests} == {own}
        assert console.errors == []


def test_connections_and_channels_are_listed(hub, browser, user):
    with Client(hub) as phone, Console(browser, hub) as console:
        phone.sign_in(user)
        phone.subscribe(f"user.{user}.adherence", "occurrence.created")
        phone.subscribe(f"news-{user}", "x")
        phone.subscribed(f"user.{user}.adherence")
        phone.subscribed(f"news-{user}")
        console.opens("Connections")
        console.fills("connections", "User", user)
        row = console.row("connections", phone.socket_id)
        text = row.inner_text()
        assert user in text and f"news-{user}" in text and "127.0.0.1" in text and "live" in text
        console.fills("connections", "User", f"{user}-nobody")
        console.page.get_by_role("button", name="Look").click()
        console.row("connections", "Nobody.")
        console.opens("Channels")
        console.fills("channels", "Name begins with", f"news-{user}")
        assert console.row("channels", f"news-{user}").locator("td").nth(1).inner_text() == "1"
        assert console.errors == []


def test_users_of_a_presence_channel_are_listed(hub, browser, user):
    channel = f"presence-{user}"
    with Client(hub) as phone, Console(browser, hub) as console:
        member = {"user_id": f"{user}-a", "user_info": {"name": "hidden"}}
        phone.send("pusher:subscribe", {"channel": channel, **BACKEND.authenticate(channel, phone.socket_id, member)})
        phone.subscribed(channel)
        console.opens("Channels")
        console.fills("channels", "Name begins with", channel)
        row = console.row("channels", channel)
        row.get_by_role("button", name="Who?").click()
        eventually(lambda: row.locator("pre").all_inner_texts() == [f"{user}-a"], "the user is named")
        assert console.page.evaluate("document.activeElement.textContent") == f"{user}-a", "and read aloud"
        assert asked(hub, "members", app="1", channel=channel) == {"count": 1, "users": [f"{user}-a"]}
        assert ask(hub, "GET", "/console/api/members?app=1&channel=news")[0].status == 400
        assert console.errors == []


def test_a_users_connections_are_ended(hub, browser, user):
    other = f"{user}-other"
    with Client(hub) as phone, Client(hub) as tablet, Client(hub) as stranger, Console(browser, hub) as console:
        for device, who in ((phone, user), (tablet, user), (stranger, other)):
            device.sign_in(who)
            device.subscribe(f"user.{who}.adherence", "occurrence.created")
            device.subscribed(f"user.{who}.adherence")
        before = len(audit(hub, "console: a user's connections are ended"))
        console.opens("Connections")
        console.fills("connections", "User", user)
        console.page.get_by_role("button", name="Look").click()
        button = console.row("connections", phone.socket_id).get_by_role("button", name="End")
        button.click()
        dialog = console.page.get_by_role("dialog")
        assert f"user {user} of app 1" in dialog.inner_text()
        # A second thought.
        dialog.get_by_role("button", name="Leave them").click()
        dialog.wait_for(state="hidden")
        assert len(asked(hub, "connections", user=user)["connections"]) == 2
        button.click()
        dialog.get_by_role("button", name="End them").click()
        told = f"2 connections of user {user} ended."
        console.page.get_by_text(told).wait_for()
        eventually(lambda: console.page.evaluate("document.activeElement.textContent") == told, "the focus is at the answer")
        eventually(lambda: not asked(hub, "connections", user=user)["connections"], "they are gone")
        console.row("connections", "Nobody.")
        assert len(asked(hub, "connections", user=other)["connections"]) == 1
        line, = audit(hub, "console: a user's connections are ended")[before:]
        assert (line["app"], line["user"], line["by"]) == ("1", user, "127.0.0.1")
        assert console.errors == []


def test_events_are_listed_and_their_data_is_looked_at(hub, browser, user):
    with Client(hub) as phone, Console(browser, hub) as console:
        channel = f"user.{user}.adherence"
        phone.sign_in(user)
        phone.subscribe(channel, "occurrence.created")
        phone.subscribed(channel)
        console.opens("Events")
        dose = add_dose(hub, user)
        console.fills("events", "Channel begins with", channel)
        console.fills("events", "Kind has", "created")
        row = console.row("events", channel, "occurrence.created")
        assert "database" in row.inner_text()
        before = len(audit(hub, "console: a payload is looked at"))
        row.get_by_role("button", name="Data").click()
        console.page.locator("#events pre").wait_for()
        assert dose in console.page.inner_text("#events pre")
        assert console.page.evaluate("document.activeElement.matches('#events pre')"), "it is read aloud"
        line, = audit(hub, "console: a payload is looked at")[before:]
        assert line["channel"] == channel and int(line["offset"]) > 0 and line["by"] == "127.0.0.1"
        assert dose not in json.dumps(line)
        # Of one that is not there nobody sees another one.
        answer, text = ask(hub, "POST", f"/console/api/payload?{urlencode({'channel': channel, 'offset': 1 << 40})}",
                           Origin=hub.operations)
        assert answer.status == 200 and json.loads(text)["events"] == []
        # By size, and by kind.
        events = asked(hub, "events", channel=channel)["events"]
        created, = [event for event in events if event["name"] == "occurrence.created"]
        assert created["bytes"] > 50 and created["committed"] >= created["age"] > 0
        large = asked(hub, "events", channel=channel, bytes=created["bytes"])["events"]
        assert created["name"] in {event["name"] for event in large}
        assert asked(hub, "events", channel=channel, bytes=created["bytes"] + 10_000)["events"] == []
        assert [event["name"] for event in asked(hub, "events", channel=channel, name="summary")["events"]] \
            == ["adherence.summary_updated"]
        assert console.errors == []


def test_why_a_user_did_not_get_an_event(hub, browser, user):
    channel = f"user.{user}.adherence"
    with Console(browser, hub) as console:
        def why(number=""):
            console.opens("Why not?")
            console.fills("way", "User", user)
            console.fills("way", "Number of the event", str(number))
            console.page.get_by_role("button", name="Why?").click()

        def says(text):
            console.page.locator(".verdict", has_text=text).wait_for()

        why()
        says("Nothing was ever committed")
        add_dose(hub, user)
        first = asked(hub, "log", channel=channel)["top"]
        why(first)
        says("No device of the user is connected to this hub.")
        why(first + 7)
        says(f"There is no such event: the channel stands at {first}.")
        with Client(hub) as phone:
            phone.sign_in(user)
            why(first)
            says("The user has 1 connection here, and none has subscribed to the channel.")
            phone.subscribe(channel, "occurrence.created")
            phone.subscribed(channel)
            why(first)
            says("1 device: it came later, with a snapshot that has the event.")
            add_dose(hub, user)
            eventually(lambda: phone.count(channel, "occurrence.created"), "the phone has the event")
            second = first + 1
            why(second)
            says("1 device: the socket of the device took it.")
            steps = console.page.locator(f".steps[data-offset='{second}'] li")
            assert [steps.nth(index).locator(".name").inner_text() for index in range(4)] \
                == ["Numbered", "Read", "Homed", f"Device {phone.socket_id}"]
            assert all(steps.nth(index).get_attribute("data-state") == "yes" for index in range(4))
            times = [steps.nth(index).locator(".at").inner_text() for index in range(1, 4)]
            assert all(re.fullmatch(r"\+[\d.]+ (µs|ms|s)", time) for time in times), times
            way = asked(hub, "way", channel=channel, offset=second)
            ages = [way["home"][name] for name in ("committed", "read", "homed")] + [way["devices"][0]["written"]]
            assert ages == sorted(ages, reverse=True), "numbered, read, homed, written"
        eventually(lambda: not asked(hub, "connections", user=user)["connections"], "the phone is gone")
        way = asked(hub, "way", channel=channel, offset=second)
        assert [(one["state"], one["isConnected"]) for one in way["devices"]] == [("written", False)]
        # From the list of the last ones.
        cell = console.page.get_by_role("cell", name=f"{first}", exact=True)
        console.page.locator("#way tbody tr", has=cell).get_by_role("button", name="Its way").click()
        says(f"Event {first}:")
        assert console.errors == []


def test_a_number_of_another_epoch_is_another_event(browser, user):
    """The database counts anew: what is remembered of the same number before is not taken for this event."""
    channel = f"user.{user}.adherence"
    with Hub() as hub, Client(hub) as phone, Console(browser, hub) as console:
        phone.sign_in(user)
        phone.subscribe(channel, "occurrence.created")
        phone.subscribed(channel)
        add_dose(hub, user)
        eventually(lambda: phone.count(channel, "occurrence.created"), "the phone has the event")
        log = asked(hub, "log", channel=channel)
        before, number = log["epoch"], log["top"]
        way = asked(hub, "way", channel=channel, offset=number)
        assert way["epoch"] == before and [one["state"] for one in way["devices"]] == ["written"]
        console.opens("Events")
        console.fills("events", "Channel begins with", channel)
        console.row("events", channel, f"{number}")
        hub.query("select sync.new_epoch()")
        eventually(lambda: asked(hub, "way", channel=channel, offset=number)["position"]["epoch"] != before,
                   "the hub sees it")
        now = asked(hub, "log", channel=channel)["epoch"]
        assert now != before
        # Nothing is claimed of the number in the new epoch; and in the old one, what became of the event there.
        way = asked(hub, "way", channel=channel, offset=number)
        assert way["epoch"] == now and way["home"] is None and [one["state"] for one in way["devices"]] == ["lost"]
        way = asked(hub, "way", channel=channel, offset=number, epoch=before)
        assert way["row"]["state"] == "otherEpoch" and way["row"]["epoch"] == now
        assert way["home"] and [one["state"] for one in way["devices"]] == ["written"]
        # Nor is the data shown of the event that has the number now.
        for epoch, count in ((before, 0), (now, 1)):
            query = urlencode({"channel": channel, "offset": number, "epoch": epoch})
            _, text = ask(hub, "POST", f"/console/api/payload?{query}", Origin=hub.operations)
            assert len(json.loads(text)["events"]) == count
        # From the list of what the hub remembers, and by a position as a device has it.
        row = console.row("events", channel, f"{number}")
        row.get_by_role("button", name="Its way").click()
        console.page.locator(".verdict", has_text="The number is of another epoch.").wait_for()
        assert "Before: 1 device: the socket of the device took it." in console.page.inner_text(".verdict")
        console.fills("way", "Number of the event", f"{now}:{number}")
        console.page.get_by_role("button", name="Why?").click()
        console.page.locator(".verdict", has_text="it was told that what it missed cannot be had").wait_for()
        assert console.errors == []


def test_an_event_is_sent_by_hand_but_never_to_a_user(hub, browser, user):
    with Client(hub) as phone, Console(browser, hub) as console:
        phone.subscribe(f"news-{user}", "hello")
        phone.subscribed(f"news-{user}")
        console.opens("Send")
        console.fills("create", "Channels", f"news-{user}")
        console.fills("create", "Event", "hello")
        console.page.get_by_role("button", name="Send").click()
        console.page.get_by_text("Sent to 1 connection.").wait_for()
        eventually(lambda: phone.count(f"news-{user}", "hello"), "the phone has it")
        # To several at once.
        console.fills("create", "Channels", f"news-{user}  empty-{user}")
        console.page.get_by_role("button", name="Send").click()
        console.page.get_by_text(f"Sent to 1 connection of news-{user}, 0 connections of empty-{user}.").wait_for()
        eventually(lambda: phone.count(f"news-{user}", "hello") == 2, "the phone has it again")
        for channel in (f"user.{user}.adherence", f"private-user.{user}.adherence"):
            console.fills("create", "Channels", channel)
            console.page.get_by_role("button", name="Send").click()
            console.page.get_by_text("come from the database alone", exact=False).first.wait_for()
            body = json.dumps({"name": "hello", "channels": ["news", channel], "data": "{}"}).encode()
            answer, text = ask(hub, "POST", "/console/api/publish?app=1", body, Origin=hub.operations)
            assert answer.status == 403 and b"database alone" in text
        console.opens("Events")
        row = console.row("events", f"news-{user}", "hello")
        assert "backend, app 1" in row.inner_text() and row.get_by_role("button").count() == 0


@contextlib.contextmanager
def created(hub, browser, user):
    """A phone, and the console's list of the doses made for it: a function that lets time go on, and counts them."""
    channel = f"user.{user}.adherence"
    with Client(hub) as phone, Console(browser, hub) as console:
        phone.sign_in(user)
        phone.subscribe(channel, "occurrence.created")
        phone.subscribed(channel)
        # The page's own clock stands still unless the test moves it.
        console.page.clock.install()
        console.page.reload()
        console.opens("Events")
        console.fills("events", "Channel begins with", channel)
        console.fills("events", "Kind has", "created")

        def rows():
            # Each look sets the timer of the next one when it has its answer.
            console.page.clock.run_for(2_500)
            return console.page.locator("#events tbody tr", has_text="occurrence.created").count()

        yield lambda: phone.count(channel, "occurrence.created"), console.page, rows
        assert console.errors == []


def test_a_list_that_is_in_use_stays(hub, browser, user):
    with created(hub, browser, user) as (told, page, rows):
        add_dose(hub, user)
        eventually(lambda: rows() == 1, "the list is asked for again")
        page.get_by_role("button", name="Its way").focus()
        add_dose(hub, user)
        eventually(lambda: told() == 2, "the second one is there")
        for _ in range(4):
            assert rows() == 1 and page.evaluate("document.activeElement.textContent") == "Its way"
        page.locator("#events").get_by_label("Kind has").focus()
        eventually(lambda: rows() == 2, "nobody is at the list any more")
        page.get_by_role("button", name="Its way").last.press("Enter")
        page.locator(".verdict", has_text="the socket of the device took it").wait_for()
        eventually(lambda: page.evaluate("document.activeElement.className") == "verdict", "the focus is at the answer")


def test_an_answer_leaves_a_list_that_came_into_use_meanwhile(hub, browser, user):
    asked = []
    with created(hub, browser, user) as (_, page, rows):
        add_dose(hub, user)
        eventually(lambda: rows() == 1, "the list is asked for")
        page.route("**/console/api/events*", lambda route: asked.append(route))
        eventually(lambda: rows() == 1 and asked, "it is asked for again")
        page.get_by_role("button", name="Its way").focus()
        add_dose(hub, user)
        with page.expect_response("**/console/api/events*") as answer:
            asked[0].continue_()
        answer.value.finished()
        for _ in range(4):
            assert rows() == 1 and page.evaluate("document.activeElement.textContent") == "Its way"


# Who is let in


def test_a_hub_in_production_has_none_unless_it_is_given_a_credential():
    apps = json.dumps([{"id": "1", "key": APP_KEY, "secret": APP_SECRET}])
    with Server(CARILLON_APPS=apps) as server:
        for path in ("/console", "/console/console.js", "/console/api/hub"):
            assert ask(server, "GET", path)[0].status == 404


def test_the_credential_opens_it(guarded, browser, credential):
    with Console(browser, guarded) as console:
        field = console.page.get_by_label("Credential of the console")
        field.fill("wrong")
        console.page.get_by_role("button", name="Open").click()
        console.page.get_by_text("That is not the credential").wait_for()
        assert not console.page.locator("#overview").is_visible()
        field.fill(credential)
        console.page.get_by_role("button", name="Open").click()
        console.page.locator("#overview").wait_for()
        console.opens("Send")
        console.fills("create", "Channels", "news")
        console.fills("create", "Event", "hello")
        console.page.get_by_role("button", name="Send").click()
        console.page.get_by_text("Sent to 0 connections.").wait_for()
        console.page.get_by_role("button", name="Forget").click()
        field.wait_for()
        assert not console.page.locator("#create").is_visible()
        console.page.reload()
        field.wait_for()


def test_nobody_else_is_let_in(guarded, credential):
    own = guarded.operations
    good = {"Authorization": f"Bearer {credential}"}
    body = json.dumps({"name": "x", "channel": "news", "data": "{}"}).encode()
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {credential}x"},
                    {"Authorization": f"Basic {credential}"}, {"Origin": own}):
        for method, name in (("GET", "hub"), ("GET", "connections"), ("POST", "publish?app=1"),
                             ("POST", "terminate?app=1&user=u"), ("GET", "members?app=1&channel=presence-a")):
            answer, text = ask(guarded, method, f"/console/api/{name}", body if method == "POST" else None, **headers)
            assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer", (headers, name)
    for origin in ("https://evil.example", "null", own.replace("http:", "https:") + "1"):
        for name in ("publish?app=1", "terminate?app=1&user=u"):
            answer, _ = ask(guarded, "POST", f"/console/api/{name}", body, Origin=origin, **good)
            assert answer.status == 403, (origin, name)
    for headers in (good, {**good, "Origin": own}):
        assert ask(guarded, "POST", "/console/api/publish?app=1", body, **headers)[0].status == 200
        assert ask(guarded, "POST", "/console/api/terminate?app=1&user=u", **headers)[0].status == 200
    # Without console.payloads there are none, and a hub without a database has no users' channels.
    assert ask(guarded, "POST", "/console/api/payload?channel=user.1.adherence&offset=1", **good)[0].status == 403
    assert ask(guarded, "GET", "/console/api/log?channel=user.1.adherence", **good)[0].status == 404
    assert ask(guarded, "GET", "/console/api/way?channel=news&offset=1", **good)[0].status == 400
    assert ask(guarded, "GET", "/console/api/nothing", **good)[0].status == 404
    eventually(lambda: audit(guarded, "console: credentials refused"), "the log says so")
    assert credential not in guarded.program.err.text()


def test_in_development_it_is_for_browsers_of_this_machine(hub):
    own = hub.operations
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"},
                    {"Origin": "http://evil.example", "Host": "evil.example"}):
        assert ask(hub, "GET", "/console/api/hub", **headers)[0].status == 403, headers
    assert ask(hub, "GET", "/console", Host="evil.example")[0].status == 403
    for name in ("publish?app=1", "terminate?app=1&user=u"):
        assert ask(hub, "POST", f"/console/api/{name}", b"{}")[0].status == 403, "a POST names its origin"
    assert ask(hub, "GET", "/console/api/publish?app=1", Origin=own)[0].status == 405
    answer, _ = ask(hub, "GET", "/console")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["Access-Control-Allow-Origin"] is None
    assert ask(hub, "GET", "/console/api/hub")[0].headers["Cache-Control"] == "no-store"


# How it is used


def test_the_keyboard_is_enough(hub, browser):
    with Console(browser, hub) as console:
        page = console.page
        focused = "document.activeElement.textContent || document.activeElement.id"
        page.locator("#tab-overview").focus()
        for name in TABS[1:] + TABS[:1]:
            page.keyboard.press("ArrowRight")
            assert page.evaluate(focused) == name
        page.keyboard.press("End")
        assert page.evaluate(focused) == "Send" and page.locator("#create").is_visible()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('#create select')")
        labels = page.evaluate("""() => [...document.querySelectorAll('input, select, textarea')]
            .filter((one) => !one.labels?.length && !one.getAttribute('aria-label')).map((one) => one.outerHTML)""")
        assert labels == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_readable(hub, browser, scheme):
    for width in (360, 1280):
        with Console(browser, hub, color_scheme=scheme, viewport={"width": width, "height": 844}) as console:
            console.page.locator(".plot").first.wait_for()
            for name in TABS:
                console.opens(name)
                assert console.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, name)
                assert console.page.evaluate(PALE) == [], (width, name)
                assert nameless(console.page) == [], (width, name)
