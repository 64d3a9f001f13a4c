"""A provider's notice that the box will be taken away."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress

from .context import Run

LIMIT = 3.0  # seconds for one answer
TOKEN_SECONDS = 21600
MOST = 65536  # bytes of an answer


class Poll:
    """Asks the metadata service of a provider again and again, beside the caller's loop."""

    def __init__(self, run: Run):
        self.run = run
        self._base = run.spec.rendered.metadata
        self._thread: threading.Thread | None = None
        self._asked_at = -1e9
        self._token, self._token_at = "", -1e9
        self._found = ""
        self._is_told = False

    def look(self) -> str:
        """Return what was announced, '' while nothing is. It never waits for an answer."""
        run = self.run
        if self._found and not self._is_told:
            self._is_told = True
            run.event("notice", text=self._found)
        if (
            self._found
            or not run.spec.rendered.notice
            or (self._thread and self._thread.is_alive())
        ):
            return self._found
        if run.up - self._asked_at >= run.spec.timings.notice_every:
            self._asked_at = run.up
            self._thread = threading.Thread(target=self._ask, args=(run.up,), daemon=True)
            self._thread.start()
        return ""

    def _ask(self, up: float) -> None:
        # What a service answers that is none of the provider's is nothing to end a run for.
        with suppress(OSError, ValueError, AttributeError, TypeError):
            if self._is_announced(up):
                self._found = f"notice from {self.run.spec.rendered.notice}"

    def _is_announced(self, up: float) -> bool:
        """Raises OSError or ValueError where there is no answer."""
        base, provider = self._base, self.run.spec.rendered.notice
        if provider == "aws":
            headers = {"X-aws-ec2-metadata-token": self._aws_token(up)}
            return '"action"' in get(f"{base}/latest/meta-data/spot/instance-action", headers)
        if provider == "gcp":
            url = f"{base}/computeMetadata/v1/instance/preempted"
            return get(url, {"Metadata-Flavor": "Google"}).startswith("TRUE")
        if provider == "azure":
            url = f"{base}/metadata/scheduledevents?api-version=2020-07-01"
            events = json.loads(get(url, {"Metadata": "true"})).get("Events") or []
            return any(event.get("EventType") in ("Preempt", "Terminate") for event in events)
        return False

    def _aws_token(self, up: float) -> str:
        if not self._token or up - self._token_at > TOKEN_SECONDS * 0.8:
            header = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
            self._token = get(f"{self._base}/latest/api/token", header, method="PUT").strip()
            self._token_at = up
        return self._token


def get(url: str, headers: dict[str, str], method: str = "GET") -> str:
    """Return the body of an answer with status 200, '' for any other. Raises OSError.

    By a bare socket, past every proxy: urllib would cost more memory than all else here.
    """
    host, _, path = url.partition("://")[2].partition("/")
    name, _, port = host.partition(":")
    lines = [f"{method} /{path} HTTP/1.0", f"Host: {host}", "Content-Length: 0"]
    lines += [f"{header}: {value}" for header, value in headers.items() if value]
    until = time.monotonic() + LIMIT
    answer = b""
    with socket.create_connection((name, int(port or 80)), timeout=LIMIT) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
        while len(answer) < MOST:
            connection.settimeout(max(until - time.monotonic(), 0.01))
            more = connection.recv(8192)
            if not more:
                break
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    is_good = head.split(b" ", 2)[1:2] == [b"200"]
    return body.decode("utf-8", "replace") if is_good else ""
