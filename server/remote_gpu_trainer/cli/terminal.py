"""What a person at a terminal gets beyond plain text: colours, progress, an answer drawn.

rich is imported only where something is drawn, so a piped or --json answer doesn't pay for it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID
    from rich.status import Status

    from ..lookup.advice import Advice, Shown

DIFF = {r"(?m)^\+.*$": "green", r"(?m)^-.*$": "red", r"(?m)^@@.*$": "cyan"}  # styles for `write`
PATIENCE = 2.0  # seconds until a person is told that the command is still working
EVERY = 5.0  # seconds between two lines about long work, where no bar can be drawn
LOOK = 0.5  # seconds between two looks at how far it is
_is_quiet = False  # see `be_quiet`
THEME = {"markdown.code": "cyan", "markdown.code_block": "cyan"}


@dataclass
class Answer:
    """The answer of the command that runs. `as_json`: --json was typed, perhaps in a line that
    can't be read. `is_given`: it was printed as JSON. `errors`: what was told on stderr."""

    as_json: bool = False
    is_given: bool = False
    errors: list[str] = field(default_factory=list)


answer = Answer()


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
    answer.errors.append(text)
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


def be_quiet(is_quiet: bool) -> None:
    """Say nothing of long work from here on: a program reads the answer."""
    global _is_quiet
    _is_quiet = is_quiet


class Waiting:
    """Long work: called with a line of its answer it prints that on stdout, and `text` names what
    is being done."""

    def __init__(self, text: str):
        self.text = text
        self.say: Callable[[str], None] = print

    def __call__(self, line: str) -> None:
        """Print a line of the answer."""
        self.say(line)

    def rename(self, text: str) -> None:
        """Name what is being done from now on."""
        self.text = text


@contextmanager
def waiting(text: str) -> Iterator[Waiting]:
    """Show on stderr that the block still works: at a terminal a spinner after two seconds, with
    the seconds so far, elsewhere a line every few seconds.

    The block may print lines of its answer meanwhile, and name another text.
    """
    wait = Waiting(text)
    if _is_quiet:
        yield wait
        return
    ended, lock, began = threading.Event(), threading.Lock(), time.monotonic()
    spinners: list[Status] = []
    is_drawn = has_colours(sys.stderr)

    def describe_wait() -> str:
        return f"{wait.text} {time.monotonic() - began:.0f} s"

    def show() -> None:
        if not is_drawn:
            while not ended.wait(EVERY):
                print(describe_wait(), file=sys.stderr, flush=True)
            return
        if ended.wait(PATIENCE):
            return
        from rich.text import Text

        spinner = console(sys.stderr).status(Text(describe_wait()))
        spinners.append(spinner)
        spinner.start()
        while not ended.wait(1.0):
            with lock:
                spinner.update(Text(describe_wait()))

    def say(line: str) -> None:
        with lock:
            for spinner in spinners:
                spinner.stop()
            print(line, flush=True)
            for spinner in spinners:
                spinner.start()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        wait.say = say
        yield wait
    finally:
        ended.set()
        thread.join()
        for spinner in spinners:
            spinner.stop()


class Progress:
    """Shows on stderr how far long work is, after two seconds.

    A bar on a terminal, otherwise a line every few seconds. Call it with the count so far, or let
    it `follow` one. `total` is the final count, None when unknown. `unit`: 'MB' counts bytes.
    """

    def __init__(self, text: str = "reading", total: int | None = None, unit: str = "MB"):
        self.text, self.total, self.unit = text, total, unit
        self.next = time.monotonic() + PATIENCE
        self._bar: tuple[RichProgress, TaskID] | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join()
        if self._bar:
            self._bar[0].stop()

    def follow(self, total: int, count: Callable[[], int]) -> None:
        """Show what `count` returns, time and again until the work has ended."""
        self.total = total

        def look() -> None:
            while not self._ended.wait(LOOK):
                self(count())

        self._thread = threading.Thread(target=look, daemon=True)
        self._thread.start()

    def __call__(self, done: int) -> None:
        """Show that `done` of the total is done."""
        if self._bar:
            bar, task = self._bar
            bar.update(task, completed=done)
            return
        now = time.monotonic()
        if now < self.next or _is_quiet:
            return
        if has_colours(sys.stderr):
            self._begin(done)
        else:
            self.next = now + EVERY
            of = f" of {self.total / 1e6:.0f}" if self.total else ""
            count = f"{done / 1e6:.0f}{of} MB" if self.unit == "MB" else f"{done} of {self.total}"
            print(f"{self.text}: {count} …", file=sys.stderr, flush=True)

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
        bar = progress.Progress(*columns, console=console(sys.stderr), transient=True)
        bar.start()
        self._bar = bar, bar.add_task(self.text, total=self.total, completed=done)


def draw(advice: Advice, console: Console, handle: str) -> None:
    """Print what a person reads of an answer on a console; no title is cut.

    `handle` prints a whole entry; `{id}` in it stands for the entry's id.
    """
    from rich.text import Text
    from rich.theme import Theme

    for fact in advice.facts:
        console.print(Text(fact), "")
    with console.use_theme(Theme(THEME)):
        if advice.lead:
            console.print(_markdown(advice.lead), "")
        if advice.entry:
            _draw_entry(advice.entry, console, handle)
        if advice.label:
            console.print(Text(advice.label, "bold"))
        for shown in advice.further:
            named = f"--id {shown.id}"
            console.print(_indented(Text.assemble((shown.title, "bold"), "  ", (named, "cyan"))))
            for label, text in shown.texts:
                console.print(_indented(_indented(_markdown(f"{label}: {text}"))))
        if advice.further:
            console.print()
    if advice.evidence:
        console.print(Text("Evidence", "bold"))
    for place, text in advice.evidence:
        console.print(_indented(Text.assemble((place, "dim"), "  ", text)))
    for remark in advice.remarks:
        console.print(Text(remark))


def _draw_entry(entry: Shown, console: Console, handle: str) -> None:
    """Print the claimed entry: its title, its handle, why, and its texts as on its page."""
    from rich.text import Text

    console.print(Text(entry.title, "bold"))
    named = handle.format(id=entry.id)
    console.print(_indented(Text.assemble((named, "cyan"), (f"  {entry.notes[0]}", "dim"))))
    for note in entry.notes[1:]:
        console.print(_indented(Text(note, "yellow")))
    for label, text in entry.texts:
        console.print(Text(f"\n    {label.capitalize()}", "bold magenta"))
        console.print(_indented(_markdown(text)))
    console.print()


def _markdown(text: str) -> Markdown:
    from rich.markdown import Markdown

    return Markdown(text, code_theme="ansi_dark")  # the terminal's own colours, no background


def _indented(part) -> Padding:
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 4))
