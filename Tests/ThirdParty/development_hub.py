"""A `carillon dev` of its own for the tests, in a temporary folder, on a port that the kernel chooses."""

import os
import re
import signal
import subprocess
import tempfile
import threading

PROGRAM = os.environ.get("CARILLON", ".build/debug/carillon")
APP_ID, KEY, SECRET = "1", "carillon-key", "carillon-secret"


class DevelopmentHub:
    """Runs from `start` to `stop`."""

    def start(self):
        self.folder = tempfile.TemporaryDirectory(prefix="carillon-clients-")
        # The cluster's user must be able to pass through.
        os.chmod(self.folder.name, 0o755)
        self.directory = os.path.join(self.folder.name, "hub")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CARILLON_")}
        self.process = subprocess.Popen(
            [PROGRAM, "dev", "--dir", self.directory, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.log = []
        threading.Thread(target=self._collect, daemon=True).start()
        said = []
        for line in self.process.stdout:
            said.append(line)
            ready = re.match(r"ready on ws://127\.0\.0\.1:(\d+)", line)
            if ready:
                self.port = int(ready[1])
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return
        raise RuntimeError("the hub did not start: " + "".join(said + self.log))

    def stop(self):
        """Ends the hub as Ctrl-C does, and returns its exit status."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(timeout=30)
        self.folder.cleanup()
        return status

    def sql(self, statement):
        """Runs SQL as any writer would: psql with the connection string that `dev` leaves."""
        with open(os.path.join(self.directory, "database-url")) as file:
            url = file.read().strip()
        return subprocess.run(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", url, "-c", statement],
            check=True, capture_output=True, text=True).stdout.strip()

    def token(self, user):
        return subprocess.run(
            [PROGRAM, "token", "--user", user, "--dir", self.directory],
            check=True, capture_output=True, text=True).stdout.strip()

    def _collect(self):
        for line in self.process.stderr:
            self.log.append(line)
