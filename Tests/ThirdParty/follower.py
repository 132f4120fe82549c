"""A stream followed without a gap, over any number of connections.

The lines of Sources/Values/Sync/README.md for pusher-js, in Python.
"""


class Follower:
    """Knows the position, and what to ask for. The owner sends, fetches, applies, and calls in from one thread.

    `send(event, data)` returns whether there is a connection to send it on; `fetch(done)` gets a snapshot and calls
    `done(position, snapshot)`, at any time; `show(snapshot)` puts it in place of what was there, and `apply(frame)` is
    told each event once, in order.
    """

    def __init__(self, channel, send, fetch, show, apply):
        self.channel = channel
        #: Epoch and offset of the last event applied; none until there is a snapshot.
        self.position = None
        self.is_resuming = False
        self._send = send
        self._fetch = fetch
        self._show = show
        self._apply = apply
        #: Events that came while a snapshot was on its way.
        self._held = []
        self._turn = 0

    @property
    def is_complete(self):
        return self.position is not None and not self.is_resuming

    def resume(self):
        """Call it on each `connected`, after a gap, and after a pause when the hub could not resume."""
        if self.position:
            self.is_resuming = self._send("sync:resume", {"v": 1, "channels": {self.channel: self.position}})

    def subscribed(self, start):
        """`subscription_succeeded`: all events above `start` come, and so a snapshot may be read.

        One that came since `connected` may be older than `start`, and nothing was resumed from it."""
        if not self.position:
            self.snapshot()
        elif not self.is_resuming and start != self.position:
            self.resume()

    def snapshot(self):
        self._turn += 1
        turn = self._turn
        self.position, self.is_resuming, self._held = None, False, []

        def done(position, snapshot):
            # Another one was begun meanwhile: what this one shows is older than the position of that one.
            if turn != self._turn:
                return
            self.position = position
            self._show(snapshot)
            held, self._held = self._held, []
            for frame in held:
                self.take(frame)

        self._fetch(done)

    def stop(self):
        """The user has no right to the channel: neither the log nor a snapshot would be given."""
        self._turn += 1
        self.position, self.is_resuming, self._held = None, False, []
        self._send("pusher:unsubscribe", {"channel": self.channel})

    def take(self, frame):
        """Any event of the channel."""
        offset = frame.data["_sync"]["o"]
        if not self.position:
            self._held.append(frame)
        elif offset == self.position["offset"] + 1:
            self._apply(frame)
            self.position = {**self.position, "offset": offset}
        elif offset > self.position["offset"] and not self.is_resuming:
            self.resume()

    def resumed(self, told, later):
        """Takes what `sync:resumed` says of the channel. `later(work)` calls `work` after a pause."""
        if told["recovered"]:
            self.is_resuming = False
        elif told["reason"] == "store_unavailable":
            later(self.resume)
        elif told["reason"] == "forbidden":
            self.stop()
        else:
            self.snapshot()
