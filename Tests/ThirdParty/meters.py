"""A hub's counters, added up over its lives."""

import collections
import json
import re
import urllib.request

LINE = re.compile(r"^(carillon_\w+_total(?:\{[^}]*\})?) (\d+)$", re.MULTILINE)


class Meters:
    """Looked at now and then: what a killed hub counted since the last look is lost."""

    def __init__(self, hub):
        self._hub = hub
        self._life = None
        self._past = collections.Counter()
        self._present = {}

    def page(self):
        """`/metrics`."""
        text = self._hub.program.err.text()
        listening = next(json.loads(line) for line in text.splitlines() if '"listening"' in line)
        with urllib.request.urlopen(f"http://{listening['operations']}/metrics", timeout=2) as answer:
            return answer.read().decode()

    def look(self):
        """Reads the counters, unless the hub is down."""
        program = self._hub.program
        try:
            found = {name: int(value) for name, value in LINE.findall(self.page())}
        except (OSError, StopIteration):
            return
        if program is not self._life:
            self._past.update(self._present)
            self._life = program
        self._present = found

    def sum(self, name):
        """The sum of a counter over the labels that match a regular expression from its start."""
        return sum(value for counts in (self._past, self._present) for key, value in counts.items()
                   if re.match("carillon_" + name, key))
