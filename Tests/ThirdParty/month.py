"""A month without a network on a device of the Swift library, and back: figures, as JSON.

    deploy/development/release carillon ClientDevice
    CARILLON=$PWD/.build/release/carillon Tests/ThirdParty/month --actions 3000
"""

import argparse
import json
import time

from hub import Hub
from swift_device import SwiftDevice
from waiting import eventually

#: Doses of the day that the device shows.
DOSES = 60


def month(hub, count):
    with SwiftDevice(hub, "away") as phone:
        app = phone.process().begin().settles()
        made = app.ask("measure", count=count)
        app.kill()
        phone.offline()
        starts = []
        for _ in range(5):
            begun = time.monotonic()
            app = phone.process()
            opened = app.begin().opened
            starts.append({"opened": opened["opened"], "process": (time.monotonic() - begun) * 1000})
            assert opened["isShown"]
            app.kill()
        app = phone.process().begin()
        phone.online()
        begun = time.monotonic()
        eventually(lambda: app.ask("standing")["waiting"] == 0, "the queue has drained", 600)
        drained = time.monotonic() - begun
        stored, = hub.query("select count(*) from sync.action where user_id = 'away'")[0]
        starts.sort(key=lambda one: one["opened"])
        return {
            "actions": count, "stored": stored, "drainSeconds": round(drained, 2), "storeBytes": made["bytes"],
            "actMilliseconds": round(made["acts"] / max(count, 1), 3), "lastActsMilliseconds": round(made["act100"], 3),
            "readMilliseconds": round(made["read"], 4), "startMilliseconds": round(starts[2]["opened"], 1),
            "processMilliseconds": round(starts[2]["process"], 1)}


def main():
    parser = argparse.ArgumentParser(description="A month without a network.")
    parser.add_argument("--actions", type=int, default=3000)
    arguments = parser.parse_args()
    with Hub("--limits-actions-per-second", "0", "--limits-messages-per-second", "0") as hub:
        hub.wait_until_listening()
        hub.query("insert into care.dose_occurrence (user_id, product_id, scheduled_at, window_end)"
                  f" select 'away', 'zinc', now(), now() + interval '1 hour' from generate_series(1, {DOSES})")
        print(json.dumps(month(hub, arguments.actions)))


if __name__ == "__main__":
    main()
