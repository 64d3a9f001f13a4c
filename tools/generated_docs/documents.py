"""Generated documents, whole and in parts.

The text of a part is the template `templates/NAME.md.j2`, filled with what the function in `PARTS`
returns. In README it is between `<!-- generated: NAME -->` and `<!-- end -->`. The skill has no
comments, because a reader of its pages doesn't see them and an agent does: there a part is the
table with the template's first row, or the section with its heading (`IN_PAGES`). Nothing else is
touched. A whole file is what its function in `WHOLE` returns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.bundle import Catalogue, CatalogueError
from remote_gpu_trainer.catalogue.seen_by_probe import probed
from remote_gpu_trainer.lookup.budget import plain
from remote_gpu_trainer.retrieval import encoder, index, ranking, vectors
from remote_gpu_trainer.text import write_whole

from . import box_programs
from .bit_flips_page import bit_flips_page
from .commands_page import commands_page
from .coverage_page import coverage_page
from .held_out_figures import held_out_reports, openings, percent
from .hook_signatures import hook_signatures
from .job_page import job_page
from .launch_scripts_page import launch_scripts_page
from .lookup_picture import lookup_picture
from .modules_of_rooms import modules_of
from .other_figures import other_figures
from .templates_of_documents import filled
from .tools_list import tools_list

_PART = re.compile(r"(<!-- generated: (\w+) -->\n?)(.*?)(<!-- end -->)", re.S)
VECTORS = "server/remote_gpu_trainer/retrieval/vectors.txt"
SEEN_BY_PROBE = "**Seen by:** probe\n\n"
MAPPED = ("runner", "runs", "cli", "lookup", "catalogue")  # rooms whose README lists each module
IN_PAGES = {
    **{f"server/remote_gpu_trainer/{room}/README.md": ("modules",) for room in MAPPED},
    "SKILL.md": ("families",),
    "references/gpu_health.md": ("xids",),
    "references/run_script.md": ("exits", "phases", "box_ends", "failures", "names"),
    "profiles/_schema.md": ("schema", "shares", "limits"),
}
DOCUMENTS = (
    "README.md",
    "README.zh-CN.md",
    "SKILL.md",
    "docs/guides/coding-agents.md",
    "evals/README.md",
    *(page for page in IN_PAGES if page.startswith("server/")),
)  # besides the pages of the catalogue


def outdated(root: Path, write: bool) -> list[str]:
    """The documents under `root` that differ from what they should be; written when asked.

    A whole file counts only where its folder is: a wheel, for example, has no docs/.
    """
    read = bundle.read(root)
    is_old = (root / VECTORS).parent.is_dir() and _are_vectors_old(root, read, write)
    found = [VECTORS] if is_old else []
    fresh, ids = {}, probed(read)
    for path in [*(root / name for name in DOCUMENTS), *bundle.pages(root)]:
        if path.is_file():
            name = path.relative_to(root).as_posix()
            text = path.read_text(encoding="utf-8")
            text = with_fresh_parts(text, name, read)
            fresh[name] = text if ids is None else seen_by_probe(text, ids)
    # One file may be made from another that was written before it.
    whole = ((name, made(root)) for name, made in WHOLE if (root / name).parent.is_dir())
    for name, text in chain(fresh.items(), whole):
        path = root / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            found.append(name)
            if write:
                path.write_text(text, encoding="utf-8", newline="\n")
    return found


def with_fresh_parts(text: str, page: str, read: Catalogue) -> str:
    """A document with its generated parts made anew. Raises CatalogueError for one that's gone."""
    text = _PART.sub(lambda m: m[1] + make(m[2], page, read) + m[4], text)
    parts = IN_PAGES.get(page, ())
    if f"\n## {_contents_heading(page)}\n" in text:
        parts = (*parts, "contents")
    for part in parts:
        made = make(part, page, read)
        first = made.split("\n", 1)[0]
        rest = r"(?:(?!#).*\n)*" if first.startswith("#") else r"(?:\|.*\n)*"
        text, found = re.subn(
            rf"^{re.escape(first)}\n{rest}", lambda _, made=made: made, text, flags=re.M
        )
        if found != 1:
            raise CatalogueError(f"{page}: {first!r} stands there {found} times; write it once")
    return text


def seen_by_probe(text: str, ids: set[str]) -> str:
    """A page with the field Seen by in the entries with these ids, and in no other."""
    parts = re.split(r"(?m)^(?=### )", text)
    for at, part in enumerate(parts[1:], 1):
        bare = part.replace(SEEN_BY_PROBE, "")
        named = part[4:].split(" ", 1)[0] in ids
        parts[at] = bare.replace("**Domain:**", SEEN_BY_PROBE + "**Domain:**", 1) if named else bare
    return "".join(parts)


