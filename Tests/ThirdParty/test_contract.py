"""What outside tests and people at a terminal rely on: the commands, what they print, and the files they leave."""

import os
import signal
import socket
import time

import pusher
import pytest

import cluster
import tokens
from device import Device
from doses import add_dose, hears, psql
from hub import PROGRAM, Program, Server
from names import private_stream, stream
from waiting import PATIENCE, eventually


def finished(*arguments, environment=None, timeout=PATIENCE):
    """A command that ends by itself: its status, and what it said."""
    program = Program(*arguments, environment=environment)
    status = program.wait(timeout)
    for output in (program.out, program.err):
        eventually(lambda: not output.is_open, "the end of what it said")
    return status, program.out.text(), program.err.text()


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
            assert int(psql(hub, "select count(*) from care.dose_occurrence"
                                 f" where user_id = '{user}' and local_date = {day}")) >= 6
    assert psql(hub, "select current_user") == "carillon_owner"
    psql(hub, "select id, user_id, product_id, status, taken_at, note, scheduled_at, local_date, rev"
              " from care.dose_occurrence limit 1")


@pytest.mark.parametrize(
    "name", ["demo", "a.b@example.org", "nobody has this", "Zoë/1", "日本", "--dir", "x;$(id)'\"\\", "*"])
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
                "CARILLON_LISTEN": address, "CARILLON_APPS": APPS, "CARILLON_LOG_LEVEL": "error"})
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
            signature = backend_of_7().authenticate(private_stream(user), signed.socket_id)
            signed.subscribe(private_stream(user), **signature)
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
            # What a service manager sends for a reload ends nobody.
            server.program.process.send_signal(signal.SIGHUP)
            server.program.err.wait_for(lambda line: "SIGHUP: CARILLON_APPS is set" in line, "that it has heard")
            device.answered()
            assert server.program.interrupt() == 0
            assert device.closed() == 1001


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
    for command in ("version", "--version"):
        status, out, _ = finished(command)
        assert status == 0 and out.startswith("carillon ")
