"""The pages for developers: their code, and what it is pasted into.

pusher-js is not ours to carry. A small stand-in of its public members takes its place (web/pusher.js), and where PUSHER_JS
names its file dist/web/pusher.js, the same tests run with pusher-js itself too.
"""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
HERE = pathlib.Path(__file__).parent
FIRST, SYNC, PUSHER, SQL = (
    ROOT / name / "README.md" for name in ("", "Sources/Values/Sync", "Sources/Values/Pusher", "sql"))
REAL = os.environ.get("PUSHER_JS") and pathlib.Path(os.environ["PUSHER_JS"]).resolve().parents[1] / "web/pusher.js"

#: For tests of code that needs pusher-js: once with the stand-in, and once with pusher-js.
with_pusher = pytest.mark.parametrize("library", [
    pytest.param(HERE / "web/pusher.js", id="stand-in"),
    pytest.param(REAL, id="pusher-js", marks=pytest.mark.skipif(not REAL, reason="needs pusher-js in PUSHER_JS"))])


def code(page, heading, language):
    """The blocks of a language below a heading, up to the next heading of its level or of a higher one."""
    text = page.read_text()
    level = len(heading.split()[0])
    section = re.split(rf"^#{{1,{level}}} ", text.split(f"\n{heading}\n")[1], maxsplit=1, flags=re.M)[0]
    blocks = re.findall(rf"^```{language}\n(.*?)^```", section, re.S | re.M)
    assert blocks, f"{page} has no {language} below {heading}"
    return blocks


def at(hub, text):
    """The code as it is for a hub that the test has started."""
    assert "127.0.0.1" in text
    return text.replace("127.0.0.1:6001", f"127.0.0.1:{hub.port}").replace("wsPort: 6001", f"wsPort: {hub.port}")


def html_of(shell, folder, token=""):
    """Runs a block that writes an HTML page, and returns its file."""
    shell = re.sub(r"^TOKEN=.*$", f"TOKEN={token}", shell, flags=re.M)
    subprocess.run(["bash", "-euc", shell], cwd=folder, check=True)
    page, = folder.glob("*.html")
    assert re.search(r'<script src="https://js\.pusher\.com/8\.\d+\.\d+/pusher\.min\.js"></script>', page.read_text())
    return page


class Opened:
    """A file, opened in a browser of its own as a person opens it. `library` comes in place of Pusher's server."""

    def __init__(self, browser, file, library):
        self.lines = []
        self.file = file
        self._context = browser.chromium.new_context()
        self._context.route("https://js.pusher.com/**", lambda route: route.fulfill(path=library))
        self.page = self.tab()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._context.close()

    def tab(self):
        """Opens the file once more, beside the first tab."""
        page = self._context.new_page()
        page.on("console", lambda message: self.lines.append(message.text))
        page.goto(self.file.as_uri())
        return page

    def type(self, line):
        """A line in the browser's console, and what it answers."""
        return self.page.evaluate(line)

    def printed(self):
        """The lines of the console. They come while the browser is asked something."""
        self.type("0")
        return self.lines

    def shown(self):
        return self.page.inner_text("pre")
