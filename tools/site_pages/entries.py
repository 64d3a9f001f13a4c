"""The pages of entries and of the files that hold them, the list of all, and the redirects."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from remote_gpu_trainer.catalogue.bundle import Catalogue
from remote_gpu_trainer.catalogue.entry import Entry
from remote_gpu_trainer.catalogue.facts import split
from remote_gpu_trainer.lookup.budget import first_paragraph

from . import markup
from .page import Page, Place

SEVERITIES = {
    "blocks": "stops the run",
    "corrupts": "gives a wrong result without an error",
    "wastes": "costs time or money",
    "misleads": "looks like something else",
}
_PROSE = (("Symptom", "symptom"), ("Check", "check"), ("Fix", "fix"))
_GENERATED = re.compile(r"(?:^## Contents\n\n|(?<=^## Entries\n\n))(?:(?:  )?- .*\n)+", re.M)
_FENCE = re.compile(r" {0,3}(```|~~~)")


def address_of(entry_id: str) -> str:
    """The permanent address of an entry: entries/O1/."""
    return f"entries/{entry_id}/"


def entry_page(entry: Entry, place: Place, around: tuple[Entry | None, Entry | None]) -> Page:
    """An entry, with a heading for every field so that #fix and #check can be linked.

    `around` has the entries before and after it in its file.
    """
    title = f"{entry.id} — {entry.title}"
    parts = [markup.heading(title, place, 1), markup.raw(_badges(entry, place))]

    def field(name: str, body: str) -> None:
        parts.append(f"## {name}\n\n{body}")

    for name, attribute in _PROSE:
        field(name, markup.convert(getattr(entry, attribute), place, down=2))
    if entry.tell_apart:
        field(
            "Tell apart",
            markup.convert(
                "\n".join(
                    f"- [{other}](entry:{other}): {_one_line(text)}"
                    for other, text in entry.tell_apart
                ),
                place,
            ),
        )
    if entry.false_alarm:
        field("False alarm", markup.convert(entry.false_alarm, place, down=2))
    field("Root cause", markup.convert(entry.root_cause, place, down=2))
    if entry.signatures:
        rows = (
            f"<li><code>{html.escape(s.text)}</code>"
            f"{' <small>regular expression</small>' if s.is_regex else ''}"
            f"{f' <small>{s.role}</small>' if s.role != 'root' else ''}</li>"
            for s in entry.signatures
        )
        field("Signatures", markup.raw("<ul class=signatures>\n" + "\n".join(rows) + "\n</ul>"))
    field("Reported as", markup.convert(_items(entry.reported_as), place))
    field("Sources", markup.convert(_items(entry.sources), place))
    parts.append(markup.raw(_neighbours(entry, place, around)))
    return Page(
        place.address,
        markup.plain(markup.inline(title, place)),
        "\n\n".join(parts),
        markup.plain(markup.inline(cause(entry), place)),
        entry.severity,
        entry.signatures,
    )


def _badges(entry: Entry, place: Place) -> str:
    checked = f"checked {entry.verified}, {html.escape(entry.how_verified)}"
    kind = [
        f"{name}: {html.escape(told)}"
        for name, told in (("domain", entry.domain), ("retry", entry.retry))
        if told
    ]
    bound = [f"applies to <code>{html.escape(text)}</code>" for text in entry.applies_to]
    needs = [f"needs {html.escape(', '.join(entry.needs))}"] if entry.needs else []
    section = entry.section if entry.section != "Entries" else ""
    part = f", {markup.inline(section, place)}" if section else ""
    file = html.escape(PurePosixPath(entry.path).stem)
    home = f'<a href="{place.to(place.addresses[entry.path])}">{file}</a>{part}'
    severity, about = entry.severity, SEVERITIES[entry.severity]
    mark = f'<span class="severity {severity}" title="{about}">{severity}</span>'
    return (
        "<p class=badges>"
        + " · ".join([f"{mark} {about}", *kind, checked, *bound, *needs, f"in {home}"])
        + "</p>"
    )


def _neighbours(entry: Entry, place: Place, around: tuple[Entry | None, Entry | None]) -> str:
    before, after = around
    links = [
        f'<a rel=prev href="{place.to(address_of(before.id))}">← {before.id}</a>' if before else ""
    ]
    links.append(
        f"<span>On the command line: <code>remote-gpu-trainer lookup --id {entry.id}</code></span>"
    )
    links.append(
        f'<a rel=next href="{place.to(address_of(after.id))}">{after.id} →</a>' if after else ""
    )
    return "<p class=neighbours>" + " ".join(filter(None, links)) + "</p>"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _items(items: Iterable[str]) -> str:
    return "\n".join(f"- {_escaped_start(_one_line(item))}" for item in items)


def _escaped_start(text: str) -> str:
    """The item as a sentence, even if it begins like a list, a heading or a quotation."""
    return re.sub(
        r"^(\d+)([.)])(?= |$)|^([#>+*-])(?=\s|$|[#>-])",
        lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}",
        text,
    )


def cause(entry: Entry) -> str:
    """The first sentences of an entry's cause, in Markdown."""
    return markup.first_sentences(first_paragraph(entry.root_cause))


