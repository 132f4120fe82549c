"""The code of the web client's page, pasted as it stands, with the modules that the hub itself serves."""

import functools
import http.server
import re
import subprocess
import threading

import pytest

from actions import Caller, add_dose, plain
from hub import Hub
from pages import ROOT, at, code
from waiting import eventually
from web import Browser

PAGE = ROOT / "Sources/Clients/Web/README.md"

#: What the page's code finds in an app, and what the test asks of it.
SHELL = """<!doctype html><pre id="today"></pre><script type="module">
{script}
globalThis.carillon = carillon;
globalThis.take = take;
</script>"""

LIBRARIES = """
import { Carillon } from 'MODULE';
const carillon = globalThis.carillon;
const data = new Map(), actions = [];
const queryClient = { setQueryData: (key, value) => data.set(key.join('/'), value) };
const store = { dispatch: (action) => actions.push(action) };
%s
const ends = [bindQueries(queryClient, carillon, 'ana'), bindStore(store, carillon)];
globalThis.bound = { data, actions, ends, first: await todayQuery(carillon, 'ana').queryFn() };
const note = { occurrenceId: 'DOSE', text: 'by a hook' };
await adherenceMutation(carillon).mutationFn({ actionType: 'addNote', payload: note });
"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def test_the_pages_code_takes_a_dose(browser, hub, user):
    dose = add_dose(hub, user)
    address = f"http://127.0.0.1:{hub.port}"
    script = "\n".join(code(PAGE, "## Start", "js") + code(PAGE, "## Show", "js") + code(PAGE, "## Act", "js"))
    assert "'./carillon.js'" in script and "'TOKEN'" in script and "user: 'demo'" in script
    script = (script.replace("./carillon.js", f"{address}/client/carillon.js").replace("http://127.0.0.1:6001", address)
              .replace("TOKEN", hub.token(user)).replace("user: 'demo'", f"user: '{user}'"))
    browser.site.pages["app.html"] = SHELL.format(script=script)
    context = browser.chromium.new_context()
    page = context.new_page()
    page.goto(f"{browser.site.address}/client/app.html")
    eventually(lambda: "scheduled" in page.inner_text("#today"), "the page shows the dose")
    page.evaluate("() => take(carillon.today().value.occurrences[0])")
    eventually(lambda: "taken" in page.inner_text("#today"), "the page shows that it is taken")
    eventually(
        lambda: hub.query("select status from care.dose_occurrence where id = %s", [dose]) == [("taken",)], "the hub too")
    hooks = "\n".join(code(PAGE, "## react-query and redux", "js"))
    module = (LIBRARIES % re.sub(r"^export ", "", hooks, flags=re.M)).replace("DOSE", dose)
    page.add_script_tag(content=module.replace("MODULE", f"{address}/client/carillon.js"), type="module")
    note = "() => globalThis.bound?.data.get('adherence/today/ana')?.occurrences[0].note"
    eventually(lambda: page.evaluate(note) == "by a hook", "the queries' data is set")
    month = "() => bound.data.get(`adherence/month/ana/${new Date().toLocaleDateString('sv').slice(0, 7)}`)?.length"
    eventually(lambda: page.evaluate(month), "a month's data is set")
    assert page.evaluate("() => bound.actions.length > 1 && bound.actions[0].type") == "sync/changed"
    context.close()


#: react-query 4 and 5, as their guide "Network Mode" promises: while the browser is offline, functions of the mode `online`,
#: the default, are not called. They wait for the network, and end with the page.
REACT_QUERY = """
globalThis.called = (options, name, argument) => (
  (options.networkMode ?? 'online') === 'online' && !navigator.onLine ? new Promise(() => {}) : options[name](argument));
