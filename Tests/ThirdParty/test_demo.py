"""The demonstration of `carillon dev`, as a person with a browser finds it: two phones, a switch each, and the wire."""

import http.client
import json
import re
from urllib.parse import urlsplit

import pytest

from actions import add_dose
from hub import Hub
from waiting import PATIENCE, eventually
from web import Browser

#: The contrast of each visible text with what it stands on (WCAG 2.1, 1.4.3), where it is below 4.5.
PALE = """() => {
  const part = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * part(r / 255) + 0.7152 * part(g / 255) + 0.0722 * part(b / 255);
  const under = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(one).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].filter((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own.length || element.closest('[inert], :disabled, .unseen, svg') || !element.checkVisibility()) continue;
    const [one, other] = [light(numbers(getComputedStyle(element).color)), light(under(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push([element.className, own[0].textContent.trim(), contrast.toFixed(2)]);
  }
  return found;
}"""

#: What a page asks for and cannot be painted without.
BLOCKING = """() => performance.getEntriesByType('resource').filter((one) => one.renderBlockingStatus === 'blocking')
  .map((one) => one.name)"""

#: Where the focus is: its place, and whether a person sees it.
FOCUS = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const { top, bottom } = one.getBoundingClientRect();
  const labels = (one.getAttribute('aria-labelledby') ?? '').split(' ')
    .map((id) => document.getElementById(id)?.textContent);
  return { isBody: one === document.body,
    name: one.getAttribute('aria-label') || labels.join(' ') || one.textContent.trim() || one.labels?.[0]?.textContent,
    within: one.closest('#left, #right, .wire, header')?.id || one.closest('.wire, header')?.className,
    isSeen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && bottom > 0 && top < innerHeight };
}"""

#: A browser that tells of no paint: it does not know of them, or the tab is in the background.
UNPAINTED = """
  const { observe } = PerformanceObserver.prototype;
  PerformanceObserver.prototype.observe = function told(options) {
    if (options.type !== 'paint') observe.call(this, options);
  };"""
NO_PAINT = {
    "a browser": "Object.defineProperty(PerformanceObserver, 'supportedEntryTypes', { value: ['resource'] });",
    "a tab in the background": "Object.defineProperty(document, 'hidden', { value: true });",
}

CONTROLS = {"button", "checkbox", "combobox", "dialog", "alertdialog", "link", "listbox", "radio", "region", "searchbox",
            "spinbutton", "switch", "tab", "table", "tablist", "tabpanel", "textbox", "image", "img", "InputTime"}


def nameless(page):
    """What a screen reader would read without a name, by the browser's accessibility tree."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [node["role"]["value"] for node in nodes if not node["ignored"] and node["role"]["value"] in CONTROLS
            and not node.get("name", {}).get("value")]


@pytest.fixture(scope="module")
def demo():
    with Hub() as running:
        running.wait_until_listening()
        yield running


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


class Page:
    """The demonstration in a browser of its own."""

    def __init__(self, browser, hub, script="", **options):
        self.hub = hub
        self.context = browser.chromium.new_context(**options)
        self.context.add_init_script(script)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.errors, self.requests = [], []
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))
        self.page.goto(f"http://127.0.0.1:{hub.port}/demo")

    def __enter__(self):
        return self.agrees()

    def __exit__(self, *_):
        self.context.close()

    def agrees(self):
        self.says("Both phones agree")
        return self

    def says(self, text):
        eventually(lambda: text in self.page.inner_text("#agreement"),
                   f"{text}, not {self.page.inner_text('#agreement')}; {self.errors}")

    def dose(self, phone, identity):
        return self.page.locator(f"#{phone} .dose[data-id='{identity}']")

    def becomes(self, phone, identity, status):
        row = self.dose(phone, identity)
        eventually(lambda: row.count() and row.get_attribute("data-status") == status, f"{phone} shows {status}")

    def opens(self, phone, name):
        self.page.locator(f"#{phone}").get_by_role("tab", name=name).click()

    def edits(self, phone, identity, **fields):
        row = self.page.locator(f"#{phone} .reminders > li[data-id='{identity}']")
        row.get_by_role("button", name="Edit").click()
        for name, text in fields.items():
            row.locator(f"input[name={name}]").fill(text)
        row.get_by_role("button", name="Save").click()


