# labels: long
"""A store over TLS, as docs/security.md says: through stunnel with any hiredis, and by rediss:// with hiredis 1.0 or newer, which Debian 12
lacks and the build takes from its sources. A server with another certificate is not spoken to."""
import os
import re
import socket
import ssl
import subprocess

from certificates import self_signed
from runner import build, expect, folder, require, skip
from waiting import until

require("openssl", "redis-server", "slackline")
command = os.path.join(build, "slackline")
PASSWORD = "a-password-of-the-test"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def given():
    own, port = self_signed(os.path.join(folder, "server")), free_port()
    server = subprocess.Popen(["redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--tls-cert-file", own + ".crt", "--tls-key-file", own + ".key",
                               "--tls-auth-clients", "no", "--requirepass", PASSWORD, "--save", "", "--dir", folder], stdout=subprocess.PIPE, text=True)
    try:
        if not until(lambda: server.poll() is not None or answers(port), 20, 0.05) or server.poll() is not None:
            skip("this redis-server has no TLS")
        yield port, own
    finally:
        server.kill()
        server.wait()


def watched(url, out, environment={}):
    """A watch of a program that ends when it is told to; the names of keys in the server meanwhile; the exit code and standard error."""
    script = os.path.join(folder, "wait.sh")
    with open(script, "w") as file:
        file.write("#!/bin/sh\nread line\n")
    os.chmod(script, 0o755)
    return subprocess.Popen([command if "command" not in environment else environment["command"], "watch", "--http", "off", "--redis", url, "--out", out, "--", script], stdin=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, **environment.get("env", {})})


def keys(port, own):
    """As the server has them, asked over TLS."""
    context = ssl.create_default_context(cafile=own + ".crt")
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname="localhost") as one:
        one.sendall(f"AUTH {PASSWORD}\r\nKEYS slackline:*\r\n".encode())
        text = b""
        one.settimeout(1)
        try:
            while part := one.recv(4096):
                text += part
        except TimeoutError:
            pass
    return re.findall(rb"slackline:\S+", text)


def works(watch, port, own):
    try:
        found = until(lambda: keys(port, own), 30, 0.2)
    finally:
        said = watch.communicate("\n", 60)[1]
    assert watch.returncode == 0, said
    assert found, f"no keys of the job in the server: {said}"
    left = [key for key in keys(port, own) if not key.endswith(b":reported")]  # which stays for a minute, for viewers
    expect(not left, f"keys are left behind: {left}")


def test_a_watch_reaches_its_server_through_stunnel(port, own, folder):
    require("stunnel")
    local, config = free_port(), os.path.join(folder, "stunnel.conf")
    with open(config, "w") as file:  # docs/security.md has the same
        file.write(f"foreground = yes\npid =\n[redis]\nclient = yes\naccept = 127.0.0.1:{local}\nconnect = 127.0.0.1:{port}\n"
                   f"CAfile = {own}.crt\nverifyChain = yes\ncheckHost = localhost\n")
    tunnel = subprocess.Popen(["stunnel", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert until(lambda: answers(local), 20, 0.05), "stunnel does not listen"
        works(watched(f"redis://:{PASSWORD}@127.0.0.1:{local}", os.path.join(folder, "out")), port, own)
    finally:
        tunnel.kill()
        tunnel.wait()


def test_rediss_without_tls_in_hiredis_names_both_ways(port, own, folder):
    watch = watched(f"rediss://:{PASSWORD}@localhost:{port}", os.path.join(folder, "out"))
    said = watch.communicate("\n", 60)[1]
    if "hiredis" not in said:
        skip("this build's hiredis has TLS")
    assert watch.returncode == 2 and "SL_HIREDIS" in said and "stunnel" in said and PASSWORD not in said, said
