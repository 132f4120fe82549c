"""Pysher, unmodified, with signatures made by the `pusher` package, against a hub with its database."""

import json
import logging
import queue
import unittest

import pusher
import pysher

from development_hub import APP_ID, KEY, SECRET, DevelopmentHub

WAIT = 20  # seconds until something that must come is said to be missing


class Device:
    """A Pysher client that keeps everything it receives."""

    def __init__(self, hub):
        self.received = queue.Queue()
        self.kept = []
        self.client = pysher.Pusher(
            KEY, custom_host="127.0.0.1", port=hub.port, secure=False, log_level=logging.CRITICAL, daemon=True)
        for event in ["pusher:connection_established", "pusher:signin_success", "pusher:pong", "pusher:error",
                      "sync:auth_ok"]:
            self.client.connection.bind(event, self._keep, None, event)
        # Every frame of a channel passes here, whatever its name.
        forward = self.client.connection.event_handler

        def handler(event, data, channel):
            self.received.put((channel, event, data))
            forward(event, data, channel)

        self.client.connection.event_handler = handler
        self.client.connect()
        self.socket_id = json.loads(self.wait(None, "pusher:connection_established"))["socket_id"]

    def _keep(self, data, channel, event):
        self.received.put((channel, event, data))

    def wait(self, channel, event):
        """The data of the first such event not yet asked for."""
        for index, item in enumerate(self.kept):
            if item[:2] == (channel, event):
                return self.kept.pop(index)[2]
        while True:
            try:
                item = self.received.get(timeout=WAIT)
            except queue.Empty:
                raise AssertionError(f"no {event} on {channel}; there were {[i[:2] for i in self.kept]}") from None
            if item[:2] == (channel, event):
                return item[2]
            self.kept.append(item)

    def ping(self):
        """Returns when all that the hub sent before has come."""
        while self.kept and any(item[1] == "pusher:pong" for item in self.kept):
            self.wait(None, "pusher:pong")
        self.client.connection.send_event("pusher:ping", {})
        self.wait(None, "pusher:pong")

    def sign_in(self, user):
        backend = pusher.Pusher(app_id=APP_ID, key=KEY, secret=SECRET)
        self.client.connection.send_event("pusher:signin", backend.authenticate_user(self.socket_id, {"id": user}))
        return self.wait(None, "pusher:signin_success")

    def subscribe(self, channel, auth=None):
        self.client.subscribe(channel, auth)

    def close(self):
        self.client.disconnect(timeout=2)


class PysherTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hub = DevelopmentHub()
        cls.hub.start()
        cls.backend = pusher.Pusher(app_id=APP_ID, key=KEY, secret=SECRET)

    @classmethod
    def tearDownClass(cls):
        status = cls.hub.stop()
        assert status == 0, f"the hub ended with status {status}: " + "".join(cls.hub.log)

    def device(self):
        device = Device(self.hub)
        self.addCleanup(device.close)
        return device

    def succeed(self, device, channel):
        self.assertIsInstance(device.wait(channel, "pusher_internal:subscription_succeeded"), str)

    def dose(self, user):
        return self.hub.sql(
            f"select id from care.dose_occurrence where user_id = '{user}' and status = 'scheduled' "
            "order by scheduled_at, id limit 1")

    def test_answers_the_ping_that_pysher_sends_at_once(self):
        device = self.device()
        device.wait(None, "pusher:pong")

    def test_a_committed_change_reaches_every_device_of_the_user_and_no_other(self):
        first, second, other = self.device(), self.device(), self.device()
        channel = "user.demo.adherence"
        for device, user in [(first, "demo"), (second, "demo"), (other, "demo2")]:
            device.sign_in(user)
            device.subscribe(f"user.{user}.adherence")
            self.succeed(device, f"user.{user}.adherence")
        other.subscribe(channel)
        dose = self.dose("demo")
        self.hub.sql(f"update care.dose_occurrence set status = 'taken', taken_at = now() where id = '{dose}'")
        for device in [first, second]:
            event = json.loads(device.wait(channel, "occurrence.updated"))
            self.assertEqual(event["occurrenceId"], dose)
            self.assertEqual(event["updates"]["status"], "taken")
            summary = json.loads(device.wait(channel, "adherence.summary_updated"))
            self.assertEqual(summary["_sync"]["o"], event["_sync"]["o"] + 1)
        other.ping()
        self.assertFalse([item for item in other.kept if item[0] == channel and "subscription_error" not in item[1]])

    def test_a_rolled_back_change_reaches_nobody(self):
        device = self.device()
        device.sign_in("demo2")
        device.subscribe("user.demo2.adherence")
        self.succeed(device, "user.demo2.adherence")
        dose = self.dose("demo2")
        self.hub.sql(
            f"begin; update care.dose_occurrence set status = 'skipped' where id = '{dose}'; rollback; "
            f"update care.dose_occurrence set note = 'with milk' where id = '{dose}'")
        event = json.loads(device.wait("user.demo2.adherence", "occurrence.updated"))
        self.assertEqual(event["updates"]["status"], "scheduled")
        self.assertTrue(event["updates"]["hasNote"])
        self.assertNotIn("with milk", json.dumps(event))

    def test_a_subscribe_before_signin_is_answered_after_it(self):
        device = self.device()
        device.subscribe("user.demo.reminders")
        device.ping()
        self.assertFalse([item for item in device.kept if item[0] == "user.demo.reminders"])
        device.sign_in("demo")
        self.succeed(device, "user.demo.reminders")

    def test_tokens_of_the_command_are_accepted_for_any_name(self):
        for user, name in [("demo", "demo"), ("a.b@example.org", "a.b@example.org"), ("Zoë/1", "Zo=C3=AB=2F1")]:
            device = self.device()
            device.client.connection.send_event("sync:auth", {"token": self.hub.token(user)})
            self.assertEqual(json.loads(device.wait(None, "sync:auth_ok"))["userId"], user)
            device.subscribe(f"user.{name}.adherence")
            self.succeed(device, f"user.{name}.adherence")

    def test_private_channels_need_the_signature_of_the_backend(self):
        device = self.device()
        good = self.backend.authenticate("private-room", device.socket_id)["auth"]
        device.subscribe("private-room", good)
        self.succeed(device, "private-room")
        device.subscribe("private-other", good)
        refusal = json.loads(device.wait("private-other", "pusher:subscription_error"))
        self.assertEqual(refusal["status"], 401)
        # The connection lives on.
        device.ping()

    def test_a_signed_private_user_channel_is_a_stream_too(self):
        device = self.device()
        channel = "private-user.demo.adherence"
        device.subscribe(channel, self.backend.authenticate(channel, device.socket_id)["auth"])
        self.succeed(device, channel)
        dose = self.dose("demo")
        self.hub.sql(f"update care.dose_occurrence set note = 'x' where id = '{dose}'")
        self.assertEqual(json.loads(device.wait(channel, "occurrence.updated"))["occurrenceId"], dose)

    def test_public_channels_need_nothing(self):
        device = self.device()
        device.subscribe("news")
        self.succeed(device, "news")


if __name__ == "__main__":
    unittest.main()
