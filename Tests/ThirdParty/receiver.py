"""A backend that takes webhooks: a real HTTP server, which believes only what Pusher's own library finds signed."""

import http.server
import json
import ssl
import threading
import time

from waiting import eventually


class Hook:
    """One request as it came."""

    def __init__(self, path, fields, body):
        self.path, self.body, self.at = path, body, time.monotonic()
        self.fields = {name.lower(): value for name, value in fields.items()}

    def validated(self, app, secret=None):
        """The webhook, by the library of the app's backend; None where that would not have it."""
        return app.backend(secret=secret).validate_webhook(
            self.fields["x-pusher-key"], self.fields["x-pusher-signature"], self.body)


class Receiver:
    """Listens on a port of its own; `answer` gives each request its status, or 200."""

    def __init__(self, app, certificate=None, answer=lambda hook: 200, host="127.0.0.1"):
        self.app, self.answer, self.hooks, self.host = app, answer, [], host
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook = Hook(self.path, self.headers, body)
                status = receiver.answer(hook)
                receiver.hooks.append(hook)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.certificate, certificate.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self):
        return self._server.server_address[1]

    def url(self, path="/hooks", host=None):
        return f"{self.scheme}://{host or self.host}:{self.port}{path}"

    def events(self, *names):
        """The events answered with 200, in order; each request's signature is verified."""
        found = []
        for hook in list(self.hooks):
            told = hook.validated(self.app)
            assert told is not None, (hook.fields, hook.body)
            assert hook.fields["content-type"].startswith("application/json")
            found += [event for event in told["events"] if not names or event["name"] in names]
        return found

    def eventually(self, predicate, what):
        """Waits until the events told so far fit, and returns them."""
        return eventually(lambda: predicate(found := self.events()) and found, what)

    def told(self, event):
        """Waits until exactly that event was told."""
        return self.eventually(lambda events: event in events, json.dumps(event))
