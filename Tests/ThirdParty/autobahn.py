"""Runs Autobahn's fuzzing client over the echo server, family by family, and judges its report.

    autobahn.py ECHO_SERVER WSTEST [CASES]

A table of what came out is printed in Markdown; the suite's own pages stay in .venv-autobahn/reports.
"""

import contextlib
import dataclasses
import fnmatch
import json
import pathlib
import subprocess
import sys
import time

#: How many cases each family has. A report with fewer is no report.
FAMILIES = {
    "1": ("Framing", 16),
    "2": ("Pings and pongs", 11),
    "3": ("Reserved bits", 7),
    "4": ("Opcodes", 10),
    "5": ("Fragmentation", 20),
    "6": ("UTF-8", 145),
    "7": ("Closing", 37),
    "9": ("Limits and performance", 54),
    "10": ("Auto-fragmentation", 1),
    "12": ("Compression, payloads", 90),
    "13": ("Compression, parameters", 126),
}

#: Where the suite itself has no opinion: what comes with or behind a close frame, and codes that nobody has defined.
NO_OPINION = {"7.1.6", "7.13.1", "7.13.2"}

#: The longest that one case of the suite waits, and more, in seconds.
LIMIT = 7200


@dataclasses.dataclass
class Verdict:
    """One case's result."""

    behavior: str
    closing: str

    def is_good(self, case):
        if case in NO_OPINION:
            return {self.behavior, self.closing} <= {"OK", "INFORMATIONAL"}
        return self.behavior == self.closing == "OK"


@contextlib.contextmanager
def echo_server(program):
    """The port of a running echo server, which must live to the end, and then end well."""
    server = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
    try:
        yield int(server.stdout.readline())
        if server.poll() is not None:
            sys.exit(f"the echo server ended by itself: {server.returncode}")
        server.terminate()
        if server.wait(timeout=60) != 0:
            sys.exit(f"the echo server ended badly: {server.returncode}")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def run(wstest, port, family, cases, folder):
    """The family's verdicts by case, and the seconds that it took."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "plan.json"
    plan.write_text(
        json.dumps(
            {
                "outdir": str(folder),
                "servers": [{"agent": "Carillon", "url": f"ws://127.0.0.1:{port}/app/echo"}],
                "cases": cases,
                "exclude-cases": [],
                "exclude-agent-cases": {},
            }
        )
    )
    index = folder / "index.json"
    index.unlink(missing_ok=True)
    begun = time.monotonic()
    with open(folder / "log", "w") as log:
        subprocess.run(
            [wstest, "-m", "fuzzingclient", "-s", str(plan)],
            cwd=folder, stdout=log, stderr=subprocess.STDOUT, timeout=LIMIT,
        )
    took = time.monotonic() - begun
    if not index.exists():
        sys.exit(f"Autobahn has written no report of family {family}: see {folder / 'log'}")
    report = json.loads(index.read_text()).get("Carillon", {})
    return {case: Verdict(it["behavior"], it["behaviorClose"]) for case, it in report.items()}, took


def wanted(patterns):
    """The families concerned, each with its patterns of cases and the number of them, where it is known."""
    if not patterns:
        return {family: ([f"{family}.*"], count) for family, (_, count) in FAMILIES.items()}
    chosen = {}
    for pattern in patterns:
        family = pattern.split(".")[0]
        if family not in FAMILIES:
            sys.exit(f"{pattern}: no case of the families {', '.join(FAMILIES)}")
        known = FAMILIES[family][1] if pattern == f"{family}.*" else None
        cases, count = chosen.get(family, ([], None))
        chosen[family] = (cases + [pattern], count or known)
    return chosen


def main():
    program, wstest, *patterns = sys.argv[1:]
    folder = pathlib.Path(wstest).parents[2] / "reports"
    bad, rows = [], []
    for family, (cases, expected) in wanted(patterns).items():
        with echo_server(program) as port:
            verdicts, took = run(wstest, port, family, cases, folder / family)
        if not verdicts or (expected and len(verdicts) != expected):
            bad.append(f"family {family}: {len(verdicts)} cases, not {expected or 'at least one'}")
        for pattern in cases:
            if not any(fnmatch.fnmatch(case, pattern) for case in verdicts):
                bad.append(f"{pattern}: no such case")
        for case, verdict in sorted(verdicts.items()):
            if not verdict.is_good(case):
                bad.append(f"{case}: {verdict.behavior}, closing {verdict.closing}")
        behaviors = [verdict.behavior for verdict in verdicts.values()]
        rows.append((family, len(verdicts), *map(behaviors.count, ("OK", "NON-STRICT", "INFORMATIONAL")), took))
        print(f"family {family}: {len(verdicts)} cases in {took:.0f} s", flush=True)
    print("\n| family | cases | OK | non-strict | informational | time |\n|---|---|---|---|---|---|")
    for family, count, good, loose, informational, took in rows:
        print(f"| {family} {FAMILIES[family][0]} | {count} | {good} | {loose} | {informational} | {took:.0f} s |")
    if bad:
        print("\nnot as it should be:", *bad, sep="\n  ")
        sys.exit(1)


if __name__ == "__main__":
    main()