def status(hub, dose):
    return hub.query("select status from care.dose_occurrence where id = %s", [dose])[0][0]


def reminder(hub):
    """A reminder of its own for a test."""
    (identity,), = hub.query("insert into care.reminder_rule (user_id, product_id, label, time) values"
                             " ('demo', 'zinc', 'Zinc again', '10:00') returning id")
    return identity


def test_it_opens_at_once_and_asks_nobody_else(demo, browser, record_property):
    demo.program.out.wait_for(lambda line: line.endswith("/demo"), "the page's address")
    with Page(browser, demo) as shown:
        paint = shown.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        record_property("report", f"first paint after {paint:.0f} ms")
        own = f"127.0.0.1:{demo.port}"
        assert {urlsplit(url).netloc for url in shown.requests} == {own}
        assert any(url.startswith(f"ws://{own}/app/") for url in shown.requests)
        assert shown.page.evaluate(BLOCKING) == [], "the first paint waits for nothing but the page"
        eventually(lambda: shown.page.locator(".heat [data-level]").count() > 14, "the months have their days")
        eventually(lambda: re.search(r"\d+ days", shown.page.inner_text("#left .streaks")), "there are streaks")
        assert shown.errors == []


@pytest.mark.parametrize("where", NO_PAINT)
def test_it_starts_where_no_paint_is_told(demo, browser, where):
    with Page(browser, demo, script=UNPAINTED + NO_PAINT[where]) as shown:
        assert shown.errors == []


def test_what_one_phone_does_the_other_shows(demo, browser):
    dose = add_dose(demo, "demo")
    with Page(browser, demo) as shown:
        shown.becomes("right", dose, "scheduled")
        shown.dose("left", dose).get_by_role("button", name="Take").click()
        shown.becomes("right", dose, "taken")
        row = shown.page.locator("#rows .row[data-phone=B]", has_text="occurrence.updated").first
        assert int(re.search(r"\d+$", row.locator(".offset").inner_text()).group()) > 0
        shown.dose("left", dose).get_by_role("button", name="Undo").click()
        shown.becomes("right", dose, "scheduled")
        # By the notice, which stays, and for all at once.
        more = add_dose(demo, "demo")
        shown.becomes("left", more, "scheduled")
        shown.page.locator("#left").get_by_role("button", name="Mark all").click()
        for one in (dose, more):
            shown.becomes("right", one, "taken")
        shown.page.locator("#left .notice").get_by_role("button", name="Undo").click()
        for one in (dose, more):
            shown.becomes("right", one, "scheduled")
        assert shown.errors == []


def test_a_missed_dose_is_made_up(demo, browser):
    (dose,), = demo.query(
        "insert into care.dose_occurrence (user_id, product_id, status, scheduled_at, window_end) values"
        " ('demo', 'zinc', 'missed', now() - interval '1 second', now()) returning id")
    with Page(browser, demo) as shown:
        shown.dose("right", dose).get_by_role("button", name="Make up").click()
        shown.becomes("left", dose, "made_up")
        assert status(demo, dose) == "made_up"