def _are_vectors_old(root: Path, read: Catalogue, write: bool) -> bool:
    """Whether the vectors' file is of other entries, or not as it is written; repaired when asked.

    Raises CatalogueError without the encoder's file.
    """
    model = encoder.load()
    if model is None:
        raise CatalogueError(f"can't read {encoder.PLACE}; restore it with git checkout")
    path = root / VECTORS
    known = vectors.read_whole_lines(path)
    if index.is_current(known, read.entries, encoder.name()) and vectors.is_written_so(path, known):
        return False
    if write:
        fresh = index.encoded(read.entries, model, encoder.name(), known)
        write_whole(path, vectors.as_text(fresh).encode(), 0o644)
        index.load.cache_clear()
        ranking.load.cache_clear()
    return True


def make(part: str, page: str, read: Catalogue) -> str:
    """The text of a generated part in the document `page`. Raises KeyError for an unknown name."""
    return filled(part, **PARTS[part](page, read))


def _families(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """A row for each page; a page may hold several families.

    No row has a number that a new entry changes: such rows would conflict in every second merge.
    """
    pages: dict[str, list[str]] = {}
    for family, group in catalogue.families.items():
        pages.setdefault(group[0].path, []).append(family)
    return {"pages": [(names, path) for path, names in pages.items()]}


def _contents(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """The entries of the page itself, by section."""
    sections: list[tuple[str, list[tuple[str, str]]]] = []
    for entry in catalogue.entries:
        if entry.path == page:
            if not sections or sections[-1][0] != entry.section:
                sections.append((entry.section, []))
            sections[-1][1].append((entry.id, plain(entry.title)))
    return {"heading": _contents_heading(page), "sections": sections}


def _contents_heading(page: str) -> str:
    """The section that begins with the list of a page's entries."""
    return "Entries" if page.startswith("profiles/") else "Contents"


def _count(page: str, read: Catalogue) -> dict[str, Any]:
    """How many entries there are; only the site shows it, as each new entry changes it."""
    ran = Counter(entry.ran_fields for entry in read.entries)
    return {
        "entries": len(read.entries),
        "families": len(read.families),
        "ran": len(read.entries) - ran[()],
        "both": ran["Check", "Fix"],
        "check": ran["Check",],
        "fix": ran["Fix",],
    }


def _figures(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """How well the parts of the program do, the weak ones among them."""
    rows = held_out_reports(catalogue.root)
    return {
        "rows": rows,
        "kept_apart": rows[0],
        "openings": openings(catalogue.root),
        "others": other_figures(catalogue.root),
        "percent": percent,
    }


def _schema(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """The facts of a platform's profile: what each holds, and for which kinds it may be null."""
    from remote_gpu_trainer.catalogue.facts import matters
    from remote_gpu_trainer.platforms.profile import NOT_THERE, Facts

    facts = []
    for name, field in Facts.model_fields.items():
        fact = _model_in(field.annotation)
        value = _model_in(fact.model_fields["value"].annotation)
        null = [kind for kind, names in NOT_THERE.items() if name in names]
        facts.append((name, field.description, value.model_fields, matters(name), null))
    return {"facts": facts}


def _model_in(annotation: Any) -> type[BaseModel]:
    """The model that a field holds, which may be an optional one."""
    kinds = (annotation, *getattr(annotation, "__args__", ()))
    return next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))


def _shares(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """How many facts of each platform are confirmed, which have a grade, and which are a guess."""
    from remote_gpu_trainer.platforms.profile import Facts, read_all

    rows = []
    for platform, profile in read_all(catalogue.root).items():
        facts = {name: getattr(profile.facts, name) for name in Facts.model_fields}
        there = {name: fact for name, fact in facts.items() if fact is not None}
        doubtful = {name: fact for name, fact in there.items() if fact.status != "confirmed"}
        graded = [name for name, fact in doubtful.items() if fact.by]
        guessed = [name for name, fact in doubtful.items() if not fact.by]
        rows.append((platform, len(there), graded, guessed))
    return {"rows": rows}


def _rentals(catalogue: Catalogue) -> dict[str, Any]:
    """What each rental platform keeps when a run ends its box, and who says so."""
    from remote_gpu_trainer.platforms.profile import read_all
    from remote_gpu_trainer.platforms.showing import standing

    facts = {
        name: profile.facts.self_stop
        for name, profile in read_all(catalogue.root).items()
        if profile.kind == "rental"
    }
    rows = [
        (name, fact.value, standing(fact), fact.date)
        for name, fact in facts.items()
        if fact is not None and fact.value.possible
    ]
    return {"rows": rows}


def _limits(page: str, catalogue: Catalogue) -> dict[str, Any]:
    from remote_gpu_trainer.catalogue.freshness import LIMITS

    return {"limits": LIMITS}


def _exits(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """The exit codes of a run script."""
    from remote_gpu_trainer.runner.core.phases import EXITS

    return {"rows": EXITS}


def _phases(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """The phases of a run, and what leads from one to the next."""
    from remote_gpu_trainer.runner.core.phases import TABLE

    return {"rows": TABLE}


def _box_ends(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """What each end of a run does to its box: by which words of `at_end.when` its command runs."""
    from remote_gpu_trainer.runner.core.box import End, cases_of
    from remote_gpu_trainer.runner.core.model import ASKED
    from remote_gpu_trainer.runner.core.phases import CODES

    ends = (
        ("done", End("done"), True),
        ("unsaved", End("unsaved"), False),
        ("failed", End("failed"), False),
        ("refused", End("failed", is_refused=True), False),
        ("preempted", End("preempted", "preempted", "notice"), False),
        ("deadline", End("preempted", "deadline", "deadline"), False),
        ("stopped", End("preempted", "preempted", ASKED), False),
    )
    rows = [
        (
            f"{name} ({CODES[name]})",
            *(
                None if end.is_late and not passed
                else [] if end.is_stopped else sorted(cases_of(end, passed, is_safe))
                for passed in (False, True)
            ),
        )
        for name, end, is_safe in ends
    ]  # fmt: skip
    return {"rows": rows}


def _names(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """The names in a run's folder."""
    from remote_gpu_trainer.runner.names import TABLE

    return {"rows": TABLE}


def _failures(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """The classes of failure, and what the runner decides."""
    from remote_gpu_trainer.runner.failures import FAILURES

    return {"rows": FAILURES}


def _xids(page: str, catalogue: Catalogue) -> dict[str, Any]:
    """The Xids that need something, with NVIDIA's action and ours."""
    from remote_gpu_trainer.logs.kernel.advice import RESET
    from remote_gpu_trainer.logs.kernel.xids import XID_ROWS, xid_words

    rows = [
        {
            "numbers": ", ".join(spans(codes)),
            "what": nvidias[2],
            "level": nvidias[0],
            "nvidia": nvidias[1].replace("NONE_LISTED", "none listed"),
            "ours": xid_words(min(codes), nvidias[0]).replace(RESET, "reset the GPU"),
            "why": ours[1] if ours else "",
        }
        for codes, nvidias, ours in XID_ROWS
        if nvidias[0] != "ok" and "legacy" not in nvidias[2]
    ]
    return {"rows": rows}


def spans(numbers: set[int]) -> list[str]:
    """{1, 2, 3, 7} -> ["1 to 3", "7"]"""
    out: list[list[int]] = []
    for number in sorted(numbers):
        if out and number == out[-1][-1] + 1:
            out[-1].append(number)
        else:
            out.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in out]


PARTS: dict[str, Callable[[str, Catalogue], dict[str, Any]]] = {
    "families": _families,
    "contents": _contents,
    "count": _count,
    "figures": _figures,
    "trust": _figures,
    "trust_zh": _figures,
    "tools": lambda page, catalogue: {"tools": tools_list()},
    "platforms": lambda page, catalogue: _rentals(catalogue),
    "platforms_zh": lambda page, catalogue: _rentals(catalogue),
    "schema": _schema,
    "shares": _shares,
    "limits": _limits,
    "exits": _exits,
    "phases": _phases,
    "box_ends": _box_ends,
    "failures": _failures,
    "names": _names,
    "modules": lambda page, catalogue: {"modules": modules_of(Path(page).parent.name)},
    "xids": _xids,
}


WHOLE: tuple[tuple[str, Callable[[Path], str]], ...] = (
    ("docs/commands.md", commands_page),
    ("docs/job.md", job_page),
    ("docs/launch_scripts.md", launch_scripts_page),
    ("docs/bit_flips.md", bit_flips_page),
    ("docs/coverage.md", coverage_page),
    ("docs/assets/lookup.svg", lookup_picture),
    *((name, partial(box_programs.generated, name=name)) for name in box_programs.PROGRAMS),
    ("hooks/signatures.txt", hook_signatures),
)
