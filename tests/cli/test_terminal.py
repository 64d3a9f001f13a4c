"""What a person at a terminal sees: colours, whole answers, a bar. A program gets plain text."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from remote_gpu_trainer.catalogue import bundle as catalogue
from remote_gpu_trainer.cli import terminal
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.lookup.advice import MOST_TITLES, Advice
from rich.console import Console

from tests.conftest import ROOT

LOG = "examples/logs/ddp-unused-parameters.log"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def at_a_terminal(*args: str, **environment: str) -> str:
    """What a command prints on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    env |= {"COLUMNS": "100", "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "remote_gpu_trainer", *args],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=env,
    )  # fmt: skip
    os.close(theirs)
    found, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            block = os.read(ours, 65536)
        except OSError:  # Linux says so when the last writer has gone
            break
        if not block:
            break
        found += block
    os.close(ours)
    process.wait(60)
    return found.decode().replace("\r\n", "\n")


def words(text: str) -> str:
    """The text without colour, Markdown's code marks and the marks of list items."""
    plain = ESCAPE.sub("", text).replace("`", "")
    return " ".join(word for word in plain.split() if word not in ("-", "•"))


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_the_first_match_is_whole_at_a_terminal(environment):
    told = at_a_terminal("lookup", "--log", LOG, **environment)
    entry = catalogue.load().by_id["D8"]
    for field in (entry.root_cause, entry.fix, entry.check):
        assert words(field) in words(told)
    assert bool(ESCAPE.search(told)) == (not environment)


def test_no_title_is_cut_at_a_terminal():
    told = words(at_a_terminal("lookup", "loss is nan"))
    entries = catalogue.load().by_id
    shown = re.findall(r"--id ([A-Z]+\d+)", told)
    assert len(shown) == MOST_TITLES
    for id in shown:
        assert words(entries[id].title) in told


def test_an_error_is_red_at_a_terminal_and_says_the_same():
    told = at_a_terminal("lookup", "--id", "Z99")
    plain = at_a_terminal("lookup", "--id", "Z99", NO_COLOR="1")
    assert "\x1b[" in told and "\x1b" not in plain and ESCAPE.sub("", told) == plain


def test_nothing_is_asked_of_the_terminal_for_no_question():
    told = at_a_terminal("lookup")
    assert ESCAPE.sub("", told).startswith("error: nothing to look up; pass a text, ")


def test_a_whole_entry_is_drawn_at_a_terminal():
    told = at_a_terminal("lookup", "--id", "D8")
    assert words(catalogue.load().by_id["D8"].root_cause) in words(told) and "\x1b[" in told


class Played(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, terminal: bool):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def test_progress_elsewhere_is_silent_for_two_seconds_and_then_speaks_every_few(
    monkeypatch, capsys
):
    clock = iter([0.0, 1.5, 2.2, 7.1, 7.3])
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    with terminal.Progress("reading x.log") as progress:
        for count in (1, 2, 3, 4):
            progress(count * 1_000_000)
    assert capsys.readouterr().err == "reading x.log: 2 MB …\nreading x.log: 4 MB …\n"


def test_progress_at_a_terminal_is_a_bar_that_goes_away(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Played(terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    with terminal.Progress("reading [b]x.log", 4_000_000) as progress:
        progress(1_000_000)
        progress(4_000_000)
    told = stream.getvalue()
    assert "reading [b]x.log" in ESCAPE.sub("", told) and "MB" in told
    assert "\x1b[2K" in told  # the line is wiped at the end


@pytest.mark.parametrize(("is_terminal", "seconds"), [(False, 0.0), (True, 60.0)])
def test_what_ends_soon_or_is_piped_gets_no_spinner(monkeypatch, is_terminal, seconds):
    stream = Played(is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(terminal, "PATIENCE", seconds)
    with terminal.waiting("checking"):
        pass
    assert stream.getvalue() == ""


def test_long_work_elsewhere_gets_a_line_every_few_seconds_and_none_for_a_program(
    monkeypatch, capsys
):
    monkeypatch.setattr(terminal, "EVERY", 0.05)
    with terminal.waiting("checking") as say:
        say("half")
        time.sleep(0.3)
    told = capsys.readouterr()
    assert told.out == "half\n" and "checking 0 s\n" in told.err
    terminal.be_quiet(True)
    try:
        with terminal.waiting("checking"), terminal.Progress("sending") as progress:
            progress.next = 0.0
            progress(5)
            time.sleep(0.2)
    finally:
        terminal.be_quiet(False)
    assert capsys.readouterr().err == ""


def test_progress_follows_a_count_until_the_work_ends(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "LOOK", 0.01)
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    with terminal.Progress("sending") as progress:
        progress.follow(4_000_000, lambda: 1_000_000)
        time.sleep(0.3)
    assert capsys.readouterr().err == "sending: 1 of 4 MB …\n"


def test_what_takes_long_gets_a_spinner_that_stops(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Played(terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    with terminal.waiting("checking [box]"):
        until = time.monotonic() + 10
        while "checking" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    told = stream.getvalue()
    assert "checking [box]" in told
    time.sleep(0.2)
    assert stream.getvalue() == told


def test_words_that_get_a_colour_change_nothing_else(monkeypatch, capsys):
    terminal.write("unfit: [box] :smile:", {"unfit": "red"})
    assert capsys.readouterr().out == "unfit: [box] :smile:\n"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Played(terminal=True)
    terminal.write("unfit: [box] :smile:", {"unfit": "red"}, stream)
    assert stream.getvalue() == "\x1b[31munfit\x1b[0m: [box] :smile:\n"


def test_what_comes_from_a_log_is_no_markup():
    evidence = [("[red]x:1", "[bold]y[/] :smile:")]
    advice = Advice(
        ["[green]f[/]"], "", None, "", [], evidence, ["[link=https://x.example]z[/link]"]
    )
    console = Console(file=io.StringIO(), width=100)
    terminal.draw(advice, console, "")
    told = console.file.getvalue()
    assert (
        "[green]f[/]" in told
        and "[red]x:1  [bold]y[/] :smile:" in told
        and "[link=https://x.example]z[/link]" in told
    )


def test_piped_text_is_plain_and_short(capsys):
    assert main(["lookup", "--log", str(ROOT / LOG)]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told and "static_graph" not in told
