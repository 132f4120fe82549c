"""A browser with the web client: headless Chromium, driven by Playwright, on pages served from this tree."""

import contextlib
import functools
import http.server
import pathlib
import shutil
import threading

from playwright.sync_api import sync_playwright

from hub import APP_KEY
from proxy import BackgroundProxy
from waiting import PATIENCE, eventually

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT = ROOT / "Sources/Clients/Web"
TYPES = {".js": "text/javascript", ".html": "text/html", ".json": "application/json"}
SHELL = '<!doctype html><title>judge</title><script type="module" src="./{}.js"></script>'


class Handler(http.server.BaseHTTPRequestHandler):
    """`/<variant>/<file>`: the client's modules, changed as the variant says, and the judges' files and pages."""

    protocol_version = "HTTP/1.1"

    def __init__(self, site, *arguments):
        self.site = site
        super().__init__(*arguments)

    def do_GET(self):
        variant, _, name = self.path.split("?")[0][1:].partition("/")
        body = self.site.body(variant, name)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", TYPES.get(pathlib.Path(name).suffix, "text/html"))
        self.send_header("Content-Length", str(len(body or b"")))
        if name.endswith(".js") and body:
            self.send_header("Cache-Control", "max-age=600")
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


class Site:
    """Serves the modules. A variant has changes: (file, before, after)."""

    def __init__(self):
        self.variants = {"client": []}
        self.pages = {}
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def body(self, variant, name):
        if name in self.pages:
            return self.pages[name].encode()
        if name in ("page.html", "device.html"):
            return SHELL.format(name.removesuffix(".html")).encode()
        found = [folder / name for folder in (CLIENT, HERE / "web", ROOT / "Tests/Vectors") if (folder / name).is_file()]
        if variant not in self.variants or not found:
            return None
        text = found[0].read_text()
        for file, before, after in self.variants[variant]:
            if file == name:
                assert text.count(before) == 1, f"{file} has changed: {before}"
                text = text.replace(before, after)
        return text.encode()


def chromium():
    """Debian's shell without windows, which starts sooner and takes half the work; or the one that the machine has."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One Chromium. Each device is a context of its own: nothing is shared but the network."""

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        playwright = self._stack.enter_context(sync_playwright())
        self.chromium = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        self._stack.callback(self.chromium.close)
        self.site = Site()
        self._stack.callback(self.site.close)
        return self

    def __exit__(self, *_):
        self._stack.close()

    def device(self, hub, user, **options):
        return Device(self, hub, user, **options)


class Device:
    """A browser of one user, with a line to the hub that can be cut."""

    def __init__(self, browser, hub, user, variant="client"):
        self.browser = browser
        self.hub = hub
        self.user = user
        self.variant = variant
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self._background = self._stack.enter_context(BackgroundProxy(self.hub.port))
        self.proxy = self._background.proxy
        self.context = self.browser.chromium.new_context(timezone_id="UTC")
        self._stack.callback(self.context.close)
        return self

    def __exit__(self, *_):
        self._stack.close()

    def tab(self, die_after=None, **options):
        """A page with a started client."""
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        tab = Tab(self, page)
        page.goto(f"{self.browser.site.address}/{self.variant}/page.html")
        page.wait_for_function("globalThis.pages")
        if die_after:
            page.evaluate(f"globalThis.dieAfter = {die_after}")
        wanted = {"hub": f"http://127.0.0.1:{self.proxy.port}", "key": APP_KEY, "user": self.user,
                  "token": self.hub.token(self.user), **options}
        try:
            page.evaluate("(options) => begin(options)", wanted)
        except Exception:
            if not die_after:
                raise
        return tab

    def offline(self):
        """No network: what is open is cut, and nothing new comes through."""
        self.proxy.is_down = True
        self._background.do(self.proxy.cut_all())

    def online(self):
        self.proxy.is_down = False


class Tab:
    """A page with a client in it."""

    def __init__(self, device, page):
        self.device = device
        self.page = page
        self.errors = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def run(self, code, argument=None):
        """What an asynchronous function body returns; `client` and `given` are there."""
        return self.page.evaluate("async (given) => { const client = globalThis.client; " + code + " }", argument)

    def act(self, kind, payload, **options):
        return self.run("return (await client.act(given[0], given[1], given[2])).key", [kind, payload, options])

    def value(self, name):
        return self.run(f"return client.{name}().value")

    def get(self, name):
        return self.run(f"const value = client.{name}.value; return value instanceof Error"
                        " ? { code: value.code, message: value.message } : value")

    def dose(self, identity):
        shown = self.value("today") or {"occurrences": []}
        return next((one for one in shown["occurrences"] if one["id"] == identity), None)

    def becomes(self, condition, what):
        return eventually(condition, f"{what}; problem: {self.get('problem')}, errors: {self.errors}")

    def is_quiet(self):
        """Connected, nothing waits, and all that was answered has come."""
        return self.run("""
            return client.connection.value === 'connected' && client.queueLength.value === 0
                && client.values.today.value !== undefined
                && !client.today().value.occurrences.some((dose) => dose.isPending)""")

    def settles(self):
        self.becomes(self.is_quiet, "the device is connected and has sent all")
        return self

    def sent(self):
        return self.run("return globalThis.sent")


def today_rows(hub, user):
    """The doses of today as the table has them."""
    return {identity: {"status": status, "note": note, "rev": rev} for identity, status, note, rev in hub.query(
        "select id, status, note, rev from care.dose_occurrence as d where user_id = %s and status <> 'cancelled'"
        " and care.is_of_today(d, current_date, 'UTC', now())", [user])}


def shown_rows(tab):
    shown = tab.value("today")
    return {dose["id"]: {name: dose[name] for name in ("status", "note", "rev")} for dose in shown["occurrences"]}


def agrees(tab, hub, user):
    """The device shows what the table has."""
    tab.settles()
    eventually(lambda: shown_rows(tab) == today_rows(hub, user),
               f"{user}: the device shows {shown_rows(tab)}, the table has {today_rows(hub, user)}")

