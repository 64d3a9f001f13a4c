"""What a person at a terminal gets beyond plain text: colours, a progress bar, a spinner.

rich is imported only where something is drawn, so a piped or --json answer doesn't pay for it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

DIFF = {r"(?m)^\+.*$": "green", r"(?m)^-.*$": "red", r"(?m)^@@.*$": "cyan"}  # styles for `write`
PATIENCE = 2.0  # seconds until a person is told that the command is still working


def is_terminal(stream) -> bool:
    """Whether a person reads this stream, rather than a program or a file."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def has_colours(stream) -> bool:
    """Whether to draw on this stream: a terminal, unless NO_COLOR is set or TERM is dumb."""
    return (
        is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def console(stream):
    """rich's console for a stream."""
    from rich.console import Console

    return Console(file=stream, highlight=False)


def error(text: str) -> None:
    """Print one line on stderr: `error: what is wrong; what to do`."""
    if has_colours(sys.stderr):
        from rich.text import Text

        line = Text.assemble(("error:", "bold red"), " ", text)
        console(sys.stderr).print(line, soft_wrap=True)
    else:
        print(f"error: {text}", file=sys.stderr)


def write(text: str, styles: Mapping[str, str], stream=None) -> None:
    """Print a text on stdout or `stream`. `styles`: {regular expression: rich style}."""
    stream = stream or sys.stdout
    if not has_colours(stream):
        print(text, file=stream)
        return
    from rich.text import Text

    drawn = Text(text)
    for pattern, style in styles.items():
        drawn.highlight_regex(pattern, style)
    console(stream).print(drawn, soft_wrap=True)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A spinner with `text` on stderr while the block runs, after two seconds.

    Where stderr isn't a terminal, or has no colours, nothing is printed.
    """
    if not has_colours(sys.stderr):
        yield
        return
    from rich.text import Text

    status, ended = [], threading.Event()

    def spin() -> None:
        if not ended.wait(PATIENCE):
            status.append(console(sys.stderr).status(Text(text)))
            status[0].start()

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for one in status:
            one.stop()


class Progress:
    """Shows on stderr how far a long reading is, after two seconds.

    A bar on a terminal, otherwise one line per second. Call it with the count so far. `total` is
    the final count, None when unknown. `unit`: 'MB' counts bytes.
    """

    def __init__(self, text: str = "reading", total: int | None = None, unit: str = "MB"):
        self.text, self.total, self.unit = text, total, unit
        self.next = time.monotonic() + PATIENCE
        self._bar = self._task = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, done: int) -> None:
        """Show that `done` of the total is done, at most once a second."""
        if self._bar:
            self._bar.update(self._task, completed=done)
            return
        now = time.monotonic()
        if now < self.next:
            return
        if has_colours(sys.stderr):
            self._begin(done)
        else:
            self.next = now + 1.0
            said = f"{done / 1e6:.0f} MB" if self.unit == "MB" else f"{done} of {self.total}"
            print(f"{self.text}: {said} …", file=sys.stderr, flush=True)

    def _begin(self, done: int) -> None:
        from rich import progress

        if self.unit == "MB":
            count = [progress.DownloadColumn(), progress.TransferSpeedColumn()]
        else:
            count = [progress.MofNCompleteColumn()]
        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            *count,
        )
        self._bar = progress.Progress(*columns, console=console(sys.stderr), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(self.text, total=self.total, completed=done)