def test_phones_without_a_network_agree_afterwards(demo, browser):
    one, other = add_dose(demo, "demo"), add_dose(demo, "demo")
    with Page(browser, demo) as shown:
        for phone in ("left", "right"):
            shown.becomes(phone, one, "scheduled")
            shown.page.locator(f"#{phone}").get_by_role("switch", name="Offline").click()
        shown.dose("left", one).get_by_role("button", name="Take").click()
        shown.dose("right", other).get_by_role("button", name="Take").click()
        shown.becomes("left", one, "taken")
        shown.says("They differ in 2 places")
        assert "1 waiting" in shown.page.inner_text("#left .state")
        # The cut is real: a change by somebody else reaches no phone, and nothing reaches the hub.
        late = add_dose(demo, "demo")
        asked = len(shown.requests)
        shown.page.locator("#cut[disabled]").wait_for()
        assert status(demo, one) == "scheduled" and status(demo, other) == "scheduled"
        assert shown.dose("left", late).count() == 0 and len(shown.requests) == asked
        assert shown.page.locator("#rows .row").first.locator(".event").inner_text() == "the network is cut"
        shown.page.click("#mend")
        for phone in ("left", "right"):
            shown.becomes(phone, one, "taken")
            shown.becomes(phone, other, "taken")
            shown.becomes(phone, late, "scheduled")
        shown.agrees()
        assert status(demo, one) == status(demo, other) == "taken"
        assert [error for error in shown.errors if "ERR_" not in error] == []


@pytest.mark.parametrize("choice, wanted", [("Keep mine", "11:45"), ("Take theirs", "11:15")])
def test_a_conflict_is_shown_and_decided(demo, browser, choice, wanted):
    rule = reminder(demo)
    with Page(browser, demo) as shown:
        for phone in ("left", "right"):
            shown.opens(phone, "Reminders")
            shown.page.locator(f"#{phone} [data-id='{rule}']").wait_for()
        shown.page.click("#cut")
        shown.edits("left", rule, time="11:15")
        shown.edits("right", rule, time="11:45")
        # The left one is there first.
        shown.page.locator("#left").get_by_role("switch", name="Offline").click()
        eventually(lambda: demo.query("select time::text from care.reminder_rule where id = %s", [rule])[0][0] == "11:15:00",
                   "the hub has the left one's time")
        shown.page.click("#mend")
        dialog = shown.page.get_by_role("alertdialog")
        dialog.wait_for()
        assert dialog.locator("tbody tr").inner_text().split("\t") == ["Time", "11:45", "11:15"]
        # Read aloud, and nothing behind it is reached: from the phone's switch, the keyboard comes to the dialogue.
        assert "Zinc again: which one?" in shown.page.locator("#right > [role=status]").inner_text()
        shown.page.locator("#right").get_by_role("switch", name="Offline").focus()
        for button in ("Keep mine", "Take theirs"):
            shown.page.keyboard.press("Tab")
            assert shown.page.evaluate("document.activeElement.textContent") == button
        shown.page.keyboard.press("Tab")
        assert shown.page.evaluate("document.activeElement.closest('#right') === null")
        assert nameless(shown.page) == []
        shown.says("1 conflict to decide")
        dialog.get_by_role("button", name=choice).click()
        dialog.wait_for(state="hidden")
        shown.agrees()
        # A list is drawn a frame after the values that the phones agree on.
        for phone in ("left", "right"):
            time = shown.page.locator(f"#{phone} [data-id='{rule}'] .at")
            eventually(lambda: time.inner_text() == wanted, f"{phone} shows {wanted}")
        assert demo.query("select to_char(time, 'HH24:MI') from care.reminder_rule where id = %s", [rule]) == [(wanted,)]


