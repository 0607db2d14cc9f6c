"""`--tls FILE`: the dashboard and the page of a watch speak https with the certificate in that file, and nothing else; a file that cannot
serve is refused before anything is served."""
import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
import urllib.request

sys.dont_write_bytecode = True
from certificates import self_signed
from dash import Dashboard, command
from folders import Folder
from runner import expect, folder, require
from waiting import until

require("openssl", "redis-server")
PEM = os.path.join(folder, "server.pem")
os.umask(0o077)
self_signed(PEM)
with open(PEM, "w") as out:
    out.write(open(f"{PEM}.crt").read() + open(f"{PEM}.key").read())
TRUSTING = ssl.create_default_context(cafile=f"{PEM}.crt")


def given():
    run = Folder(os.path.join(folder, "run"))
    run.start()
    yield (run,)


def test_pages_streams_and_tokens_go_over_tls(run):
    """Whoever knows the certificate reads the page, the metrics and the stream; the cookie of a token goes over TLS alone."""
    with Dashboard(run.path, "--tls", PEM, "--token", "abcdefgh-0123") as d:
        assert d.url.startswith("https://127.0.0.1:"), d.url
        page = urllib.request.urlopen(d.url, context=TRUSTING, timeout=20)
        expect(page.status == 200 and "; Secure" in page.headers["Set-Cookie"], page.headers["Set-Cookie"])
        base = d.url.split("?")[0]
        asked = urllib.request.Request(base + "metrics", headers={"Authorization": "Bearer abcdefgh-0123"})
        expect(b"slackline_" in urllib.request.urlopen(asked, context=TRUSTING, timeout=20).read(), "metrics")
        connection = http.client.HTTPSConnection("127.0.0.1", d.port, context=TRUSTING, timeout=20)
        connection.request("GET", "/events?token=abcdefgh-0123")
        stream = connection.getresponse()
        expect(stream.status == 200 and stream.readline().startswith(b"id:"), "the stream begins")
        run.event("swap", schedule="adaptra")
        expect(any(b"adaptra" in stream.readline() for _ in range(200)), "and goes on with what is new")
        connection.close()


def test_plain_http_old_versions_and_strangers_certificates_get_nothing(run):
    with Dashboard(run.path, "--tls", PEM) as d:
        with socket.create_connection(("127.0.0.1", d.port), timeout=20) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                answer = plain.recv(4096)
            except ConnectionError:
                answer = b""
            expect(b"slackline" not in answer and b"HTTP" not in answer, f"plain: {answer!r}")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        try:
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1
            with socket.create_connection(("127.0.0.1", d.port), timeout=20) as one:
                old.wrap_socket(one)
            expect(False, "TLS 1.0 is spoken")
        except (OSError, ValueError):
            pass
        try:
            urllib.request.urlopen(d.url, timeout=20)
            expect(False, "a certificate that nobody signed is trusted")
        except OSError as error:
            expect("CERTIFICATE" in str(error).upper(), f"{error}")
        expect(urllib.request.urlopen(d.url, context=TRUSTING, timeout=20).status == 200, "others are served after that")


def test_a_watch_serves_its_page_over_tls(folder):
    out = os.path.join(folder, "watched")
    script = os.path.join(folder, "wait.sh")
    with open(script, "w") as file:
        file.write("#!/bin/sh\nread line\n")
    os.chmod(script, 0o755)
    watch = subprocess.Popen([command, "watch", "--http", "19464", "--tls", PEM, "--out", out, "--", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = until(lambda: re.search(r"https://127\.0\.0\.1:\d+/", watch.stderr.readline()), 20, 0.01)
        assert line, "no address was printed"
        status = urllib.request.urlopen(line.group() + "status.json", context=TRUSTING, timeout=20)
        expect(status.status == 200 and b"\"state\"" in status.read(), "its state")
    finally:
        watch.communicate("\n", 30)


def test_files_that_cannot_serve_are_refused(run):
    """Each with the file's name and what is wrong with it."""
    only, loose, other, broken = (os.path.join(folder, name) for name in ("only.pem", "loose.pem", "other.pem", "broken.pem"))
    for name, text in ((only, open(f"{PEM}.crt").read()), (loose, open(PEM).read()), (broken, open(PEM).read().replace("M", "!", 9)),
                       (other, open(f"{PEM}.key").read())):
        with open(name, "w") as file:
            file.write(text)
    os.chmod(loose, 0o644)
    for name, says in ((only, "private key"), (other, "certificate"), (loose, "other users may read"), (broken, "not usable"), (PEM + ".absent", "No such file")):
        for words in ((run.path,),):
            done = subprocess.run([command, "dashboard", *words, "--listen", "127.0.0.1:0", "--tls", name], capture_output=True, text=True, timeout=30)
            expect(done.returncode == 2 and name in done.stderr and says in done.stderr, f"{name}: exit {done.returncode}, {done.stderr}")
    done = subprocess.run([command, "watch", "--tls", only, "--out", os.path.join(folder, "none"), "--", "true"], capture_output=True, text=True, timeout=30)
    expect(done.returncode == 2 and "private key" in done.stderr and not os.path.exists(os.path.join(folder, "none")), f"watch: {done.returncode} {done.stderr}")
