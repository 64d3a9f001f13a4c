"""A headless Chromium that a test can steer: opens pages of a folder, runs JavaScript, takes pictures. It talks over a pipe; nothing else is needed."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHROMIUM = "apt-get install -y --no-install-recommends chromium fonts-dejavu-core"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)


class Served:
    """A folder on a port of this machine; `asked` are the paths that were asked for."""

    def __init__(self, folder: Path):
        self.asked: list[str] = []
        asked = self.asked

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                super().do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(Handler, directory=str(folder))
        )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.at = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Browser:
    """One tab. `requests` are the addresses of everything that it loaded."""

    def __init__(self, program: str, folder: Path):
        ours, theirs = os.pipe(), os.pipe()

        def pipes() -> None:  # Chromium reads from 3 and writes to 4
            read, written = os.dup(ours[0]), os.dup(theirs[1])
            os.dup2(read, 3)
            os.dup2(written, 4)

        command = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            command,
            preexec_fn=pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from, self._rest, self._number = ours[1], theirs[0], b"", 0
        self.requests: list[str] = []
        tab = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        self.send("Page.enable")
        self.send("Network.enable")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._to)
        os.close(self._from)

    def send(self, method: str, **values: Any) -> dict[str, Any]:
        """One call of the DevTools protocol. Raises RuntimeError with Chromium's answer."""
        return self._call(method, session=self._session, **values)

    def _call(self, method: str, session: str = "", **values: Any) -> dict[str, Any]:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": values} | (
            {"sessionId": session} if session else {}
        )
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                read = os.read(self._from, 1 << 20)
                if not read:
                    raise RuntimeError(f"{method}: Chromium has ended")
                self._rest += read
            one, self._rest = self._rest.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited. Raises RuntimeError."""
        told = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in told:
            raise RuntimeError(f"{script[:100]}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def wait(self, script: str, seconds: float = 30) -> Any:
        """The first value of the expression that isn't empty. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if value := self.run(script):
                    return value
            except RuntimeError:  # between two pages
                pass
            time.sleep(0.05)
        raise TimeoutError(script)

    def open(self, address: str, ready: str = "true") -> None:
        """Open an address; come back when it is there and `ready` holds. Raises TimeoutError."""
        self.send("Page.navigate", url=address)
        self.wait(
            f"location.href.startsWith({json.dumps(address.split('#')[0])}) && document.readyState == 'complete' && Boolean({ready})"
        )

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def picture(self, path: Path) -> None:
        path.write_bytes(
            base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        )
