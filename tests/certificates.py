"""Certificates of a test's own, for servers on loopback."""
import subprocess


def self_signed(path):
    """Writes path.crt and path.key, of localhost and 127.0.0.1. Needs openssl."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", path + ".key", "-out", path + ".crt"], check=True, capture_output=True)
    return path
