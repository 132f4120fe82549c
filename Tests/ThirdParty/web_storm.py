"""Histories of the web library: tabs in a Chromium, which is killed too; and a device of the Swift library beside them."""

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import signal
import tempfile

from playwright.async_api import Error, async_playwright

from library_storm import Histories, LibraryFaults, LibraryStorm
from swift_phone import DEVICE, SwiftPhone
from waiting import becomes
from web import Site, chromium
from web_phone import WebPhone

#: Nothing of the browser's own goes to the network, and no tab is slowed down for being behind others. The last one is for
#: `web/device.js`.
FLAGS = (
    "--headless", "--no-sandbox", "--remote-debugging-port=0", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-default-apps", "--disable-sync", "--disable-gpu", "--disable-breakpad",
    "--disable-in-process-stack-traces", "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows", "--js-flags=--allow-natives-syntax")


class Chromium:
    """A browser on a profile that outlives it: killed, it comes back with what its tabs have stored."""

    def __init__(self):
        self._stack = contextlib.AsyncExitStack()
        self._ready = asyncio.Event()
        self._process = None

    async def __aenter__(self):
        self._playwright = await self._stack.enter_async_context(async_playwright())
        self._profile = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True))
        self._stack.push_async_callback(self.kill)
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self._stack.aclose()

    async def start(self):
        told = pathlib.Path(self._profile, "DevToolsActivePort")
        told.unlink(missing_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            chromium(), *FLAGS, f"--user-data-dir={self._profile}", env={**os.environ, "TZ": "UTC"},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True)
        await becomes(lambda: told.is_file() and told.read_text().count("\n"))
        port, path = told.read_text().split()
        self._browser = await self._playwright.chromium.connect_over_cdp(f"ws://127.0.0.1:{port}{path}")
        self._ready.set()

    async def kill(self):
        """SIGKILL to all its processes."""
        self._ready.clear()
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        with contextlib.suppress(Error):
            await self._browser.close()

    async def page(self):
        """A new tab."""
        await self._ready.wait()
        return await self._browser.contexts[0].new_page()


@dataclasses.dataclass
class WebHistories(Histories):
    """The third device of a person is one of the Swift library, if it is there."""

    users: int = 4
    phones: int = 3
    #: Kills of the browser, with all devices in it.
    blackouts: int = 1


class WebFaults(LibraryFaults):
    @staticmethod
    def _kinds(plan):
        return LibraryFaults._kinds(plan) + ["blackout"] * plan.blackouts

    async def blackout(self):
        self.ledger.counts["blackouts"] += 1
        await self.storm.browser.kill()
        await self.storm.browser.start()


class WebStorm(LibraryStorm):
    """A storm of web devices. `changes`: a fault put into the client, as `web.Site` makes it."""

    faults, histories, changes = WebFaults, WebHistories, []
    variant = "client"

    @staticmethod
    def phone(storm, person, number, *rest):
        is_swift = number % storm.plan.phones == 2 and pathlib.Path(DEVICE).is_file()
        return (SwiftPhone if is_swift else WebPhone)(storm, person, number, *rest)

    async def _run(self, foreigners):
        with contextlib.closing(Site()) as self.site:
            self.site.variants[self.variant] = self.changes
            async with Chromium() as self.browser:
                await super()._run(foreigners)
