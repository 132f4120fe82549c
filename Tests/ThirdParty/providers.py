"""Push providers of our own: real HTTP/2 servers that answer as APNs, FCM and Google's token service do. The protocol is
that of PyPI's h2."""

import collections
import json
import socket
import ssl
import threading
import time
from urllib.parse import parse_qs

import h2.config
import h2.connection
import h2.errors
import h2.events
import jwt

#: What a provider does instead of answering: it keeps the stream open, resets it, closes the connection, or says goodbye.
HOLD, RESET, CUT, GOAWAY = "hold", "reset", "cut", "goaway"

KEY_ID, TEAM_ID = "KEY1234567", "TEAM123456"

Answer = collections.namedtuple("Answer", "status body fields", defaults=("", ()))


class Request:
    """One request as it came, on the connection of that number."""

    def __init__(self, connection, fields, body):
        self.connection, self.fields, self.body, self.at = connection, dict(fields), body, time.monotonic()

    @property
    def path(self):
        return self.fields[":path"]

    @property
    def json(self):
        return json.loads(self.body)


class Provider:
    """Listens on a port of 127.0.0.1 with TLS. `answer(request)` gives an Answer, or what it does instead."""

    def __init__(self, certificate, answer, streams=100):
        self.answer, self.requests, self.connections, self.streams = answer, [], 0, streams
        #: While it is not set, connections are taken and nothing is said to them.
        self.speaks = threading.Event()
        self.speaks.set()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.certificate, certificate.key)
        self._context.set_alpn_protocols(["h2"])
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._is_open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._is_open = False
        self.speaks.set()
        # It ends the accept that waits.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def origin(self):
        return f"https://localhost:{self._listener.getsockname()[1]}"

    def _accept(self):
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(plain, self.connections), daemon=True).start()

    def _serve(self, plain, number):
        self.speaks.wait()
        if not self._is_open:
            return plain.close()
        try:
            with self._context.wrap_socket(plain, server_side=True) as secured:
                _Conversation(self, secured, number).run()
        except OSError:
            pass


class _Conversation:
    """One connection of HTTP/2."""

    def __init__(self, provider, secured, number):
        self.provider, self.socket, self.number = provider, secured, number
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.heads, self.bodies = {}, collections.defaultdict(bytes)

    def run(self):
        self.http.local_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = self.provider.streams
        self.http.initiate_connection()
        self.send()
        while data := self.socket.recv(65536):
            for event in self.http.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    self.heads[event.stream_id] = event.headers
                elif isinstance(event, h2.events.DataReceived):
                    self.bodies[event.stream_id] += event.data
                    self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded) and not self.answered(event.stream_id):
                    return
            self.send()

    def answered(self, stream):
        """Answers one request; False ends the connection."""
        request = Request(self.number, self.heads.pop(stream), self.bodies.pop(stream, b""))
        answer = self.provider.answer(request)
        self.provider.requests.append(request)
        if answer == CUT:
            return False
        if answer == GOAWAY:
            # It has read no later stream, and answers none.
            self.http.close_connection(last_stream_id=stream - 2 if stream > 1 else 0)
            self.send()
            return False
        if answer == RESET:
            self.http.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        elif answer != HOLD:
            body = answer.body.encode()
            self.http.send_headers(stream, [(":status", str(answer.status)), *answer.fields], end_stream=not body)
            if body:
                self.http.send_data(stream, body, end_stream=True)
        return True

    def send(self):
        self.socket.sendall(self.http.data_to_send())


class Apple(Provider):
    """As APNs answers. `judge(token, request)` may give another answer than 200."""

    def __init__(self, certificate, key, judge=lambda token, request: None, **options):
        self.key, self.judge, self.expired = key, judge, set()
        super().__init__(certificate, self._answer, **options)

    def _answer(self, request):
        scheme, _, text = request.fields.get("authorization", "").partition(" ")
        try:
            claims = jwt.decode(text, self.key, algorithms=["ES256"])
            header = jwt.get_unverified_header(text)
            good = scheme == "bearer" and header["kid"] == KEY_ID and claims["iss"] == TEAM_ID
        except jwt.PyJWTError:
            good = False
        if not good:
            return refusal(403, "InvalidProviderToken")
        if text in self.expired or not -60 < time.time() - claims["iat"] < 3600:
            return refusal(403, "ExpiredProviderToken")
        if request.fields[":method"] != "POST" or not request.path.startswith("/3/device/"):
            return refusal(404, "BadPath")
        if len(request.body) > 4096:
            return refusal(413, "PayloadTooLarge")
        return self.judge(request.path.rpartition("/")[2], request) or Answer(200, "", (("apns-id", "id"),))

    def of(self, occurrence):
        """The requests about that occurrence."""
        return [request for request in self.requests if request.fields["apns-collapse-id"] == occurrence]


def refusal(status, reason, *fields, **members):
    """An answer of APNs with a reason."""
    return Answer(status, json.dumps({"reason": reason, **members}), fields)


class Google(Provider):
    """As FCM and Google's token service answer, on one port."""

    def __init__(self, certificate, key, judge=lambda token, request: None, **options):
        self.key, self.judge, self.tokens, self.expired = key, judge, 0, set()
        super().__init__(certificate, self._answer, **options)

    def _answer(self, request):
        if request.path == "/token":
            return self._token(request)
        if request.path != "/v1/projects/project-1/messages:send":
            return Answer(404, "<html>no such page</html>")
        bearer = request.fields.get("authorization", "")
        if bearer not in {f"Bearer token-{number}" for number in range(1, self.tokens + 1)} or bearer in self.expired:
            return complaint(401, "UNAUTHENTICATED", None)
        return self.judge(request.json["message"]["token"], request) or Answer(200, '{"name": "projects/1/messages/1"}')

    def _token(self, request):
        form = parse_qs(request.body.decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        try:
            claims = jwt.decode(form["assertion"][0], self.key, algorithms=["RS256"], audience=f"{self.origin}/token")
        except jwt.PyJWTError as error:
            return Answer(400, json.dumps({"error": "invalid_grant", "error_description": str(error)}))
        assert claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging"
        assert claims["iss"] == "carillon@project-1.example.org" and claims["exp"] - claims["iat"] <= 3600
        self.tokens += 1
        return Answer(200, json.dumps(
            {"access_token": f"token-{self.tokens}", "expires_in": 3599, "token_type": "Bearer"}))

    def of(self, occurrence):
        """The requests about that occurrence."""
        return [request for request in self.requests if request.path != "/token"
                and request.json["message"]["android"]["notification"]["tag"] == occurrence]


def complaint(status, name, code, *fields):
    """An answer of FCM with an error: its status, and the code among its details."""
    details = [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}] if code else []
    return Answer(status, json.dumps({"error": {
        "code": status, "message": "in their words", "status": name, "details": details}}), fields)