def test_the_keyboard_is_enough(demo, browser):
    dose = add_dose(demo, "demo")
    with Page(browser, demo) as shown:
        shown.becomes("left", dose, "scheduled")
        page = shown.page
        focused = """() => { const one = document.activeElement;
            return one.getAttribute('aria-label') || one.textContent || one.id }"""

        def press(key, until, times=60):
            for _ in range(times):
                page.keyboard.press(key)
                if until():
                    return
            raise AssertionError(f"{key} does not lead there; the focus is on {page.evaluate(focused)}")

        in_left = "(name) => document.activeElement.matches(`#left [role=${name}]`)"
        press("Tab", lambda: page.evaluate(in_left, "switch"))
        page.keyboard.press("Space")
        eventually(lambda: "Offline" in page.inner_text("#left .state"), "the space bar cuts the network")
        page.keyboard.press("Space")
        # What is said of the network would take the place of what is said of the dose.
        eventually(lambda: "Connected" in page.inner_text("#left .state"), "and brings it back")
        press("Tab", lambda: page.evaluate("(id) => document.activeElement.closest(`[data-id='${id}']`) !== null", dose))
        page.keyboard.press("Enter")
        shown.becomes("right", dose, "taken")
        assert page.evaluate(focused).startswith("Undo: Zinc"), "the focus stays with the dose"
        press("Tab", lambda: page.evaluate(in_left, "tab"))
        page.keyboard.press("ArrowRight")
        assert page.evaluate(focused) == "Month"
        assert page.locator("#left .heat").is_visible() and not page.locator("#left .doses").is_visible()
        page.keyboard.press("End")
        assert page.evaluate(focused) == "Reminders"
        press("Shift+Tab", lambda: page.evaluate(focused) == "Edit")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.name") == "label"
        page.keyboard.press("Escape")
        assert page.evaluate(focused) == "Edit"
        assert "Phone A: Zinc taken" in page.locator("#left [role=status]").all_inner_texts()


def test_each_stop_of_the_keyboard_is_seen_and_named(demo, browser):
    add_dose(demo, "demo")
    with Page(browser, demo) as shown:
        page, stops = shown.page, []
        page.locator("#left").get_by_role("button", name="Take").first.wait_for()
        page.evaluate("document.activeElement.blur()")
        while len(stops) < 100:
            page.keyboard.press("Tab")
            stop = page.evaluate(FOCUS)
            if stop["isBody"]:
                break
            assert stop["isSeen"] and stop["name"], stop
            stops.append(stop["within"])
        places = [place for index, place in enumerate(stops) if index == 0 or stops[index - 1] != place]
        assert places == ["top", "left", "right", "wire"], "in the order in which they stand"
        for letter in "AB":
            assert page.get_by_role("switch", name=f"Phone {letter} Offline").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_readable(demo, browser, scheme):
    for width in (360, 820, 1280):
        with Page(browser, demo, color_scheme=scheme, viewport={"width": width, "height": 844}) as shown:
            wide, room, high, foot = shown.page.evaluate("""() => [document.documentElement.scrollWidth, innerWidth,
                document.documentElement.scrollHeight,
                document.querySelector('.wire').getBoundingClientRect().bottom + scrollY]""")
            assert wide <= room, f"{width}: nothing sticks out"
            assert high < foot + 60, f"{width}: nothing is below the wire"
            for name in ("Today", "Month", "Reminders"):
                shown.opens("left", name)
                assert shown.page.evaluate(PALE) == [], (width, name)
                assert nameless(shown.page) == [], (width, name)
            shown.page.click("#cut")
            assert shown.page.evaluate(PALE) == [], width


def ask(hub, method, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=PATIENCE)
    connection.putrequest(method, path, skip_host=True)
    for name, text in {"Host": f"127.0.0.1:{hub.port}", "Content-Length": "0", **headers}.items():
        connection.putheader(name, text)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_only_its_own_page_gets_a_token(demo):
    own = f"http://127.0.0.1:{demo.port}"
    answer, body = ask(demo, "POST", "/demo/token", Origin=own)
    pass_ = json.loads(body)
    assert answer.status == 200 and pass_["user"] == "demo" and pass_["seconds"] <= 600
    assert answer.headers["Cache-Control"].endswith("no-store")
    for headers in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": f"http://localhost:{demo.port}"},
                    # A name of somebody else's that leads here.
                    {"Origin": "http://evil.example", "Host": "evil.example"}):
        answer, body = ask(demo, "POST", "/demo/token", **headers)
        assert answer.status == 403 and pass_["token"].encode() not in body, headers
    assert ask(demo, "GET", "/demo/token", Origin=own)[0].status == 405
    answer, _ = ask(demo, "GET", "/demo")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Access-Control-Allow-Origin"] is None
    assert ask(demo, "GET", "/demo", Host="evil.example")[0].status == 403
    assert ask(demo, "GET", "/demo/nothing.js")[0].status == 404
