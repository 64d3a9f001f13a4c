"""Questions in children of their own: what hangs is left behind, and named."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any


class NoAnswer(Exception):
    """There is no answer; the text says why."""


class Question:
    """A function in a forked child; its value must be one that JSON can hold."""

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _answer(writing, function, arguments)
        os.close(writing)
        self._text = bytearray()
        self.is_open = True

    def poll(self, seconds: float = 0.0) -> bool:
        """Wait so long at most; return whether the child has answered or died."""
        until = time.monotonic() + seconds
        while self.is_open:
            left = max(until - time.monotonic(), 0)
            if not select.select([self._reading], [], [], left)[0]:
                return False
            piece = os.read(self._reading, 1 << 20)
            self._text += piece
            if not piece:
                self.give_up()
        return True

    def give_up(self) -> None:
        """Kill the child; one that hangs in the kernel is left behind."""
        if self.is_open:
            os.close(self._reading)
        self.is_open = False
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        # A killed child is gone within a moment, but for one that hangs.
        for _ in range(20):
            with suppress(OSError):
                if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                    time.sleep(0.001)
                    continue
            return

    def value(self) -> Any:
        """Return what the function returned. Raises NoAnswer."""
        try:
            value, error = json.loads(self._text.decode("utf-8", "surrogateescape"))
        except ValueError:
            raise NoAnswer("the process that was to answer was killed") from None
        if error:
            raise NoAnswer(error)
        return value


def _answer(writing: int, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Run the function, write its value, and leave. Never returns."""
    try:
        os.setsid()
        # One that hangs must not hold the connection open over which this program was asked.
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, writing)
        os.closerange(writing + 1, 4096)
        try:
            answer = [function(*arguments), ""]
        except OSError as error:
            answer = [None, error.strerror or str(error)]
        except Exception as error:
            answer = [None, repr(error)]
        with os.fdopen(writing, "wb") as file:
            file.write(json.dumps(answer).encode("utf-8", "surrogateescape"))
    finally:
        os._exit(0)


def ask_all(
    questions: Mapping[str, Sequence[Any]], until: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask all questions {name: (function, arguments ...)} at once; return {name: answer}, and
    {name: why} of what is missing. `until`: by the clock that nobody sets.
    """
    missing: dict[str, str] = {}
    asked: dict[str, Question] = {}
    for name, (function, *arguments) in questions.items():
        try:
            asked[name] = Question(function, *arguments)
        except OSError as error:
            missing[name] = str(error)
    answers = {}
    while asked:
        is_late = time.monotonic() >= until
        for name, question in list(asked.items()):
            if not (question.poll() or is_late):
                continue
            del asked[name]
            if question.is_open:
                question.give_up()
                missing[name] = "no answer in time"
                continue
            try:
                answers[name] = question.value()
            except NoAnswer as error:
                missing[name] = str(error)
        time.sleep(0.02)
    return answers, missing
