"""The platforms compared, fact by fact, and a page for each, from the front matter of profiles/."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from remote_gpu_trainer.catalogue.bundle import Catalogue
from remote_gpu_trainer.catalogue.facts import matters
from remote_gpu_trainer.catalogue.freshness import LIMITS
from remote_gpu_trainer.platforms import showing
from remote_gpu_trainer.platforms.profile import Fact, Facts, Profile

from . import markup
from .entries import body_of
from .page import Page, Place

UNSURE = '<abbr class="unsure" title="unconfirmed: no dated page of the platform says so">?</abbr>'
GUESS = f"<small>{showing.GUESS}</small>"  # in place of the date of a source
# Column, fact, the value that is shown. None: not known, or no limit is written.
COLUMNS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("a stop keeps the disk", "survives", lambda v: v.stop_keeps_disk),
    ("storage outlives the box", "survives", lambda v: v.outlives),
    ("can stop itself", "self_stop", lambda v: v.possible),
    ("interruptible kind", "spot", lambda v: v.offered),
    ("can be preempted", "preemption", lambda v: v.possible),
    ("notice, seconds", "preemption", lambda v: v.notice_seconds),
    ("longest run, hours", "limits", lambda v: v.most_hours),
    ("idle stop, minutes", "limits", lambda v: v.idle_minutes),
    ("largest disk, GB", "quota", lambda v: v.disk_gb),
    ("most files", "quota", lambda v: v.inodes),
    ("full ssh", "ssh", lambda v: v.full),
    ("traffic out is free", "egress", lambda v: v.free),
)
WORDS = {"stop_billing": "Stop billing", "self_stop": "Self-stop", "ssh": "SSH"}


def word(name: str) -> str:
    """A fact's name as a heading."""
    return WORDS.get(name, name.replace("_", " ").capitalize())


def _short(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        f"{value:,.0f}".replace(",", " ")
        if isinstance(value, (int, float))
        else html.escape(str(value))
    )


def _cell(fact: Fact | None, take: Callable[[Any], Any]) -> str:
    if fact is None:
        return "<td class=none>–</td>"
    unsure = "" if fact.status == "confirmed" else " " + UNSURE
    origin = fact.date or (fact.by and showing.GRADES[fact.by])
    date = f"<small>{origin}</small>" if origin else GUESS
    return f"<td>{_short(take(fact.value))}{unsure}<br>{date}</td>"


