"""The steps of deploy/install.md, pasted as they stand. Without root: a folder stands for /etc/carillon, a cluster of
our own for the server's, and a process for the unit. Tests/package does them on a clean Debian."""

import os
import pathlib
import re
import subprocess

import pytest

import cluster
from balancers import ROOT
from hub import PROGRAM, Output, Program
from pages import code
from stage import Stage, free_port
from waiting import PATIENCE

PAGE = ROOT / "deploy/install.md"


class Machine:
    """Where the steps are done."""

    def __init__(self, folder):
        self.folder = folder
        self.etc = folder / "carillon"
        self.ports = {"6443": free_port(), "9601": free_port()}
        self.database_port = free_port()
        self.stage = Stage(hubs=0)
        self._make_programs()

    def __enter__(self):
        self.stage._make_cluster()
        data = cluster.data(self.stage.folder)
        with open(data / "postgresql.conf", "a") as configuration:
            configuration.write(f"listen_addresses = '127.0.0.1'\nport = {self.database_port}\n")
        (data / "pg_hba.conf").write_text(
            "local all postgres trust\nhost all carillon_hub 127.0.0.1/32 scram-sha-256\n")
        cluster.start(self.stage.folder)
        self.etc.mkdir()
        for example, name in (("environment.example", "environment"), ("settings.example.json", "settings.json")):
            text = (ROOT / "deploy" / example).read_text().replace("/etc/carillon", str(self.etc))
            (self.etc / name).write_text(text.replace("@127.0.0.1/", f"@127.0.0.1:{self.database_port}/"))
        return self

    def __exit__(self, *_):
        self.stage.close()

    def _make_programs(self):
        """What the steps call: no other user is needed where the cluster trusts, and no unit where a process runs."""
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        (self.programs / "carillon").symlink_to(pathlib.Path(PROGRAM).resolve())
        for name, text in (("runuser", 'shift 3\nexec "$@"'), ("chown", 'shift\nexec ls "$@"'),
                           ("systemctl", f'echo "$@" >> {self.folder}/systemctl')):
            (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.programs / name).chmod(0o755)

    def here(self, text):
        for port, ours in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(ours), text)
        return text.replace("/etc/carillon", str(self.etc))

    def shell(self, text):
        """bash, as a terminal in which this is pasted."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CARILLON")}
        environment = {
            **clean, "PATH": f"{self.programs}:{os.environ['PATH']}", "HOME": str(self.folder), "PGUSER": "postgres",
            "PGHOST": str(cluster.base(self.stage.folder)), "PGPORT": str(self.database_port)}
        return subprocess.Popen(["bash", "-euc", self.here(text)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    def run(self, text):
        process = self.shell(text)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
        return said

    def settings(self):
        """As systemd reads an EnvironmentFile that has no quotes."""
        lines = (self.etc / "environment").read_text().splitlines()
        given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        return {"CARILLON_OPERATIONS_LISTEN": f"127.0.0.1:{self.ports['9601']}", "CARILLON_LOG_FORMAT": "json", **given}


@pytest.fixture
def machine(tmp_path):
    with Machine(tmp_path) as made:
        yield made


def test_the_steps_lead_to_an_event(machine):
    package, *steps, start, see, write = code(PAGE, "## A first server", "sh")
    assert package.startswith("apt install ") and "systemctl enable --now carillon\n" in start and len(steps) == 5
    machine.run("".join(steps))
    hub = Program("serve", environment=machine.settings())
    try:
        machine.run(start)
        assert (machine.folder / "systemctl").read_text() == "enable --now carillon\n"
        tail = machine.shell(see)
        try:
            out = Output(tail.stdout)
            out.wait_for(lambda line: "subscribed to user.42.adherence" in line, "a subscription")
            machine.run(write)
            out.wait_for(lambda line: "user.42.adherence  occurrence.created  {" in line, "the event")
            out.wait_for(lambda line: "user.42.adherence  occurrence.cancelled  {" in line, "the end of the dose")
        finally:
            tail.kill()
            tail.wait()
        # The token is in the environment, and in no list of processes.
        assert "--token" not in see
    finally:
        assert hub.interrupt() == 0, hub.err.text()
    warnings = [line for line in hub.err.lines if '"level":"warning"' in line or '"level":"error"' in line]
    assert not [line for line in warnings if "certificate" not in line], warnings


def test_examples_are_no_settings(machine):
    """The hub names each setting that still has an example's value, and a supervisor does not start it again."""
    for command in ("check-config", "serve"):
        program = Program(command, environment=machine.settings())
        assert program.wait() == 78
        told = [line for line in program.err.text().splitlines() if "change-me" in line]
        assert [re.search(r"(\S+) has \"change-me\"", line)[1] for line in told] == ["apps", "databaseURL"], told


def test_lets_encrypts_hook_brings_a_new_certificate(machine):
    """certbot's folder has links to files that root alone may read."""
    block, = code(ROOT / "deploy/README.md", "### Let's Encrypt", "sh")
    encrypt = machine.folder / "letsencrypt"
    lineage = encrypt / "live/hub.example.org"
    (encrypt / "renewal-hooks/deploy").mkdir(parents=True)
    lineage.mkdir(parents=True)
    for name in ("fullchain.pem", "privkey.pem"):
        (lineage / name).write_text(name)
        (lineage / name).chmod(0o600)
    group = subprocess.run(["id", "-gn"], capture_output=True, text=True, check=True).stdout.strip()
    machine.run(block.replace("/etc/letsencrypt", str(encrypt)).replace("carillon-files", group))
    for name, text in (("hub.pem", "fullchain.pem"), ("hub.key", "privkey.pem")):
        file = machine.etc / name
        assert file.read_text() == text and file.stat().st_mode & 0o777 == 0o640
    assert (machine.folder / "systemctl").read_text() == "try-reload-or-restart carillon.target\n"