def listed(entries: Iterable[Entry]) -> str:
    """A list of entries in Markdown: the id as a link, the title, the severity, the cause."""
    return "\n".join(
        f"- [{entry.id}](entry:{entry.id}) **{entry.title}** *({entry.severity})*\\\n"
        f"  {cause(entry)}"
        for entry in entries
    )


def body_of(text: str, found: Catalogue) -> tuple[str, str]:
    """(title, body) of a page of the catalogue, with a line in place of each entry."""
    lines, fence, hidden, title = [], "", False, ""
    for line in _GENERATED.sub("", split(text)[1]).split("\n"):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and re.match(r"#{1,3} ", line):
            hidden = line.startswith("### ")
            entry = found.by_id.get(line.split()[1]) if hidden else None
            if entry:
                lines.append(listed([entry]))
            if line.startswith("# ") and not title:
                title, line = line[2:].strip(), ""
        if not hidden:
            lines.append(line)
    return title, "\n".join(lines)


def topic_page(path: str, text: str, found: Catalogue, place: Place) -> Page:
    """A file of entries: its questions, then its sections with a line for each entry."""
    title, body = body_of(text, found)
    count = sum(entry.path == path for entry in found.entries)
    return Page(
        place.address,
        markup.plain(markup.inline(title, place)),
        markup.heading(title, place, 1) + "\n\n" + markup.convert(body, place),
        markup.opening(body, place),
        f"{count} entries",
    )


def index_page(found: Catalogue, titles: dict[str, str], place: Place, count: str) -> Page:
    """All entries by file. `count` is the project's own sentence about how many there are."""
    parts = ["# All entries", markup.convert(count, place)]
    for path, title in titles.items():
        parts += [
            markup.heading(title, place, 2),
            markup.convert(
                f"[The page]({path})\n\n" + listed(e for e in found.entries if e.path == path),
                place,
            ),
        ]
    about = markup.opening(count, place)
    return Page(place.address, "All entries", "\n\n".join(parts), about, search=False)


def redirects(found: Catalogue) -> dict[str, str]:
    """{old address: address}: retired ids, and every id in small letters."""
    old = {gone.id: found.current(gone.id) for gone in found.retired}
    now = {entry.id: entry.id for entry in found.entries} | {
        gone: new for gone, new in old.items() if new in found.by_id
    }
    pairs = {address_of(name): address_of(target) for name, target in now.items() if name != target}
    return pairs | {
        address_of(name.lower()): address_of(target)
        for name, target in now.items()
        if name.lower() != name
    }


def redirect_text(old: str, place: Place, address: str) -> str:
    """The file at an old address, which redirects at once and has a link."""
    way, name = html.escape(place.to(address)), html.escape(address.strip("/").rsplit("/", 1)[-1])
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<title>Moved to {name}</title>\n<link rel="canonical" href="{way}">\n'
        f'<meta name="robots" content="noindex">\n'
        f'<meta http-equiv="refresh" content="0; url={way}">\n</head>\n'
        f'<body>\n<p>This page is now <a href="{way}">{name}</a>.</p>\n</body>\n</html>\n'
    )
