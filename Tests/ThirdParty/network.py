"""Network namespaces for some programs, and ways between them that swallow what is sent, as a broken switch does."""

import contextlib
import functools
import ipaddress
import random
import subprocess
import sys

from waiting import PATIENCE, eventually

#: An address that nobody has: what is sent there is gone, and nobody says so.
NOBODY = "02:00:00:00:00:01"


def _run(*words, check=True):
    return subprocess.run(words, check=check, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=PATIENCE)


class Place:
    """A namespace with one address. A process that sleeps holds it, and it ends with that."""

    def __init__(self, network, number):
        self.address = network.address(number)
        self._network, self._silent = network, set()
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        #: What a command begins with that is to run there.
        self.command = ("nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--")
        own = subprocess.run(["readlink", "/proc/self/ns/net"], capture_output=True, text=True, check=True).stdout
        eventually(lambda: _run("readlink", f"/proc/{self._holder.pid}/ns/net").stdout not in ("", own), "it is elsewhere")
        end = f"{network.name}-{number}"
        _run("ip", "link", "add", end, "type", "veth", "peer", "name", "way", "netns", str(self._holder.pid))
        _run("ip", "link", "set", end, "master", network.name, "up")
        for words in ("addr add {}/24 dev way", "link set way up", "link set lo up"):
            self._ip(*words.format(self.address).split())

    def _ip(self, *words, check=True):
        return _run(*self.command, "ip", *words, check=check)

    def is_deaf_to(self, addresses):
        """From now on, what is sent from here to these addresses comes nowhere."""
        for address in addresses:
            self._silent.add(address)
            self._ip("neigh", "replace", address, "lladdr", NOBODY, "nud", "permanent", "dev", "way")

    def hears_all(self):
        """All ways are open again."""
        while self._silent:
            self._ip("neigh", "del", self._silent.pop(), "dev", "way", check=False)

    def reaches(self, address):
        """Whether somebody answers there, if only that nobody listens."""
        words = "import socket, sys; a = socket.socket(); a.settimeout(2); sys.exit(a.connect_ex((sys.argv[1], 9)) != 111)"
        return subprocess.run([*self.command, sys.executable, "-c", words, address], timeout=PATIENCE).returncode == 0

    def end(self):
        self._holder.kill()
        self._holder.wait(PATIENCE)


class Network:
    """A bridge with an address of ours for each server, and places beside us."""

    def __init__(self, places, addresses):
        """So many places, and so many addresses at our end of the bridge."""
        dice = random.SystemRandom()
        # Of the addresses that are for measurements (RFC 2544).
        self._net = ipaddress.ip_network(f"198.{dice.choice([18, 19])}.{dice.randrange(256)}.0/24")
        self.name = f"cv{dice.randrange(1 << 24):06x}"
        self._stack = contextlib.ExitStack()
        self._counts = places, addresses

    def __enter__(self):
        places, addresses = self._counts
        try:
            _run("ip", "link", "add", self.name, "type", "bridge")
            self._stack.callback(_run, "ip", "link", "del", self.name, check=False)
            _run("ip", "link", "set", self.name, "up")
            #: Ours.
            self.addresses = [self.address(101 + number) for number in range(addresses)]
            for address in self.addresses:
                _run("ip", "addr", "add", f"{address}/24", "dev", self.name)
            self.places = []
            for number in range(places):
                place = Place(self, 1 + number)
                self._stack.callback(place.end)
                self.places.append(place)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *failure):
        self._stack.__exit__(*failure)

    def address(self, number):
        return str(self._net[number])


@functools.cache
def why_not():
    """Why there are no namespaces here; None where there are."""
    try:
        with Network(1, 1):
            return None
    except (OSError, subprocess.SubprocessError, AssertionError) as error:
        return f"{error} {getattr(error, 'output', '') or ''}".strip()
