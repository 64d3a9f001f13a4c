"""evals/cases.jsonl, read and checked."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from dataclasses import dataclass
from pathlib import Path

KINDS = ("error", "prose", "zh")


class BadCase(Exception):
    """A line of the file is no case. The text says which line, and what is wrong with it."""


@dataclass(frozen=True)
class Case:
    """A real report with every right answer, best first; no answer means out of scope."""

    id: str
    kind: str
    text: str
    expect: tuple[str, ...]
    source: str
    note: str = ""
    near: bool = False  # out of scope, and chosen because it looks as if an entry explained it
    came: bool = False  # out of scope, and chosen by nobody: a search brought it
    # Out of scope when the ranking was made. An entry written since explains it, so naming that
    # entry is no false answer.
    since: tuple[str, ...] = ()

    @property
    def half(self) -> str:
        """`tuning` or `reporting`, from the last digit of the hash in the id."""
        return "tuning" if self.id.split("-")[0][-1] in "01234567" else "reporting"

    @property
    def family(self) -> str:
        """The letters of the first right id, or `none` out of scope."""
        return (
            self.expect[0].rstrip("0123456789abcdefghijklmnopqrstuvwxyz") if self.expect else "none"
        )


def id_of(source: str) -> str:
    """The first ten hexadecimal digits of the SHA-256 of a source: nobody chooses the half."""
    return hashlib.sha256(source.encode()).hexdigest()[:10]


def unpacked(path: Path) -> str:
    """The text of a file, which gzip or xz may have compressed. Raises OSError and LZMAError."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data).decode()
    return (lzma.decompress(data) if path.suffix == ".xz" else data).decode()


def read_cases(path: Path) -> list[Case]:
    """All cases of a file, which may be compressed. Raises BadCase.

    `file` in place of `text` names a log beside it.
    """
    cases, seen = [], set()
    for number, line in enumerate(unpacked(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            text = (
                raw["text"]
                if "text" in raw
                else (path.parent / raw["file"]).read_text(encoding="utf-8", errors="replace")
            )
            case = Case(
                *(
                    raw["id"],
                    raw["kind"],
                    text,
                    tuple(raw["expect"]),
                    raw["source"],
                    raw.get("note", ""),
                ),
                near=path.name == "near.jsonl",
                came=path.name == "outside.jsonl",
                since=tuple(raw.get("since", ())),
            )
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise BadCase(
                f"{path}:{number}: can't read the case ({error!r}); "
                "give id, kind, text or file, expect, source"
            ) from None
        if case.kind not in KINDS:
            raise BadCase(
                f"{path}:{number}: unknown kind {case.kind!r}; write one of {', '.join(KINDS)}"
            )
        if case.id.split("-")[0] != id_of(case.source):
            raise BadCase(
                f"{path}:{number}: id {case.id!r} isn't the hash of its source; "
                f"write {id_of(case.source)!r}"
            )
        if (case.near or case.came) and case.expect:
            raise BadCase(
                f"{path}:{number}: {path.name} holds no case with an answer; "
                f"empty expect {list(case.expect)}"
            )
        if case.since and case.expect:
            raise BadCase(
                f"{path}:{number}: since {list(case.since)} stands beside "
                f"expect {list(case.expect)}; empty one of them"
            )
        if case.id in seen:
            raise BadCase(
                f"{path}:{number}: id {case.id!r} again; "
                "add -2, -3 … for further reports of one thread"
            )
        seen.add(case.id)
        cases.append(case)
    return cases


def set_hash(cases: list[Case]) -> str:
    """One name for this set of cases and labels."""
    text = json.dumps([(c.id, c.expect) for c in sorted(cases, key=lambda c: c.id)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
