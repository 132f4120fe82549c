"""The code of the pages for developers, pasted as it stands: in Python, and in JavaScript with pusher-js.

pusher-js is not ours to carry: PUSHER_JS names its file dist/node/pusher.js. Without it, or without node, the tests that
need it are skipped.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.request

import pytest

from device import Device
from doses import add_dose
from hub import Hub, Output, Server
from waiting import PATIENCE, eventually

ROOT = pathlib.Path(__file__).parents[2]
HERE = pathlib.Path(__file__).parent
FIRST, SYNC, PUSHER, SQL = (
    ROOT / name / "README.md" for name in ("", "Sources/Values/Sync", "Sources/Values/Pusher", "sql"))

browser = pytest.mark.skipif(
    not (os.environ.get("PUSHER_JS") and shutil.which("node")), reason="needs node, and pusher-js in PUSHER_JS")


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


class Page:
    """A script that runs in the small browser, and what it shows."""

    def __init__(self, folder, script):
        file = folder / "page.js"
        file.write_text(script)
        self.process = subprocess.Popen(["node", HERE / "browser.js", file], stdout=subprocess.PIPE, text=True)
        self.out = Output(self.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def shows(self, *parts):
        line = self.out.wait_for(lambda line: all(part in json.loads(line) for part in parts), f"{parts}", PATIENCE)
        return json.loads(line)


def html_of(shell, folder, token=""):
    """Runs a block that writes an HTML page; returns the script in it."""
    shell = re.sub(r"^TOKEN=.*$", f"TOKEN={token}", shell, flags=re.M)
    subprocess.run(["bash", "-euc", shell], cwd=folder, check=True)
    page, = folder.glob("*.html")
    text = page.read_text()
    assert re.search(r'<script src="https://js\.pusher\.com/8\.\d+\.\d+/pusher\.min\.js"></script>', text)
    return re.search(r"<script>\n(.*)</script>", text, re.S)[1]


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


@browser
def test_the_first_lines_show_an_event(tmp_path):
    table, publish, insert, script = first_lines()
    page, = code(FIRST, "## Point pusher-js at it", "sh")
    with Hub() as hub:
        hub.wait_until_listening()
        for statement in (table, publish):
            hub.query(statement)
        connect = html_of(at(hub, page), tmp_path, hub.token("42")).split("  pusher.signin();")[0]
        watch = "pusher.channel('user.42.weight').bind('pusher:subscription_succeeded', () => show('subscribed'));\n"
        with Page(tmp_path, connect + script.replace("console.log(", "show(") + watch) as shown:
            shown.shows("subscribed")
            hub.query(insert)
            shown.shows("71500")


@browser
def test_the_first_page_shows_a_change(hub, tmp_path):
    block, = code(FIRST, "## Point pusher-js at it", "sh")
    token = hub.token("demo")
    script = html_of(at(hub, block), tmp_path, token)
    assert token in script
    with Page(tmp_path, script) as page:
        page.shows("pusher:subscription_succeeded", "sync")
        dose = add_dose(hub, "demo")
        page.shows("occurrence.created", dose)


@browser
def test_the_sync_page_is_one_program(hub, user, tmp_path):
    """It fetches a snapshot, applies events, resumes after a pause, and sends an action."""
    blocks = [block for heading in ("## Connect", "## Resume", "## Actions") for block in code(SYNC, heading, "js")[:1]]
    script = at(hub, "".join(blocks)).replace("'TOKEN'", json.dumps(hub.token(user)))
    script = script.replace("userId = 'demo'", f"userId = {json.dumps(user)}").replace("console.log(", "show(")
    watch = """
        const doses = () => (today?.occurrences ?? []).map((d) => d.id + ' ' + d.status);
        setInterval(() => show(JSON.stringify({ position, doses: doses() })), 50);
        setInterval(() => {
          if (globalThis.acted || !today) return;
          globalThis.acted = true;
          markTaken(today.occurrences[0]);
        }, 50);
    """
    dose = add_dose(hub, user)
    with Page(tmp_path, script.replace("result.key, result.status", "result.key + ' ' + result.status") + watch) as page:
        page.shows(f"{dose} scheduled")
        page.shows(" applied")
        page.shows(f"{dose} taken")
        hub.query("update care.dose_occurrence set status = 'skipped', taken_at = null where id = %s", [dose])
        page.shows(f"{dose} skipped")
        (offset,), = hub.query("select top from sync.stream where user_id = %s and topic = 'adherence'", [user])
        page.shows(f'"offset":{offset}')


def test_the_sync_page_is_made_by_one_command(tmp_path):
    """The command takes the blocks that the test above runs, and nothing else."""
    top = SYNC.read_text().split("\n## ")[0]
    shell, = re.findall(r"^```sh\n(.*?)^```", top, re.S | re.M)
    script = html_of(shell.replace("Sources/Values/Sync/README.md", str(SYNC)), tmp_path, "x.y.z")
    blocks = [block for heading in ("## Connect", "## Resume", "## Actions") for block in code(SYNC, heading, "js")[:1]]
    assert script == "".join(blocks).replace("'TOKEN'", "'x.y.z'")


@browser
def test_the_sync_page_resumes_where_it_was(hub, user, tmp_path):
    """A device that comes back with its position is sent what it has missed, and fetches nothing."""
    blocks = [block for heading in ("## Connect", "## Resume") for block in code(SYNC, heading, "js")[:1]]
    script = at(hub, "".join(blocks)).replace("'TOKEN'", json.dumps(hub.token(user)))
    script = script.replace("userId = 'demo'", f"userId = {json.dumps(user)}").replace("console.log(", "show(")
    dose = add_dose(hub, user)
    watch = "setInterval(() => show(JSON.stringify({ position, fetching, today })), 50);"
    with Page(tmp_path, script + watch) as page:
        state = json.loads(page.shows(f'"id":"{dose}"', '"fetching":1'))
    hub.query("update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", [dose])
    kept = json.dumps({"today": state["today"], "position": state["position"]})
    before = f"localStorage.setItem('user.{user}.adherence', {json.dumps(kept)});\n"
    with Page(tmp_path, before + script + watch) as page:
        page.shows('"status":"taken"', '"fetching":0')


@browser
def test_the_sync_page_stays_away_as_it_is_told(user, tmp_path):
    """When the hub has crashed, the page leaves by itself, comes back later, and continues."""
    blocks = [block for heading in ("## Connect", "## Resume") for block in code(SYNC, heading, "js")[:1]]
    with Hub() as hub:
        script = at(hub, "".join(blocks)).replace("'TOKEN'", json.dumps(hub.token(user)))
        script = script.replace("userId = 'demo'", f"userId = {json.dumps(user)}").replace("console.log(", "show(")
        watch = """
            pusher.connection.bind('state_change', ({ previous, current }) => show(`${previous} to ${current}`));
            setInterval(() => show(JSON.stringify({ absence, fetching, today, state: pusher.connection.state })), 50);
        """
        dose = add_dose(hub, user)
        hub.listen = f"127.0.0.1:{hub.port}"
        with Page(tmp_path, script + watch) as page:
            page.shows(f'"id":"{dose}"', '"fetching":1', '"absence":{"minMs":1000')
            hub.program.kill()
            page.shows("connected to disconnected")
            hub.start()
            hub.query("update care.dose_occurrence set status = 'taken', taken_at = now() where id = %s", [dose])
            page.shows('"status":"taken"', '"fetching":1', '"state":"connected"')


def test_the_pusher_page_publishes(tmp_path):
    shell, page = code(PUSHER, "## Move from Pusher, soketi or Reverb", "sh")
    sample, = code(PUSHER, "## Move from Pusher, soketi or Reverb", "python")
    written = re.search(r"<<'END'\n(.*?)^END$", shell, re.S | re.M)[1]
    assert "chmod 640 settings.json\n.build/release/carillon serve --config settings.json\n" in shell
    file = tmp_path / "settings.json"
    assert '"listen": "127.0.0.1:6001"' in written
    file.write_text(written.replace("127.0.0.1:6001", "127.0.0.1:0"))
    file.chmod(0o640)
    with Server(CARILLON_CONFIG=str(file), CARILLON_LOG_FORMAT="json") as hub:
        script = at(hub, html_of(page, tmp_path))
        run = sample.replace("port=6001", f"port={hub.port}")
        assert run != sample

        def publish():
            exec(compile(run, "the page", "exec"), {})
            return True

        publish()
        if os.environ.get("PUSHER_JS") and shutil.which("node"):
            with Page(tmp_path, script) as shown:
                eventually(lambda: publish() and any("it works" in line for line in shown.out.lines), "the message")


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


def test_a_call_with_curl_publishes(tmp_path):
    sample, = code(PUSHER, "### A call with curl", "sh")
    file = tmp_path / "settings.json"
    file.write_text('{"listen": "127.0.0.1:0", "apps": [{"id": "1", "key": "app-key", "secret": "app-secret"}]}')
    file.chmod(0o640)
    with Server(CARILLON_CONFIG=str(file), CARILLON_LOG_FORMAT="json") as hub:
        call = subprocess.run(["bash", "-euc", at(hub, sample)], stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert (call.returncode, call.stdout) == (0, "{}")


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
