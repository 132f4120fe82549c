"""Certificates made for a test by the openssl command; each is its own root."""

import pathlib
import subprocess


class Certificate:
    """A certificate and its key, in files of this folder."""

    def __init__(self, folder, name, *hosts, days=90):
        self.certificate = pathlib.Path(folder) / f"{name}.pem"
        self.key = pathlib.Path(folder) / f"{name}.key"
        self.make(*(hosts or ("localhost",)), days=days)

    def make(self, *hosts, days=90):
        """Makes another one in the same files."""
        names = ",".join(f"DNS:{host}" for host in hosts) + ",IP:127.0.0.1"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
             str(days), "-subj", f"/CN={hosts[0]}", "-addext", f"subjectAltName={names}", "-keyout", str(self.key),
             "-out", str(self.certificate)], check=True, capture_output=True)
        self.key.chmod(0o600)


def settings(*pairs, tickets=None):
    """The hub's options for these certificates."""
    options = ["--tls-certificate-files", ",".join(str(pair.certificate) for pair in pairs),
               "--tls-key-files", ",".join(str(pair.key) for pair in pairs)]
    return options + (["--tls-ticket-keys-file", str(tickets)] if tickets else [])
