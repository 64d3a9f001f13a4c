"""What a person at a terminal gets beyond plain text: colours, progress, an answer drawn.

rich is imported only where something is drawn, so a piped or --json answer doesn't pay for it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID
    from rich.status import Status
    from rich.text import Text

    from ..catalogue.entry import Entry
    from ..lookup.steps import Answer

DIFF = {r"(?m)^\+.*$": "green", r"(?m)^-.*$": "red", r"(?m)^@@.*$": "cyan"}  # styles for `write`
PATIENCE = 2.0  # seconds until a person is told that the command is still working
EVERY = 5.0  # seconds between two lines about long work, where no bar can be drawn
LOOK = 0.5  # seconds between two looks at how far it is
_is_quiet = False  # see `be_quiet`
WHOLE = {"check": "check", "fix": "fix", "root_cause": "cause"}  # an entry's field: its label
CONFIDENCE = {"high": "bold green", "medium": "bold yellow", "low": "bold red"}
SEVERITY = {
    "blocks": "stops the run",
    "corrupts": "spoils the result",
    "wastes": "wastes time or money",
    "misleads": "shows misleading numbers",
}
THEME = {"markdown.code": "cyan", "markdown.code_block": "cyan"}


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

    def told() -> str:
        return f"{wait.text} {time.monotonic() - began:.0f} s"

    def show() -> None:
        if not is_drawn:
            while not ended.wait(EVERY):
                print(told(), file=sys.stderr, flush=True)
            return
        if ended.wait(PATIENCE):
            return
        from rich.text import Text

        spinner = console(sys.stderr).status(Text(told()))
        spinners.append(spinner)
        spinner.start()
        while not ended.wait(1.0):
            with lock:
                spinner.update(Text(told()))

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


def draw(answer: Answer, entries: Mapping[str, Entry], console: Console, command: str) -> None:
    """Print an answer on a console: the first match in full, no title cut.

    `entries`: by id. `command` prints a whole entry; `{id}` in it stands for the entry's id.
    """
    from rich.table import Table
    from rich.text import Text
    from rich.theme import Theme

    from ..lookup.budget import plain

    for fact in answer.facts:
        console.print(Text(fact), "")
    with console.use_theme(Theme(THEME)):
        _matches(answer, entries, console, command)
    if answer.also and not answer.facts:
        console.print(Text("Also possible", "bold"))
        rows = Table.grid(padding=(0, 2))
        for also in answer.also:
            title = Text(plain(entries[also["id"]].title))
            rows.add_row(Text(f"    {also['id']}", "cyan"), title)
        console.print(rows)
        console.print()
    if answer.evidence:
        console.print(Text("Evidence", "bold"))
        for line in answer.evidence:
            console.print(_indented(Text.assemble((place_of(line), "dim"), "  ", line["text"])))
    if sentence := first_failure(answer):
        console.print(_indented(Text(sentence)))
    if answer.decision:
        console.print(Text(decided(answer), "bold"))
    if answer.ask:
        console.print(Text(answer.ask))


def _matches(answer: Answer, entries: Mapping[str, Entry], console: Console, command: str) -> None:
    from rich.text import Text

    from ..lookup.budget import plain

    for place, match in enumerate(answer.matches):
        title = plain(entries[match["id"]].title)
        console.print(Text.assemble((match["id"], "bold cyan"), "  ", (title, "bold")))
        console.print(_indented(_about(match)))
        console.print(
            _first(match, entries[match["id"]], command)
            if place == 0
            else _further(entries[match["id"]])
        )


def _about(match: dict) -> Text:
    from rich.text import Text

    severity = SEVERITY.get(match["severity"], match["severity"])
    about = Text.assemble(
        (f"{match['confidence']} confidence", CONFIDENCE[match["confidence"]]),
        (f" · {severity} · {match['why']}", "dim"),
    )
    if match["stale"]:
        about.append(f"\nin doubt: {match['stale']}", "yellow")
    return about


def _first(match: dict, entry: Entry, command: str) -> Group:
    """Cause, fix and check, word for word as in the entry."""
    from rich.console import Group
    from rich.text import Text

    from ..lookup.budget import plain

    parts = []
    for name, label in WHOLE.items():
        parts += [_label(label.capitalize()), _indented(_markdown(getattr(entry, name)))]
    apart = "\n".join(f"{other}: {plain(how)}" for other, how in entry.tell_apart)
    if apart := apart or match.get("distinguish"):
        parts += [_label("Don't confuse with"), _indented(Text(apart))]
    traits = [f"{name}: {match[name]}" for name in ("domain", "retry") if match.get(name)]
    if traits:
        parts.append(_indented(Text("\n" + " · ".join(traits), "dim")))
    whole = command.format(id=entry.id)
    return Group(*parts, Text.assemble("\n    Whole entry: ", (whole, "cyan"), "\n"))


def _further(entry: Entry) -> Group:
    """The first paragraph of the check: enough to tell whether this entry fits better."""
    from rich.console import Group

    return Group(_indented(_markdown(f"Check: {entry.check.split(chr(10) * 2)[0]}")), "")


def _markdown(text: str) -> Markdown:
    from rich.markdown import Markdown

    return Markdown(text, code_theme="ansi_dark")  # the terminal's own colours, no background


def _label(text: str) -> Text:
    from rich.text import Text

    return Text(f"\n    {text}", "bold magenta")


def _indented(part) -> Padding:
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, 4))


def place_of(line: dict) -> str:
    """Where a line of evidence is: 'train.log:45 rank 1'."""
    rank = "" if line["rank"] is None else f" rank {line['rank']}"
    return f"{line['source']}:{line['line']}{rank}"


def decided(answer: Answer) -> str:
    """What to do next: 'decision: fix_first: the disk needs room'. '' where nothing is decided."""
    from ..runner.failures import in_words

    return f"decision: {in_words(answer.decision)}" if answer.decision else ""


def first_failure(answer: Answer) -> str:
    """Which ranks failed, or what the first one did instead, and the line that shows it, or ''."""
    from ..logs.waiting import is_step

    first = answer.first_failure
    others = [place for place in answer.first_failures if place != first]
    if not first or first["rank"] is None:
        return f"several ranks at fault: {_listed(others)}" if others else ""
    shown_by = [
        line["text"]
        for line in answer.evidence
        if (line["source"], line["line"]) == (first["source"], first["line"])
    ]
    how = first.get("how") or ("is behind" if shown_by and is_step(shown_by[0]) else "failed first")
    also = f"; at fault too: {_listed(others)}" if others else ""
    return f"{how}: {_listed([first])}{also}"


def _listed(places: Iterable[dict]) -> str:
    return ", ".join(
        f"rank {place['rank']} ({place['source']} line {place['line']})" for place in places
    )
