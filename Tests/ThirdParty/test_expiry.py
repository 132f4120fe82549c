"""Identities end: tokens expire on open connections and are renewed there, and a revoked user is out in seconds."""

import time

from device import Device
from doses import add_dose, hears
from hub import Hub
from names import stream
from waiting import eventually

#: What a revocation may take, in seconds: the poll's interval and one more, and as much again for a busy machine.
SECONDS_TO_BE_OUT = 5


def joined(hub, user, **claims):
    """A device whose token is in its upgrade."""
    device = Device(hub, token=hub.token(user, **claims))
    device.authenticated()
    device.subscribe(stream(user))
    device.subscribed(stream(user))
    return device


def test_a_token_is_renewed_on_the_open_connection(hub, user):
    with joined(hub, user, lifetime=62) as device:
        told = device.wait_for_event("sync:auth_expiring")
        assert abs(told.data["expiresAt"] - time.time() - 60) < 10, told
        mark = device.count()
        device.authenticate(hub.token(user + "x"))
        device.complaint(start=mark)
        device.authenticate(hub.token(user, lifetime=600))
        renewed = device.wait_for_event("sync:auth_ok", start=mark)
        assert renewed.data["userId"] == user and renewed.data["expiresAt"] > time.time() + 500
        hears(device, user, add_dose(hub, user))


def test_a_token_that_is_not_renewed_ends_its_connection(hub, user):
    """A lifetime below the grace of the hub's clock: announced at once, closed after the grace of 25 seconds."""
    with joined(hub, user, lifetime=1) as device, joined(hub, user) as other:
        device.wait_for_event("sync:auth_expiring")
        hears(device, user, add_dose(hub, user))
        assert device.closed(60) == 4109
        hears(other, user, add_dose(hub, user))


def revoke(hub, user):
    hub.query("select sync.revoke(%s)", [user])


def test_a_revoked_user_is_out_in_seconds_and_nobody_else(user):
    with Hub() as hub:
        other = user + "x"
        # A token's time of issue is in whole seconds.
        old = hub.token(user, iat=int(time.time()) - 10)
        with joined(hub, user) as device, joined(hub, other) as bystander, Device(hub) as signed:
            signed.sign_in(user)
            signed.signed_in()
            started = time.monotonic()
            revoke(hub, user)
            assert device.closed() == 4110 and signed.closed() == 4110
            assert time.monotonic() - started < SECONDS_TO_BE_OUT
            hears(bystander, other, add_dose(hub, other))
            with Device(hub) as again:
                again.authenticate(old)
                again.complaint()
                mark = again.count()
                eventually(lambda: time.time() % 1 < 0.5, "another second")
                again.authenticate(hub.token(user, iat=int(time.time()) + 1))
                again.wait_for_event("sync:auth_ok", start=mark)
        # It is kept over the hub's own life.
        hub.listen = f"127.0.0.1:{hub.port}"
        hub.stop()
        hub.start()
        hub.wait_until_listening()
        with Device(hub) as late:
            # Either the hub has read it by now, or it lets the user in and out again.
            late.authenticate(old)
            eventually(lambda: late.close_code == 4110 or any(
                frame.event == "pusher:error" for frame in late.frames), "the user is out")
