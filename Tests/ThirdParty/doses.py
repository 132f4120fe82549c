"""Doses written as people at a terminal write them, and devices that hear of them."""

import shlex
import subprocess

from device import Device
from names import stream
from waiting import PATIENCE


def psql(hub, statement):
    """Runs a statement as the demonstration tells people to."""
    file = shlex.quote(str(hub.folder / "database-url"))
    return subprocess.run(
        f'psql "$(cat {file})" -XqAt -v ON_ERROR_STOP=1 -c {shlex.quote(statement)}',
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
