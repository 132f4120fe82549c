"""The code of the pages for developers, pasted as it stands: in Python, in shells, and in a browser.

Pages with tests of their own: test_sync_page.py, test_pusher_page.py, test_web_page.py, test_install.py.
"""

import os
import pathlib
import re
import shutil
import subprocess
import urllib.request

import pytest

from device import Device
from doses import add_dose
from hub import PROGRAM, Hub, Output, Server
from pages import FIRST, SQL, Opened, at, code, html_of, with_pusher
from waiting import PATIENCE, eventually
from web import Browser


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def first_lines():
    """The SQL and the JavaScript at the first page's top, and the table that the page publishes later."""
    text = FIRST.read_text()
    top, later = text.split("\n## ")[0], text.split("\n## Publish a table of your own\n")[1]
    statements = re.findall(r"^    (.+)$", top, re.M)
    script, = re.findall(r"^```js\n(.*?)^```", top, re.S | re.M)
    table = re.search(r"^    CREATE TABLE app_weight \(\n(?:    .*\n)+?    \);$", later, re.M)[0]
    assert [line.split()[0] for line in statements] == ["SELECT", "INSERT"]
    return table, *statements, script


def test_the_first_lines_send_an_event():
    table, publish, insert, script = first_lines()
    _, event = re.findall(r"'([^']+)'", script)
    channel = re.search(r"subscribe\('(user\.(\w+)\.\w+)'\)", script)
    with Hub() as hub:
        hub.wait_until_listening()
        for statement in (table, publish):
            hub.query(statement)
        with Device(hub) as device:
            device.sign_in(channel[2])
            device.subscribe(channel[1])
            device.subscribed(channel[1])
            hub.query(insert)
            frame = device.wait_for_event(event, channel[1])
            assert frame.data["grams"] == 71500


@with_pusher
def test_the_first_lines_show_an_event(browser, tmp_path, library):
    table, publish, insert, script = first_lines()
    block, = code(FIRST, "## Point pusher-js at it", "sh")
    with Hub() as hub:
        hub.wait_until_listening()
        for statement in (table, publish):
            hub.query(statement)
        file = html_of(at(hub, block), tmp_path, hub.token("42"))
        connect, rest = file.read_text().split("  pusher.signin();")
        watch = "pusher.channel('user.42.weight').bind('pusher:subscription_succeeded', () => console.log('in'));\n"
        file.write_text(connect + script + watch + rest[rest.index("</script>"):])
        with Opened(browser, file, library) as page:
            eventually(lambda: "in" in page.printed(), "the page has subscribed")
            hub.query(insert)
            eventually(lambda: "71500" in page.printed(), "the page shows the weight")


@with_pusher
def test_the_first_page_shows_a_change(browser, hub, tmp_path, library):
    block, = code(FIRST, "## Point pusher-js at it", "sh")
    token = hub.token("demo")
    file = html_of(at(hub, block), tmp_path, token)
    assert token in file.read_text()
    with Opened(browser, file, library) as page:
        eventually(lambda: '"sync":' in page.shown(), "the page has subscribed")
        dose = add_dose(hub, "demo")
        eventually(lambda: re.search(f"^occurrence.created .*{dose}", page.shown(), re.M), "the page shows the dose")


def test_a_token_of_the_page_is_taken(tmp_path, monkeypatch):
    """The backend's developer makes keys and a token; the operator names the keys, the issuer and the audience."""
    sample, = code(SQL, "## Tokens of users", "python")
    monkeypatch.chdir(tmp_path)
    made = {}
    exec(compile(sample, "the page", "exec"), made)
    claims = made["claims"]
    with Hub("--jwt-keys-file", str(tmp_path / "jwks.json"), "--jwt-issuer", claims["iss"],
             "--jwt-audience", claims["aud"]) as hub:
        request = urllib.request.Request(
            f"http://127.0.0.1:{hub.port}/users/{claims['sub']}/adherence/today",
            headers={"Authorization": f"Bearer {made['token']}"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status == 200 and answer.headers["X-Sync-Position"]


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_a_token_of_the_page_in_javascript_is_taken(tmp_path):
    file = tmp_path / "sign.js"
    file.write_text(code(SQL, "## Tokens of users", "js")[0])
    run = subprocess.run(["node", file], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    with Hub("--jwt-keys-file", str(tmp_path / "jwks.json"), "--jwt-issuer", "https://login.example.org",
             "--jwt-audience", "carillon") as hub:
        request = urllib.request.Request(
            f"http://127.0.0.1:{hub.port}/users/42/adherence/today",
            headers={"Authorization": f"Bearer {run.stdout.strip()}"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status == 200


def test_the_doses_of_the_database_page():
    """A schedule is made, a dose is taken, and another schedule begins three days ago."""
    text = SQL.read_text().split("\n## Carillon's own tables\n")[1].split("\n### ")[0]
    made = re.findall(r"^    (INSERT .+);$", text, re.M)
    more, = code(SQL, "## Carillon's own tables", "sql")
    assert len(made) == 3
    with Hub() as hub:
        hub.wait_until_listening()
        for statement in (*made, *filter(str.strip, more.split(";\n"))):
            hub.query(statement)
        found, = hub.query(
            """select count(*) filter (where status = 'taken'), count(*) filter (where local_date < current_date)
            from care.dose_occurrence where user_id = '42'""")
        assert tuple(found) == (1, 3)


def test_serve_with_a_database_of_your_own(tmp_path):
    """The commands of three terminals, on a machine whose superuser we are."""
    first, second, third = code(SQL, "### On your own machine", "sh")
    *prepare, serve = first.splitlines()
    assert serve == ".build/release/carillon serve --config hub.json"
    (tmp_path / ".build/release").mkdir(parents=True)
    (tmp_path / ".build/release/carillon").symlink_to(pathlib.Path(PROGRAM).resolve())
    with Hub() as machine:
        with machine.superuser() as connection:
            sockets = connection.info.host
        mine = {**os.environ, "PGHOST": sockets, "PGUSER": "postgres"}
        script = "\n".join(prepare).replace("@127.0.0.1/hub", f"@/hub?host={sockets}").replace(":6001", ":0")
        subprocess.run(["bash", "-euc", script], cwd=tmp_path, env=mine, check=True)
        with Server(CARILLON_CONFIG=str(tmp_path / "hub.json"), CARILLON_LISTEN="127.0.0.1:0",
                    CARILLON_LOG_FORMAT="json") as hub:
            *lines, tail = at(hub, second).splitlines()
            follow = "\n".join([*lines, f"exec {tail}"])
            device = subprocess.Popen(["bash", "-euc", follow], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.STDOUT)
            try:
                out = Output(device.stdout)
                out.wait_for(lambda line: "subscribed to user.42.adherence" in line, "the subscription")
                subprocess.run(["bash", "-euc", third], env=mine, check=True)
                out.wait_for(lambda line: "user.42.adherence  occurrence.created" in line, "the event")
            finally:
                device.terminate()
                device.wait()
