"""An answer as a person reads it at a terminal: the first match in full, no title cut."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console, Group
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from ..catalogue.entry import Entry
from ..lookup.answer import Answer, plain
from .lookup import WHOLE, first_failure, place_of

CONFIDENCE = {"high": "bold green", "medium": "bold yellow", "low": "bold red"}
SEVERITY = {
    "blocks": "stops the run",
    "corrupts": "spoils the result",
    "wastes": "wastes time or money",
    "misleads": "shows misleading numbers",
}
THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "cyan"})


def draw(answer: Answer, entries: Mapping[str, Entry], console: Console, command: str) -> None:
    """Print an answer on a console.

    `entries`: by id. `command` prints a whole entry; `{id}` in it stands for the entry's id.
    """
    with console.use_theme(THEME):
        _matches(answer, entries, console, command)
    if answer.also:
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
    if told := first_failure(answer):
        console.print(_indented(Text(told)))
    if answer.ask:
        console.print(Text(answer.ask))


def _matches(answer: Answer, entries: Mapping[str, Entry], console: Console, command: str) -> None:
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
    parts = []
    for name, label in WHOLE.items():
        parts += [_label(label.capitalize()), _indented(_markdown(getattr(entry, name)))]
    apart = "\n".join(f"{other}: {plain(how)}" for other, how in entry.tell_apart)
    if apart := apart or match.get("distinguish"):
        parts += [_label("Don't confuse with"), _indented(Text(apart))]
    told = [f"{name}: {match[name]}" for name in ("domain", "retry") if match.get(name)]
    if told:
        parts.append(_indented(Text("\n" + " · ".join(told), "dim")))
    whole = command.format(id=entry.id)
    return Group(*parts, Text.assemble("\n    Whole entry: ", (whole, "cyan"), "\n"))


def _further(entry: Entry) -> Group:
    """The first paragraph of the check: enough to tell whether this entry fits better."""
    return Group(_indented(_markdown(f"Check: {entry.check.split(chr(10) * 2)[0]}")), "")


def _markdown(text: str) -> Markdown:
    return Markdown(text, code_theme="ansi_dark")  # the terminal's own colours, no background


def _label(text: str) -> Text:
    return Text(f"\n    {text}", "bold magenta")


def _indented(part) -> Padding:
    return Padding(part, (0, 0, 0, 4))