"""

OFFLINE = """
%s
globalThis.hooks = { query: todayQuery(carillon, 'ana'), mutation: adherenceMutation(carillon) };
"""


def test_a_tap_made_offline_reaches_the_queue_through_react_query(browser, hub, user):
    """Without a network the screen shows what is kept, and the tap is on disk before the page is closed."""
    dose = add_dose(hub, user)
    address = f"http://127.0.0.1:{hub.port}"
    start = (code(PAGE, "## Start", "js")[0].replace("http://127.0.0.1:6001", address)
             .replace("TOKEN", hub.token(user)).replace("user: 'demo'", f"user: '{user}'"))
    hooks = re.sub(r"^export ", "", code(PAGE, "## react-query and redux", "js")[0], flags=re.M)
    browser.site.pages["hooks.html"] = (
        f"<!doctype html><script>{REACT_QUERY}</script><script type=module>{start}{OFFLINE % hooks}</script>")
    context = browser.chromium.new_context()
    page = context.new_page()
    page.goto(f"{browser.site.address}/client/hooks.html")
    shown = "async () => (await called(hooks.query, 'queryFn')).occurrences.map((one) => one.status)"
    eventually(lambda: page.evaluate("() => !!globalThis.hooks"), "the client has started")
    assert page.evaluate(shown) == ["scheduled"]
    context.set_offline(True)
    assert page.evaluate(shown) == ["scheduled"]
    tap = {"actionType": "markTaken", "payload": {"occurrenceId": dose}}
    page.evaluate("async (tap) => { await called(hooks.mutation, 'mutationFn', tap); }", tap)
    assert page.evaluate(shown) == ["taken"]
    # A socket that was open before may have sent it: Chromium cuts those off a little later.
    page.close()
    context.set_offline(False)
    context.new_page().goto(f"{browser.site.address}/client/hooks.html")
    eventually(
        lambda: hub.query("select status from care.dose_occurrence where id = %s", [dose]) == [("taken",)],
        "the tap is sent when the page is opened again")
    context.close()


def declared(kind):
    """The members of an interface or class in the types of the module."""
    text = PAGE.with_name("carillon.d.ts").read_text()
    body = re.search(rf"^export (?:interface|declare class) {kind}\b.*?{{\n(.*?)^}}", text, re.S | re.M)[1]
    return set(re.findall(r"^  (?:readonly )?(\w+)\??[:(<]", body, re.M)) - {"constructor"}


def test_the_types_are_those_of_the_module(browser, hub, user):
    """Whatever the types promise is there: an app in TypeScript has nothing else to go by."""
    dose = add_dose(hub, user)
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        exported = tab.run("return Object.keys(await import('./carillon.js'))")
        types = PAGE.with_name("carillon.d.ts").read_text()
        assert exported and all(re.search(rf"^export declare class {name}\b", types, re.M) for name in exported)
        missing = "return given.filter((name) => !(name in %s))"
        assert tab.run(missing % "client", sorted(declared("Carillon"))) == []
        assert tab.run(missing % "client.conflicts", sorted(declared("Signal"))) == []
        phone.offline()
        tab.act("skip", {"occurrenceId": dose})
        Caller(hub, user).settle(plain("markTaken", {"occurrenceId": dose}))
        phone.online()
        tab.becomes(lambda: tab.get("queueLength") == 0 and tab.get("conflicts"), "all is sent, and a conflict is told")
        tab.becomes(lambda: tab.value("medications") is not None, "the lists are here")
        today = tab.value("today")
        for kind, value in [
            ("Today", today), ("Dose", tab.dose(dose)), ("DaySummary", today["summary"]), ("Stats", today["stats"]),
            ("QueuedAction", tab.get("conflicts")[0]), ("Medications", tab.value("medications")),
        ]:
            assert declared(kind) - set(value) == set(), f"{kind} lacks what its type promises"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def fly(browser, hub, context, page, dose):
    """The plane flight of the page: a dose is taken in the air, and skipped on a second device."""
    ground = browser.chromium.new_context()
    tablet = ground.new_page()
    tablet.goto(page.url)
    eventually(lambda: "connected" in tablet.inner_text("span"), "the second device is connected")
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    context.set_offline(True)
    page.click("#take")
    eventually(lambda: "1 to send" in page.inner_text("span"), "an action waits")
    eventually(lambda: "connected" not in page.inner_text("span"), "the page tells that it is offline")
    tablet.click("#skip")
    eventually(lambda: "skipped" in tablet.inner_text("#today"), "the second device shows that it is skipped")
    status = "select status from care.dose_occurrence where id = %s"
    eventually(lambda: hub.query(status, [dose]) == [("skipped",)], "the hub too")
    context.set_offline(False)
    for shown in (page, tablet):
        eventually(lambda: "taken" in shown.inner_text("#today"), "what was done in the air counts")
    assert asked == ["It is skipped there, and taken here. Keep yours?"]
    assert hub.query(status, [dose]) == [("taken",)]
    eventually(lambda: "connected, 0 to send" in page.inner_text("span"), "all is sent")
    ground.close()


def test_the_whole_app_opens_without_a_network(browser, user, tmp_path):
    """Neither the app's server nor the hub is there: the page opens, a dose is taken, and sent later."""
    shell, = code(PAGE, "## A whole app", "sh")
    kept, = re.findall(r"const files = (\[.*?\]);", code(PAGE, "## A whole app", "js")[0], re.S)
    assert re.findall(r"'(\w+\.js)'", kept) == sorted(file.name for file in PAGE.parent.glob("*.js"))
    lines = shell.splitlines()
    assert lines[0].startswith("TOKEN=") and lines[-1].startswith("python3 -m http.server --directory $APP")
    (tmp_path / "Sources").symlink_to(ROOT / "Sources")
    with Hub() as hub:
        hub.wait_until_listening()
        hub.listen = f"127.0.0.1:{hub.port}"
        other, dose = add_dose(hub, user), add_dose(hub, user)
        script = "\n".join([f"TOKEN={hub.token(user)}", *lines[1:-1]])
        subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True)
        index = tmp_path / ".carillon/app/index.html"
        text = index.read_text()
        index.write_text(at(hub, text).replace("user: 'demo'", f"user: '{user}'"))
        handler = functools.partial(Quiet, directory=index.parent)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = browser.chromium.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        eventually(lambda: "scheduled" in page.inner_text("#today"), "the page shows the dose")
        page.evaluate("() => navigator.serviceWorker.ready")
        fly(browser, hub, context, page, other)
        server.shutdown()
        server.server_close()
        hub.program.kill()
        page.reload()
        eventually(lambda: "scheduled" in page.inner_text("#today"), "the page opens without a network")
        page.click("#take")
        eventually(lambda: "scheduled" not in page.inner_text("#today"), "the dose is shown as taken")
        eventually(lambda: "1 to send" in page.inner_text("span"), "an action waits")
        hub.start()
        eventually(lambda: "connected, 0 to send" in page.inner_text("span"), "the action is sent")
        assert hub.query("select status from care.dose_occurrence where id = %s", [dose]) == [("taken",)]
        context.close()
