"""TLS, judged by Python's ssl, by the openssl command, and by Pysher."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import threading

import pytest

import certificates
from certificates import Certificate
from client import Client
from doses import add_dose
from hub import APP_KEY, Hub, Program, Server
from names import stream
from test_operations import APPS, metrics
from waiting import PATIENCE, eventually

LISTEN = "127.0.0.1:0,tls:127.0.0.1:0"
UPGRADE = (f"GET /app/{APP_KEY}?protocol=7 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def pair(folder):
    return Certificate(folder, "localhost")


@pytest.fixture(scope="module")
def star(folder):
    return Certificate(folder, "star", "*.example.org")


@pytest.fixture(scope="module")
def secured(pair, star):
    """A hub with two certificates, in the clear and with TLS."""
    with Hub(*certificates.settings(pair, star), listen=LISTEN) as running:
        running.wait_until_listening()
        yield running


def context(*roots, **changes):
    made = ssl.create_default_context()
    for root in roots:
        made.load_verify_locations(root.certificate)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def connected(port, made, name="localhost", session=None):
    raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    try:
        return made.wrap_socket(raw, server_hostname=name, session=session)
    except BaseException:
        raw.close()
        raise


def upgraded(client):
    client.sendall(UPGRADE)
    text = b""
    while b"pusher:connection_established" not in text:
        chunk = client.recv(65536)
        assert chunk, f"closed after {text}"
        text += chunk
    assert text.startswith(b"HTTP/1.1 101 ")


def test_pysher(secured, pair, user, monkeypatch):
    monkeypatch.setenv("WEBSOCKET_CLIENT_CA_BUNDLE", str(pair.certificate))
    with Client(secured, secure=True) as client:
        assert client.pusher.connection.url.startswith("wss://")
        client.sign_in(user)
        name = stream(user)
        client.subscribe(name, "occurrence.created")
        client.subscribed(name)
        add_dose(secured, user)
        client.wait_for(name, "occurrence.created")
        client.answered()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_and_resumption(secured, pair, version):
    made = context(pair, minimum_version=version, maximum_version=version)
    before = metrics(secured)
    with connected(secured.secure_port, made) as first:
        upgraded(first)
        assert first.version() == version.name.replace("_", ".")
        assert not first.session_reused
        assert first.compression() is None
        session = first.session
        assert session.has_ticket
    with connected(secured.secure_port, made, session=session) as second:
        upgraded(second)
        assert second.session_reused
    after = metrics(secured)
    for kind in ("full", "resumed"):
        name = f'carillon_tls_handshakes_total{{kind="{kind}"}}'
        assert after[name] == before[name] + 1


@pytest.mark.parametrize("versions, ciphers", [
    ((ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1), "ALL:@SECLEVEL=0"),
    ((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2), "AES256-GCM-SHA384:@SECLEVEL=0"),
    ((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2), "ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0"),
])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_weak_is_refused(secured, pair, versions, ciphers):
    made = context(pair, minimum_version=versions[0], maximum_version=versions[1])
    made.set_ciphers(ciphers)
    before = metrics(secured)['carillon_tls_handshakes_failed_total{reason="none_in_common"}']
    with pytest.raises(ssl.SSLError):
        connected(secured.secure_port, made)
    eventually(
        lambda: metrics(secured)['carillon_tls_handshakes_failed_total{reason="none_in_common"}'] == before + 1,
        "the refusal is counted")


def test_alpn(secured, pair):
    made = context(pair)
    made.set_alpn_protocols(["h2", "http/1.1"])
    with connected(secured.secure_port, made) as client:
        assert client.selected_alpn_protocol() == "http/1.1"
        upgraded(client)
    made.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        connected(secured.secure_port, made)


def test_sni(secured, pair, star):
    for name, root in (("a.example.org", star), ("localhost", pair)):
        with connected(secured.secure_port, context(root), name) as client:
            upgraded(client)
    # The first certificate is nobody else's.
    for name in ("b.a.example.org", "example.org"):
        with pytest.raises(ssl.SSLCertVerificationError):
            connected(secured.secure_port, context(pair, star), name)


def test_no_renegotiation(secured):
    """`R` asks for another handshake on the same connection."""
    result = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{secured.secure_port}", "-tls1_2"], input="R\n", text=True,
        capture_output=True, timeout=PATIENCE)
    assert "RENEGOTIATING" in result.stdout + result.stderr
    assert "no renegotiation" in result.stderr


def test_plain_http_is_told(secured):
    with socket.create_connection(("127.0.0.1", secured.secure_port), timeout=PATIENCE) as plain:
        plain.sendall(UPGRADE)
        answer = b""
        while chunk := plain.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"This port speaks TLS" in answer


def test_slow_handshakes_hold_up_nobody(pair):
    """A client that sends nothing, or too little, is closed in time. Others are served meanwhile."""
    with Hub(*certificates.settings(pair), "--handshake-timeout", "2s", listen=LISTEN) as hub:
        with connected(hub.secure_port, context(pair)) as healthy:
            upgraded(healthy)
            slow = [socket.create_connection(("127.0.0.1", hub.secure_port), timeout=PATIENCE) for _ in range(150)]
            for index, raw in enumerate(slow):
                raw.sendall([b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"][index % 3])
            for raw in slow:
                # A reset where it was not even read.
                with contextlib.suppress(ConnectionResetError):
                    assert raw.recv(1) == b""
                raw.close()
            healthy.sendall(b"\x89\x80\x00\x00\x00\x00")
            assert healthy.recv(2) == b"\x8a\x00"
        assert metrics(hub)['carillon_tls_handshakes_failed_total{reason="timeout"}'] == 150
        assert metrics(hub)["carillon_tls_handshakes_under_way"] == 0


def test_tickets_are_good_at_another_hub(pair, folder):
    tickets = folder / "tickets"
    tickets.write_bytes(os.urandom(80))
    tickets.chmod(0o600)
    options = {"CARILLON_LISTEN": "tls:127.0.0.1:0", "CARILLON_APPS": APPS,
               "CARILLON_TLS_CERTIFICATE_FILES": str(pair.certificate), "CARILLON_TLS_KEY_FILES": str(pair.key),
               "CARILLON_TLS_TICKET_KEYS_FILE": str(tickets)}
    made = context(pair, maximum_version=ssl.TLSVersion.TLSv1_2)
    with Server(**options) as here, Server(**options) as there:
        with connected(here.port, made) as first:
            session = first.session
        with connected(there.port, made, session=session) as second:
            assert second.session_reused
        # The old key still opens.
        tickets.write_bytes(os.urandom(80) + tickets.read_bytes())
        here.program.process.send_signal(signal.SIGHUP)
        eventually(lambda: metrics(here)['carillon_tls_reloads_total{result="ok"}'] == 1, "the keys are read")
        with connected(here.port, made, session=session) as third:
            assert third.session_reused
            renewed = third.session
        with connected(there.port, made, session=renewed) as fourth:
            assert not fourth.session_reused


def test_reload(folder):
    pair = Certificate(folder, "reloaded", "old.example")
    with Hub(*certificates.settings(pair), listen=LISTEN) as hub:
        old = context(pair)
        kept = connected(hub.secure_port, old, "old.example")
        upgraded(kept)

        pair.make("new.example")
        before = metrics(hub)
        hub.program.process.send_signal(signal.SIGHUP)
        eventually(lambda: metrics(hub)['carillon_tls_reloads_total{result="ok"}'] == 1, "the certificate is read")
        with connected(hub.secure_port, context(pair), "new.example") as client:
            upgraded(client)

        pair.certificate.write_text("nonsense")
        hub.program.process.send_signal(signal.SIGHUP)
        eventually(lambda: metrics(hub)['carillon_tls_reloads_total{result="failed"}'] == 1, "the file is refused")
        line = hub.program.err.wait_for(lambda line: "certificates stay as they were" in line, "why, in the log")
        assert str(pair.certificate) in line
        expiry = f'carillon_tls_certificate_expiry_seconds{{file="{pair.certificate}"}}'
        assert metrics(hub)[expiry] >= before[expiry]

        # Who was there before both is there still.
        kept.sendall(b"\x89\x80\x00\x00\x00\x00")
        assert kept.recv(2) == b"\x8a\x00"
        kept.close()


def test_reload_under_load(folder):
    pair = Certificate(folder, "busy")
    with Hub(*certificates.settings(pair), listen=LISTEN) as hub:
        made = context(pair)
        problems = []

        def connect_often():
            try:
                for _ in range(40):
                    with connected(hub.secure_port, made) as client:
                        upgraded(client)
            except Exception as problem:
                problems.append(problem)

        threads = [threading.Thread(target=connect_often) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            hub.program.process.send_signal(signal.SIGHUP)
            threads[0].join(0.02)
        assert problems == []
        assert metrics(hub)['carillon_tls_reloads_total{result="ok"}'] >= 1


def check_config(*options):
    program = Program(
        "check-config", *options, environment={"CARILLON_APPS": APPS, "CARILLON_LISTEN": "tls:127.0.0.1:0"})
    status = program.wait()
    eventually(lambda: not program.err.is_open, "its end")
    return status, program.err.text()


def test_check_config(folder, pair):
    assert check_config(*certificates.settings(pair)) == (0, "")
    soon = Certificate(folder, "soon", days=3)
    soon.key.chmod(0o644)
    status, said = check_config(*certificates.settings(soon))
    assert status == 0
    assert f"{soon.certificate}: this certificate expires in " in said
    assert f"{soon.key}: every user of this machine can read this secret" in said
    status, said = check_config(*certificates.settings(pair, soon)[:2])
    assert status == 78 and "each certificate needs its key" in said
    status, said = check_config("--tls-certificate-files", str(pair.certificate), "--tls-key-files", str(soon.key))
    assert status == 78 and f"{soon.key}: is not the key of the certificate in {pair.certificate}" in said
    status, said = check_config()
    assert status == 78 and "no tls.certificateFiles are given" in said
    status, said = check_config(*certificates.settings(pair), "--listen", "127.0.0.1:0")
    assert status == 78 and "write it as tls:ADDRESS" in said
