"""What outside tests and people at a terminal rely on: the commands, the files they leave, and how they end."""

import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time

import pusher
import pytest

import cluster
import tokens
from device import Device
from hub import PROGRAM, Hub, Program, Server
from names import private_stream, stream
from waiting import PATIENCE, eventually


def finished(*arguments, environment=None, timeout=PATIENCE):
    """A command that ends by itself: its status, and what it said."""
    program = Program(*arguments, environment=environment)
    status = program.wait(timeout)
    for output in (program.out, program.err):
        eventually(lambda: not output.is_open, "the end of what it said")
    return status, program.out.text(), program.err.text()


def psql(hub, statement):
    """As the demonstration tells people to."""
    return subprocess.run(
        f'psql "$(cat {shlex.quote(str(hub.folder / "database-url"))})" -XqAt -v ON_ERROR_STOP=1 -c {shlex.quote(statement)}',
        shell=True, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()


def add_dose(hub, user):
    return psql(hub, "insert into care.dose_occurrence (user_id, product_id, scheduled_at)"
                     f" values ('{user}', 'zinc', now()) returning id")


def joined(hub, user):
    device = Device(hub)
    device.sign_in(user)
    device.subscribe(stream(user))
    return device


def hears(device, user, identity):
    return device.wait_for(
        lambda frame: frame.channel == stream(user) and frame.event.startswith("occurrence")
        and frame.data["occurrenceId"] == identity, f"an event of the dose {identity}")


def open_files(pid):
    """What the descriptors of a process are, as far as they do not close meanwhile."""
    folder = f"/proc/{pid}/fd"
    paths = [os.path.join(folder, number) for number in os.listdir(folder)]
    return {os.readlink(path) for path in paths if os.path.lexists(path)}


def test_the_hub_is_that_very_process_and_says_ready_once(hub):
    ready = [line for line in hub.program.out.text().splitlines() if line.startswith("ready")]
    assert len(ready) == 1 and str(hub.port) in ready[0]
    with open("/proc/net/tcp") as table:
        inodes = [fields[9] for fields in map(str.split, table)
                  if fields[1] == f"0100007F:{hub.port:04X}" and fields[3] == "0A"]
    assert len(inodes) == 1 and f"socket:[{inodes[0]}]" in open_files(hub.pid)


def test_secrets_are_the_owners_alone(hub):
    for name in ("database-url", "hub.json", "jwt-secret"):
        assert (hub.folder / name).stat().st_mode & 0o077 == 0, name


def test_the_demonstration(hub):
    for user in ("demo", "demo2"):
        zone = psql(hub, f"select zone from care.user_settings where user_id = '{user}'")
        for day in ("current_date", f"(now() at time zone '{zone}')::date"):
            assert int(psql(hub, f"select count(*) from care.dose_occurrence where user_id = '{user}' and local_date = {day}")) >= 6
    assert psql(hub, "select current_user") == "carillon_owner"
    psql(hub, "select id, user_id, product_id, status, taken_at, note, scheduled_at, local_date, rev"
              " from care.dose_occurrence limit 1")


@pytest.mark.parametrize("name", ["demo", "a.b@example.org", "nobody has this", "Zoë/1", "日本", "--dir", "x;$(id)'\"\\", "*"])
def test_token_for_any_name(hub, name):
    status, out, err = finished("token", f"--user={name}", "--dir", str(hub.folder))
    assert (status, err) == (0, "") and len(out.splitlines()) == 1
    with Device(hub, token=out) as device:
        assert device.authenticated().data["userId"] == name
    with Device(hub) as device:
        device.authenticate(out)
        assert device.authenticated().data["userId"] == name
        device.subscribe(stream(name))
        device.subscribed(stream(name))


def test_token_where_no_hub_is(tmp_path):
    status, out, err = finished("token", "--user", "demo", "--dir", str(tmp_path))
    assert status != 0 and not out and len(err.splitlines()) == 1 and str(tmp_path) in err


def test_tail_prints_events_and_ends(hub):
    tail = Program("tail", "--user", "demo", "--dir", str(hub.folder))
    try:
        tail.err.wait_for(lambda line: "subscribed to user.demo.adherence" in line, "subscribed")
        tail.err.wait_for(lambda line: "subscribed to user.demo.reminders" in line, "subscribed")
        dose = add_dose(hub, "demo")
        other = add_dose(hub, "demo2")
        psql(hub, f"update care.dose_occurrence set status = 'taken', taken_at = now() where id = '{dose}'")
        line = tail.out.wait_for(lambda line: "occurrence.updated" in line and dose in line, "the change")
        assert '"taken"' in line and "user.demo.adherence" in line
        psql(hub, "update care.reminder_rule set label = 'Later' where id = 'demo-reminder-night'")
        tail.out.wait_for(lambda line: "reminder.updated" in line and "demo-reminder-night" in line, "the reminder")
        assert other not in tail.out.text()
    finally:
        started = time.monotonic()
        status = tail.interrupt()
    assert status == 0 and time.monotonic() - started < 5


def test_tail_comes_back_when_the_hub_does():
    with Hub() as hub:
        tail = Program("tail", "--user", "demo", "--dir", str(hub.folder))
        try:
            tail.err.wait_for(lambda line: "subscribed to user.demo.adherence" in line, "subscribed")
            hub.listen = f"127.0.0.1:{hub.port}"
            assert hub.stop() == 0
            hub.start()
            eventually(lambda: tail.err.text().count("subscribed to user.demo.adherence") == 2, "subscribed again")
            dose = add_dose(hub, "demo")
            tail.out.wait_for(lambda line: "occurrence.created" in line and dose in line, "the change")
        finally:
            assert tail.interrupt() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ends_within_seconds_and_starts_in_seconds(number):
    with Hub() as hub:
        device = joined(hub, "demo")
        top = device.subscribed(stream("demo")).data["sync"]["offset"]
        dose = add_dose(hub, "demo")
        hears(device, "demo", dose)
        postmaster = cluster.process_id(hub.folder)
        started = time.monotonic()
        hub.program.process.send_signal(number)
        assert hub.program.wait(10) == 0
        assert time.monotonic() - started < 5
        assert device.closed() == 4200
        assert cluster.process_id(hub.folder) is None and not os.path.exists(f"/proc/{postmaster}")
        # The second start finds what the first left, the numbers of the stream included.
        started = time.monotonic()
        hub.start()
        assert time.monotonic() - started < 10
        assert "found" in hub.program.out.text()
        again = joined(hub, "demo")
        assert again.subscribed(stream("demo")).data["sync"]["offset"] == top + 2
        hears(again, "demo", add_dose(hub, "demo"))
        again.close()


@pytest.mark.parametrize("moment", ["carillon dev in", "  PostgreSQL", "  migration 2", "  demonstration"])
def test_ends_while_it_starts(moment):
    with tempfile.TemporaryDirectory(prefix="judge-") as place:
        # PostgreSQL's user passes through where we are root.
        os.chmod(place, 0o711)
        folder = os.path.join(place, "hub")
        program = Program("dev", "--dir", folder, "--listen", "127.0.0.1:0")
        program.out.wait_for(lambda line: line.startswith(moment), moment)
        assert program.interrupt() == 0
        assert cluster.process_id(folder) is None
        with Hub(folder=folder) as hub:
            add_dose(hub, "demo")


@pytest.mark.parametrize("victims", ["hub", "server", "both"])
def test_a_kill_leaves_nothing_that_the_next_start_cannot_recover_from(victims):
    with Hub() as hub:
        device = joined(hub, "demo")
        device.subscribed(stream("demo"))
        dose = add_dose(hub, "demo")
        hears(device, "demo", dose)
        if victims != "hub":
            cluster.kill(hub.folder)
        if victims != "server":
            hub.program.kill()
            device.closed()
        else:
            device.answered()
            assert hub.stop() == 0
        hub.start()
        assert psql(hub, f"select count(*) from care.dose_occurrence where id = '{dose}'") == "1"
        again = joined(hub, "demo")
        before = again.subscribed(stream("demo")).data["sync"]["offset"]
        late = add_dose(hub, "demo")
        assert hears(again, "demo", late).data["_sync"]["o"] == before + 1
        again.close()
        assert hub.stop() == 0
        assert cluster.process_id(hub.folder) is None


def test_the_server_is_killed_and_started_by_hand_under_the_hub():
    with Hub() as hub:
        device = joined(hub, "demo")
        device.subscribed(stream("demo"))
        postmaster = cluster.process_id(hub.folder)
        cluster.kill(hub.folder)

        def started():
            # Backends of the killed one live on for a moment, and a new one refuses to start beside them.
            try:
                cluster.start(hub.folder)
            except subprocess.CalledProcessError:
                return False
            return True

        eventually(started, "the server starts again")
        assert cluster.process_id(hub.folder) != postmaster
        hears(device, "demo", add_dose(hub, "demo"))
        device.close()
        assert hub.stop() == 0
        assert cluster.process_id(hub.folder) is None


def test_two_hubs_side_by_side():
    with Hub() as one, Hub() as other:
        assert one.port != other.port
        at_one, at_other = joined(one, "demo"), joined(other, "demo")
        at_one.subscribed(stream("demo"))
        at_other.subscribed(stream("demo"))
        first, second = add_dose(one, "demo"), add_dose(other, "demo")
        hears(at_one, "demo", first)
        hears(at_other, "demo", second)
        assert second not in at_one.everything() and first not in at_other.everything()
        # A token of one is none of the other's.
        at_one.close()
        with Device(other) as device:
            device.authenticate(one.token("demo"))
            device.complaint()
        assert one.stop() == 0
        hears(at_other, "demo", add_dose(other, "demo"))
        at_other.close()


def test_a_folder_in_use(hub):
    status, _, err = finished("dev", "--dir", str(hub.folder), "--listen", "127.0.0.1:0")
    assert status != 0 and len(err.splitlines()) == 1
    assert str(hub.folder) in err and str(hub.pid) in err
    add_dose(hub, "demo")


@pytest.mark.parametrize("command", ["dev", "serve"])
def test_a_taken_port(hub, tmp_path, command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        if command == "dev":
            status, out, err = finished("dev", "--dir", str(tmp_path / "hub"), "--listen", address)
        else:
            status, out, err = finished("serve", environment={
                "CARILLON_LISTEN": address, "CARILLON_APPS": '[{"id":"1","key":"k","secret":"s"}]', "CARILLON_LOG_LEVEL": "error"})
    assert status != 0 and "ready" not in out
    assert len(err.splitlines()) == 1 and address in err and "another program" in err
    assert cluster.process_id(tmp_path / "hub") is None


APPS = '[{"id":"7","key":"key-of-7","secret":"secret-of-7"}]'
JWT_SECRET = "a-secret-for-tokens-of-32-bytes-or-more"


def backend_of_7():
    return pusher.Pusher(app_id="7", key="key-of-7", secret="secret-of-7", host="127.0.0.1", port=1, ssl=False)


def test_serve_from_environment_variables(hub, user):
    """A second hub of the same database, as the role of `serve`; both tell of each change."""
    url = hub.database_url.replace("carillon_owner@", "carillon_hub@")
    with Server(DATABASE_URL=url, CARILLON_APPS=APPS, CARILLON_JWT_SECRET=JWT_SECRET) as server:
        with Device(server, key="key-of-7") as signed, Device(server, key="key-of-7") as with_token, Device(
                hub, token=hub.token(user)) as elsewhere:
            signed.subscribe(private_stream(user), **backend_of_7().authenticate(private_stream(user), signed.socket_id))
            signed.subscribed(private_stream(user))
            with_token.subscribe(stream(user))
            with_token.authenticate(tokens.hs256(JWT_SECRET, tokens.claims(user)))
            with_token.subscribed(stream(user))
            elsewhere.subscribe(stream(user))
            elsewhere.subscribed(stream(user))
            dose = add_dose(hub, user)
            for device in (with_token, elsewhere):
                assert hears(device, user, dose).data["_sync"]["o"] == 1
            assert signed.wait_for_event("occurrence.created", private_stream(user)).data["occurrenceId"] == dose
        with Device(server) as stranger:
            assert stranger.closed() == 4001
        assert server.program.interrupt() == 0


def test_serve_without_a_database():
    with Server(CARILLON_APPS=APPS) as server:
        assert "DATABASE_URL" in server.program.err.text()
        with Device(server, key="key-of-7") as device:
            for name in ("news", "user.demo.adherence"):
                device.subscribe(name)
                assert device.subscribed(name).data == {}
            signature = backend_of_7().authenticate("private-user.demo.adherence", device.socket_id)
            device.subscribe("private-user.demo.adherence", **signature)
            device.subscribed("private-user.demo.adherence")
            device.subscribe("private-news", auth="key-of-7:" + "0" * 64)
            device.refused("private-news")
            device.authenticate("x.y.z")
            assert device.complaint().data["code"] is None
            device.answered()
            assert server.program.interrupt() == 0
            assert device.closed() == 4200


@pytest.mark.parametrize("settings, words", [
    ({}, ["apps", "CARILLON_APPS"]),
    ({"CARILLON_APPS": "[{"}, ["CARILLON_APPS", "JSON"]),
    ({"CARILLON_APPS": APPS, "CARILLON_LISTEN": "nonsense"}, ["CARILLON_LISTEN", "nonsense", "HOST:PORT"]),
    ({"CARILLON_APPS": APPS, "CARILLON_FOO": "1"}, ["CARILLON_FOO"]),
    ({"CARILLON_APPS": APPS, "CARILLON_LOOPS": "-1"}, ["CARILLON_LOOPS", "-1"]),
    ({"CARILLON_APPS": APPS, "CARILLON_JWT_SECRET": "short"}, ["CARILLON_JWT_SECRET"]),
])
def test_serve_names_what_is_wrong(settings, words):
    status, _, err = finished("serve", environment=settings)
    assert status != 0 and len(err.splitlines()) == 1
    assert all(word in err for word in words), err
    assert "short" not in err and "secret-of-7" not in err


def test_check_config_tells_sources_and_no_secrets():
    status, out, err = finished("check-config", "--listen", "127.0.0.1:7777", environment={
        "CARILLON_APPS": APPS, "CARILLON_LISTEN": "127.0.0.1:1", "DATABASE_URL": "postgres://u:pass-word@h/db",
        "CARILLON_JWT_SECRET": JWT_SECRET})
    assert (status, err) == (0, "")
    listen = next(line for line in out.splitlines() if line.startswith("listen"))
    assert "127.0.0.1:7777" in listen and "--listen" in listen
    assert "DATABASE_URL" in out
    assert not any(secret in out for secret in ("pass-word", "secret-of-7", JWT_SECRET))


def test_migrate_tells_what_is_there(hub):
    status, out, _ = finished("migrate", "--status", environment={"DATABASE_URL": hub.database_url})
    assert status == 0 and "0001_sync" in out and "applied" in out


def test_the_program_is_there():
    assert os.access(PROGRAM, os.X_OK)
    status, out, _ = finished("version")
    assert status == 0 and out.startswith("carillon ")
