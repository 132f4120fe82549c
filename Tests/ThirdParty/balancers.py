"""The proxies of deploy/proxies before two hubs, on loopback addresses in place of the files' own."""

import os
import pathlib
import re
import shutil
import subprocess

from certificates import Certificate
from stage import free_port
from waiting import PATIENCE, eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf", "caddy": "Caddyfile"}

#: The hubs of the files stand at 10.0.0.11 and 10.0.0.12; here at these.
HOSTS = ("127.0.0.11", "127.0.0.12")


def found(name):
    """A program of the machine, or one that deploy/development/packages has put aside; None where there is none."""
    return (shutil.which(name) or shutil.which(name, path="/usr/sbin")
            or shutil.which(ROOT / ".build/tools" / name))


def text(name):
    """The file as it is in deploy."""
    return (ROOT / "deploy/proxies" / FILES[name]).read_text()


def drain_pause(name):
    """`drainPause` of hubs behind it, as its file tells it."""
    told = re.search(r"CARILLON_DRAIN_PAUSE=(\w+)", text(name))
    return told.group(1) if told else "0s"


def _replaced(held, *pairs):
    for old, new in pairs:
        assert old in held, f"there is no {old!r} to fill in"
        held = held.replace(old, new)
    return held


class Balancer:
    """A proxy that runs as its file in deploy says, but for addresses, paths and TLS."""

    def __init__(self, name, folder, clients=6001, operations=9601, backend="users"):
        """`clients`, `operations`: the hubs' ports."""
        self.name, self.folder = name, pathlib.Path(folder)
        self.port, self.clients = free_port(), clients
        self._text = text(name)
        self.file = self.folder / FILES[name]
        self._ports = [("10.0.0.11:6001", f"{HOSTS[0]}:{clients}"), ("10.0.0.12:6001", f"{HOSTS[1]}:{clients}")]
        if name != "nginx":
            self._ports.append(("port 9601", f"port {operations}"))
        if name != "caddy":
            # Caddy's users name one hub for ordinary channels.
            self._ports.append({"haproxy": ("default_backend users", f"default_backend {backend}"),
                                "nginx": ("proxy_pass http://users", f"proxy_pass http://{backend}")}[name])
        self._process = None

    def write(self, tls=False):
        """Writes the file; `tls`: with a certificate, to be judged, not to be run."""
        getattr(self, f"_write_{self.name}")(tls)
        return self.file

    def _write_haproxy(self, tls):
        # Owned by no user of its own here, and not by root where we are not.
        held = re.sub(r"(?m)^    (user|group) haproxy\n", "", self._text)
        held = _replaced(held, ("/run/haproxy", str(self.folder)), ("maxconn 100000", "maxconn 1000"),
                         ("# `echo", "# In Debian: `echo"), *self._ports)
        bind = "bind :443 ssl crt /etc/haproxy/hub.pem"
        if tls:
            pair = Certificate(self.folder, "hub")
            both = self.folder / "both.pem"
            both.write_text(pair.certificate.read_text() + pair.key.read_text())
            held = _replaced(held, (bind, f"bind 127.0.0.1:{self.port} ssl crt {both}"))
        else:
            held = _replaced(held, (bind + " alpn http/1.1", f"bind 127.0.0.1:{self.port}"))
        self.file.write_text(held)

    def becomes_one_hub(self):
        """As haproxy's file says what to remove for one hub."""
        check = re.findall(r"(?m)^    (?:option httpchk|default-server) .*\n", self._text)
        assert len(check) == 2, check
        self._text = _replaced(self._text, *((line, "") for line in check))
        self._text = re.sub(r"(?m)^    server hub2 .*\n", "", self._text)
        self._text = re.sub(r"(?m)^(    server hub1 \S+) .*$", r"\1", self._text)
        self._ports = [pair for pair in self._ports if pair[0] in self._text]

    def is_asked(self):
        """Whether a client is at it, whose request has no answer yet."""
        wanted = f"{self.port:04X}"
        return any(line.split()[1].endswith(":" + wanted) and line.split()[3] == "01"
                   for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:])

    def _write_nginx(self, tls):
        spare = "".join(f"    {kind}_temp_path {self.folder}/{kind};\n"
                        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        held = _replaced(
            text("nginx"), ("/run/nginx.pid", f"{self.folder}/nginx.pid"), ("/var/log/nginx", str(self.folder)),
            ("worker_rlimit_nofile 200000;\n", ""), ("worker_connections 65536", "worker_connections 1000"),
            ("http {\n", "http {\n" + spare), *self._ports)
        if tls:
            Certificate(self.folder, "hub")
            held = _replaced(held, ("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
                             ("/etc/nginx/hub", f"{self.folder}/hub"))
        else:
            held = re.sub(r"(?m)^        ssl_.*\n", "", held)
            held = _replaced(held, ("listen 443 ssl", f"listen 127.0.0.1:{self.port}"))
        self.file.write_text(held)

    def _write_caddy(self, tls):
        held = _replaced(text("caddy"), *self._ports)
        if not tls:
            held = "{\n\tadmin off\n\tauto_https off\n}\n" + _replaced(
                held, ("hub.example.org {", f"http://:{self.port} {{\n\tbind 127.0.0.1"))
        self.file.write_text(held)

    def _command(self):
        return {
            "haproxy": ["-db", "-f", self.file],
            "nginx": ["-p", self.folder, "-e", self.folder / "error.log", "-c", self.file, "-g", "daemon off;"],
            "caddy": ["run", "--adapter", "caddyfile", "--config", self.file],
        }[self.name]

    def _check(self):
        return {
            "haproxy": ["-c", "-f", self.file],
            "nginx": ["-t", "-p", self.folder, "-e", self.folder / "error.log", "-c", self.file],
            "caddy": ["validate", "--adapter", "caddyfile", "--config", self.file],
        }[self.name]

    def _environment(self):
        return {**os.environ, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder),
                "XDG_CONFIG_HOME": str(self.folder)}

    def judged(self):
        """Its own verdict on the file: status and words."""
        done = subprocess.run([found(self.name), *map(str, self._check())], capture_output=True, text=True,
                              env=self._environment())
        return done.returncode, done.stdout + done.stderr

    def __enter__(self):
        self.write()
        # nginx's workers are another user.
        self.folder.chmod(0o755)
        self._log = open(self.folder / f"{self.name}.log", "w")
        self._process = subprocess.Popen(
            [found(self.name), *map(str, self._command())], stdin=subprocess.DEVNULL, stdout=self._log,
            stderr=self._log, env=self._environment())
        try:
            eventually(lambda: self._process.poll() is not None or self._listens(), f"{self.name} listens")
            assert self._process.poll() is None, self.log()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _listens(self):
        wanted = f"{self.port:04X}"
        return any(line.split()[1].endswith(":" + wanted) and line.split()[3] == "0A"
                   for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:])

    def log(self):
        return (self.folder / f"{self.name}.log").read_text()

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
