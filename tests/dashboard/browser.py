"""Headless Chromium, driven over the DevTools protocol through a pipe (--remote-debugging-pipe): JSON messages that end with a
zero byte, on the files 3 and 4 of the browser. Nothing but Python's own library."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    """One page. `complaints` has every console error, exception and failed request of it."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.TemporaryDirectory()
        to_browser, self.out = os.pipe()
        self.back, from_browser = os.pipe()

        def place():
            keep, also = os.dup(to_browser), os.dup(from_browser)  # 3 and 4 may be these themselves
            os.dup2(keep, 3)
            os.dup2(also, 4)

        self.process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update", "--no-proxy-server", f"--user-data-dir={self.profile.name}",
             f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.answers, self.complaints = 0, b"", {}, []
        self.session = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.size(width, height)

    def read(self, wait):
        """Takes what has come; what it says of the page is kept."""
        ready, _, _ = select.select([self.back], [], [], wait)
        if not ready:
            return
        part = os.read(self.back, 1 << 20)
        if not part:
            raise RuntimeError("the browser is gone")
        self.buffer += part
        *messages, self.buffer = self.buffer.split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            elif message["method"] == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.complaints.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
            elif message["method"] == "Runtime.consoleAPICalled" and message["params"]["type"] in ("error", "assert", "warning"):
                self.complaints.append(f"console: {message['params']['args']}")
            elif message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"log: {message['params']['entry']['text']} {message['params']['entry'].get('url', '')}")

    def call(self, method, **parameters):
        self.number += 1
        number, message = self.number, {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while number not in self.answers:
            if time.monotonic() > end:
                raise RuntimeError(f"{method}: the browser does not answer")
            self.read(1)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)

    def ask(self, expression):
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression, limit=60):
        """Until the expression is true in the page; its value."""
        end = time.monotonic() + limit
        while True:
            try:
                value = self.ask(expression)
            except RuntimeError:  # the page is being loaded
                value = None
            if value:
                return value
            if time.monotonic() > end:
                raise RuntimeError(f"not within {limit} s: {expression}; the page says: {self.ask('document.body.innerText')[:600]!r}; {self.complaints}")
            self.read(0.1)

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.back)
        for _ in range(20):  # its helpers may still be writing there
            try:
                self.profile.cleanup()
                break
            except OSError:
                time.sleep(0.1)
