"""The line between a supervisor and the runner that it forked: messages as JSON, each with its
length before it."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

LIMIT = 60.0  # seconds for an answer
MOST = 1 << 26  # bytes of a message: the words and the environment of a program


class Link:
    """The runner's end."""

    def __init__(self, line: socket.socket):
        self._line, self._parent = line, os.getppid()
        line.settimeout(LIMIT)

    @property
    def is_alone(self) -> bool:
        """Return whether the supervisor is gone."""
        return os.getppid() != self._parent

    def begin(self) -> None:
        """Tell that this runner holds the run, and isn't refused any more."""
        send(self._line, {"begun": True})

    def end(self, code: int) -> None:
        """Tell the exit code of a runner that came to its end."""
        send(self._line, {"code": code})

    def start(self, asked: dict[str, Any]) -> tuple[int, int]:
        """Have the supervisor start a program, as `parent.begin` does; return its pid and start.
        Raises OSError."""
        send(self._line, {"start": asked})
        reply = receive(self._line)
        if "error" in reply:
            raise OSError(reply["error"])
        return int(reply["pid"]), int(reply["start"])


def send(line: socket.socket, message: dict[str, Any]) -> None:
    """Send a message. Raises OSError."""
    data = json.dumps(message).encode()
    line.sendall(struct.pack("<I", len(data)) + data)


def receive(line: socket.socket) -> dict[str, Any]:
    """Return the next message. Raises OSError where the other end is gone."""
    size = struct.unpack("<I", _read(line, 4))[0]
    if size > MOST:
        raise OSError("a message is too long")
    return dict(json.loads(_read(line, size)))


def _read(line: socket.socket, size: int) -> bytes:
    pieces = []
    while size:
        piece = line.recv(min(size, 1 << 16))
        if not piece:
            raise OSError("the other end of the line is gone")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
