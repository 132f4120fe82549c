"""The private PostgreSQL cluster of a development hub, handled from outside: crashed and started by hand."""

import os
import pathlib
import pwd
import signal
import subprocess

from waiting import eventually


def base(folder):
    """The folder of the cluster: in DIR, or where DIR says."""
    record = pathlib.Path(folder) / "postgres.path"
    return pathlib.Path(record.read_text().strip()) if record.exists() else pathlib.Path(folder) / "postgres"


def data(folder):
    return base(folder) / "data"


def process_id(folder):
    """The postmaster's process id, or None."""
    try:
        pid = int((data(folder) / "postmaster.pid").read_text().split()[0])
        return pid if os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(data(folder)) else None
    except (OSError, ValueError, IndexError):
        return None


def _pg_ctl(folder, *arguments):
    version = (data(folder) / "PG_VERSION").read_text().strip()
    program = f"/usr/lib/postgresql/{version}/bin/pg_ctl"
    command = [program if os.path.exists(program) else "pg_ctl", "-D", str(data(folder)), *arguments]
    owner = data(folder).stat().st_uid
    if os.geteuid() == 0 and owner != 0:
        group = pwd.getpwuid(owner).pw_gid
        command = ["setpriv", f"--reuid={owner}", f"--regid={group}", "--clear-groups", "--", *command]
    # Not into a pipe: the server would inherit it, and its reader would wait for the server's end.
    with open(os.devnull, "w") as nowhere:
        subprocess.run(command, check=True, cwd="/", stdin=subprocess.DEVNULL, stdout=nowhere, stderr=nowhere)


def crash(folder):
    """Stops the server without a checkpoint; the next start recovers from the log."""
    _pg_ctl(folder, "stop", "-m", "immediate", "-w")


def start(folder):
    """Starts the server, and returns when it takes connections."""
    # The hub's own log of the server may belong to another user.
    _pg_ctl(folder, "start", "-w", "-t", "60", "-l", str(base(folder) / "by-hand.log"))


def kill(folder):
    """Sends SIGKILL to the postmaster, as the kernel does when memory is short."""
    os.kill(process_id(folder), signal.SIGKILL)


def stop_if_running(folder):
    """Stops the server at the end of a test."""
    pid = process_id(folder)
    if pid is not None:
        os.kill(pid, signal.SIGQUIT)
        eventually(lambda: process_id(folder) is None, "the cluster ends")