def comparison_page(profiles: Mapping[str, Profile], shares: str, place: Place) -> Page:
    """The table of platforms: a row for each, a column for each fact with a number or yes or no.

    The facts in words are linked.
    """
    head = "".join(
        f'<th><a href="{place.to(fact_address(name))}">{text}</a></th>' for text, name, _ in COLUMNS
    )
    rows = [
        f'<tr><th><a href="{place.to(address_of(name))}">{name}</a><br>'
        f"<small>{profile.kind}</small></th>"
        + "".join(_cell(getattr(profile.facts, fact), take) for _, fact, take in COLUMNS)
        + "</tr>"
        for name, profile in profiles.items()
    ]
    table = (
        '<div class="wide compare" tabindex="0"><table class="data">\n'
        f"<thead><tr><th>platform</th>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )
    legend = (
        "<p>The date below each value is that of the page that says so. "
        f"{UNSURE} is unconfirmed: the most cautious reading, which no program relies on. "
        f"Without a date stands who says it, or that it is {showing.GUESS}. "
        "– means not known, no limit given, or nothing of the kind.</p>"
    )
    facts = (
        "<ul class=columns>\n"
        + "\n".join(
            f'<li><a href="{place.to(fact_address(name))}">{word(name)}</a></li>'
            for name in Facts.model_fields
        )
        + "\n</ul>"
    )
    parts = [
        "# Platforms compared",
        markup.raw(legend + table),
        "## One fact, all platforms",
        markup.raw(facts),
        "## How much is confirmed",
        markup.convert(shares, place),
    ]
    return Page(
        place.address,
        "Platforms compared",
        "\n\n".join(parts),
        "What each platform keeps after a stop, how long it lets a run go on, and whether a "
        "machine can stop itself or be taken away.",
        f"{len(profiles)} platforms",
    )


def address_of(name: str) -> str:
    """The address of a platform's page."""
    return f"platforms/{name}/"


def fact_address(name: str) -> str:
    """The address of the page that holds one fact of every platform."""
    return f"platforms/compare/{name.replace('_', '-')}/"


def _value(value: Any, place: Place, without: str = "") -> str:
    """The fields of a fact's value as a list of terms, but for the field `without`."""
    rows = []
    for name in type(value).model_fields:
        held = getattr(value, name)
        if held in ("", [], None) or name == without:
            continue
        text = (
            ", ".join(f"<code>{html.escape(item)}</code>" for item in held)
            if isinstance(held, list)
            else ""
        )
        if not text and isinstance(held, str):
            text = (
                f"<code>{html.escape(held)}</code>"
                if name in ("command", "form")
                and " " in held
                and "\n" not in held
                and _is_code(held)
                else markup.inline(held, place)
            )
        rows.append(f"<dt>{name.replace('_', ' ')}</dt><dd>{text or _short(held)}</dd>")
    return "<dl>" + "".join(rows) + "</dl>"


def _is_code(text: str) -> bool:
    return text.split()[0].strip("'\"") in ("curl", "ssh", "sudo") or " --" in text


def _origin(name: str, fact: Fact, place: Place) -> str:
    """The note, how far to rely on the fact, and its source. No word of it depends on the day."""
    note = f"<p class=note>{markup.inline(fact.note, place)}</p>" if fact.note else ""
    source = html.escape(fact.source)
    shown = html.escape(fact.source.split("//", 1)[1])
    return f'{note}<p class=origin>{_trust(name, fact)} · <a href="{source}">{shown}</a></p>'


def _trust(name: str, fact: Fact) -> str:
    advice = showing.ADVICE[matters(name)]
    if fact.by and fact.status != "confirmed":
        when = f" ({fact.date})" if fact.date else ""
        return f"{UNSURE} {showing.GRADES[fact.by]}{when}; {advice}"
    if fact.date is None:
        return f"{UNSURE} {showing.GUESS}, no page with a date says it; {advice}"
    if fact.status != "confirmed":
        return f"{UNSURE} unconfirmed, read {fact.date}; {advice}"
    due = fact.date + timedelta(LIMITS[fact.kind])
    return f"read {fact.date}; after {due} open the page again ({matters(name)})"


def fact_page(name: str, profiles: Mapping[str, Profile], place: Place) -> Page:
    """One fact of every platform, in words."""
    about = Facts.model_fields[name].description or f"{showing.HEADINGS[name]}, on each platform"
    about = f"{about[:1].upper()}{about[1:]}."
    parts = [f"# {word(name)}, platform by platform", markup.convert(about, place)]
    for platform, profile in profiles.items():
        fact = getattr(profile.facts, name)
        body = (
            _value(fact.value, place) + _origin(name, fact, place)
            if fact
            else "<p>Nothing of the kind.</p>"
        )
        parts += [
            f"## {platform}",
            markup.raw(
                f'<div class=fact>{body}<p><a href="{place.to(address_of(platform))}">'
                f"All about {platform}</a></p></div>"
            ),
        ]
    return Page(
        place.address,
        f"{word(name)}, platform by platform",
        "\n\n".join(parts),
        markup.opening(about, place),
        search=False,
    )


def platform_page(path: str, text: str, profile: Profile, found: Catalogue, place: Place) -> Page:
    """The facts of a platform, its guide, and a line for each of its entries."""
    title, body = body_of(text, found)
    parts = [markup.heading(title, place, 1), "## Facts"]
    for name, heading in showing.HEADINGS.items():
        fact = getattr(profile.facts, name)
        if fact is not None:
            parts += _section(name, heading, fact, place)
    parts.append(markup.convert(body, place))
    return Page(
        place.address,
        markup.plain(markup.inline(title, place)),
        "\n\n".join(parts),
        markup.opening(_bill(profile), place),
        profile.kind,
    )


def _bill(profile: Profile) -> str:
    """What a reader loses who ends the bill, which no title has room for."""
    ending = profile.facts.stop_billing
    if not ending:
        return f"{profile.title}."
    return f"Ending the bill deletes: {ending.value.deletes.rstrip('.')}."


def _section(name: str, heading: str, fact: Fact, place: Place) -> list[str]:
    """A fact under its heading, as `rgt profile` has it: what is deleted has one of its own."""
    said = _value(fact.value, place, without="deletes") + _origin(name, fact, place)
    parts = [f"### {heading}", markup.raw(f"<div class=fact>{said}</div>")]
    if deleted := getattr(fact.value, "deletes", ""):
        parts += [f"### {showing.DELETED}", markup.raw(f"<p>{markup.inline(deleted, place)}</p>")]
    return parts
