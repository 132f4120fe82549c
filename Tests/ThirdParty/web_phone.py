"""A phone with the web library: tabs whose processes end between any two writes, and a store in the browser's profile."""

import asyncio
import contextlib
import datetime

from playwright.async_api import Error

from hub import APP_KEY
from library_phone import Died, Kept, LibraryPhone, Screen
from lines import Unanswered, in_time

#: How Playwright tells that a page, or the whole browser, has gone.
GONE = ("crashed", "has been closed", "was destroyed", "was detached", "ERR_ABORTED", "connection closed")

#: Seconds that a new tab may take.
OPENING = 15


class WebPhone(LibraryPhone):
    """A device of the browser: one tab, or two that share a store and may outlive each other."""

    late = ("no_conflict", "closed")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._most = 2 if self.dice.random() < 0.4 else 1
        self._tabs = []
        hub = f"http://127.0.0.1:{self.proxy.port}"
        self._options = {"hub": hub, "key": APP_KEY, "user": self.person.user, "device": self.name,
                         "token": self.storm.token(self.person.user), "canary": self.person.canary}
        self._store = f"carillon:{hub}:{self.person.user}:{self.name}"

    async def begin(self, die_at):
        while len(self._tabs) < self._most:
            tab = await self._open()
            if kept := await self._of(tab, {"do": "kept", "name": self._store}):
                self.learn(Kept(**kept))
            answer = await self._of(tab, {"do": "begin", "dieAt": die_at, "options": self._options})
            if answer:
                self.ledger.fault(f"{self.name}: {answer['error']} at its begin")
            self._tabs.append(tab)

    async def _open(self):
        try:
            # The browser may be killed meanwhile, and Playwright does not always tell.
            with self._deaths():
                async with asyncio.timeout(OPENING):
                    tab = await self.storm.browser.page()
                    tab.on("crash", lambda: self.storm.later(self._clear(tab)))
                    tab.on("pageerror", self._failed)
                    await tab.goto(f"{self.storm.site.address}/{self.storm.variant}/device.html")
                    return tab
        except TimeoutError:
            self.ledger.counts["tabs that did not open"] += 1
            raise Died from None

    def _failed(self, error):
        self.ledger.fault(f"{self.name}: its page failed: {error}\n{error.stack}")

    @staticmethod
    async def _clear(tab):
        with contextlib.suppress(Error):
            await tab.close()

    @contextlib.contextmanager
    def _deaths(self, tab=None):
        """What befalls a tab in here is its death."""
        try:
            yield
        except Error as error:
            if not any(word in str(error) for word in GONE):
                raise
            if tab in self._tabs:
                self._tabs.remove(tab)
            raise Died from None

    async def _of(self, tab, request):
        try:
            with self._deaths(tab):
                return await in_time(tab.evaluate("(request) => ask(request)", request), f"an answer to {request}")
        except Unanswered as error:
            self.ledger.fault(f"{self.name}: not there: {error}")
            raise Died from None

    async def ask(self, request):
        return await self._of(self.dice.choice(self._tabs), request)

    async def look(self):
        screens = []
        for number, tab in enumerate(list(self._tabs)):
            told = await self._of(tab, {"do": "look"})
            for text in told.pop("overheard"):
                self.storm.overheard(self.person, text)
            for dose in told["shown"]["doses"]:
                taken = dose["takenAt"]
                dose["takenAt"] = taken and datetime.datetime.fromisoformat(taken).timestamp()
            screens.append(Screen(f"{self.name} in tab {number}", **told))
        return screens

    @contextlib.asynccontextmanager
    async def away(self):
        self.proxy.is_down = True
        await self.proxy.cut_all()
        try:
            yield
        finally:
            self.proxy.is_down = False

    async def kill(self):
        """One of its tabs: its process ends, or a person closes it."""
        if self._tabs:
            await self._end(self.dice.choice(self._tabs), self.dice.random() < 0.3)

    async def _end(self, tab, is_closed=False):
        with contextlib.suppress(Error, Unanswered):
            await in_time(tab.close() if is_closed else tab.evaluate("() => ask({ do: 'die' })"), "an end")

    async def bury(self):
        if self._tabs and self.dice.random() < 0.5:
            self.ledger.counts["tabs that lived on"] += 1
            return
        await self._end_all()

    async def _end_all(self):
        for tab in self._tabs:
            await self._end(tab)
        self._tabs.clear()

    async def end(self):
        await self._end_all()
        try:
            tab = await self._open()
            self.learn(Kept(**await self._of(tab, {"do": "kept", "name": self._store})))
        except Died:
            self.ledger.fault(f"{self.name}: its store could not be read at the end")
