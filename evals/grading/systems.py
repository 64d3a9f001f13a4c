"""Who answers: the look-up, the look-up through its server, a file of answers, two baselines.

Each takes the cases and returns {case id: (matches, further)}, both lists of entry ids, best first.
The baselines rank the same entries by all the words in them, and always answer.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.state import Answer

from . import shared
from .cases import BadCase, Case
from .grade import SHOWN

Answers = dict[str, tuple[list[str], list[str]]]
_WORD = re.compile(r"[a-z0-9_]+|[\u4e00-\u9fff]")


def asked(cases: list[Case]) -> dict[str, Answer]:
    """The whole answers of the look-up, as `shared.answers` gives them."""
    found = shared.answers(case.text for case in cases)
    return {case.id: found[case.text] for case in cases}


def lookup(cases: list[Case]) -> Answers:
    """The ids in those."""
    return {name: ids_of(answer) for name, answer in asked(cases).items()}


def ids_of(answer: Answer) -> tuple[list[str], list[str]]:
    """The ids of an answer's matches, and of the titles beside them."""
    return [match["id"] for match in answer.matches], [title["id"] for title in answer.also]


def mcp(cases: list[Case]) -> Answers:
    """`remote-gpu-trainer serve` as a child process, asked over stdio."""
    from mcp import Client, StdioServerParameters

    async def ask() -> Answers:
        found = {}
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "remote_gpu_trainer", "serve"]
        )
        async with Client(server) as client:
            for case in cases:
                reply = await client.call_tool("lookup_symptom", {"symptom": case.text})
                if reply.is_error:
                    raise BadCase(
                        f"{case.id}: the tool failed ({reply.content[0].text}); "
                        "start the server by hand and see why"
                    )
                content = reply.structured_content
                found[case.id] = (
                    [m["id"] for m in content["matches"]],
                    [a["id"] for a in content["also"]],
                )
        return found

    return asyncio.run(ask())


def from_file(path: Path, cases: list[Case]) -> Answers:
    """The answers of another agent, {"id", "ids"} a line. Raises BadCase.

    A case without a line counts as unanswered.
    """
    known = {case.id for case in cases}
    found: Answers = {case.id: ([], []) for case in cases}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            name, ids = raw["id"], [str(i) for i in raw["ids"]]
        except (ValueError, KeyError, TypeError) as error:
            raise BadCase(
                f'{path}:{number}: can\'t read the answer ({error!r}); write {{"id", "ids": [...]}}'
            ) from None
        if name not in known:
            raise BadCase(f"{path}:{number}: unknown id {name!r}; give the id of a case")
        found[name] = (ids[:3], ids[3:])
    return found


def _documents() -> dict[str, str]:
    return {entry.id: entry.markdown for entry in bundle.load().entries}


def _answers(cases: list[Case], rank) -> Answers:
    found = {}
    for case in cases:
        ids = rank(case.text)
        found[case.id] = (ids[:3], ids[3:SHOWN])
    return found


def bm25(cases: list[Case]) -> Answers:
    """Okapi BM25 (k1 1.5, b 0.75) over whole entries."""
    bags = {name: Counter(_WORD.findall(text.lower())) for name, text in _documents().items()}
    lengths = {name: sum(bag.values()) for name, bag in bags.items()}
    mean = sum(lengths.values()) / len(bags)
    holding: dict[str, list[tuple[str, float]]] = {}
    for name, bag in bags.items():
        room = 1.5 * (0.25 + 0.75 * lengths[name] / mean)
        for word, count in bag.items():
            holding.setdefault(word, []).append((name, count * 2.5 / (count + room)))

    def rank(text: str) -> list[str]:
        scores = Counter()
        for word in _WORD.findall(text.lower()):
            held = holding.get(word, ())
            rarity = math.log(1 + (len(bags) - len(held) + 0.5) / (len(held) + 0.5))
            for name, value in held:
                scores[name] += rarity * value
        return [name for name, _ in scores.most_common()]

    return _answers(cases, rank)


def fts5(cases: list[Case]) -> Answers:
    """SQLite's full-text search with its own bm25()."""
    base = sqlite3.connect(":memory:")
    base.execute(
        "create virtual table entries using fts5(id unindexed, text, tokenize='unicode61')"
    )
    base.executemany("insert into entries values (?, ?)", _documents().items())

    def rank(text: str) -> list[str]:
        terms = list(dict.fromkeys(re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]+", text.lower())))[:400]
        query = " OR ".join(f'"{term}"' for term in terms)
        rows = (
            base.execute(
                "select id from entries where text match ? order by bm25(entries)", (query,)
            )
            if query
            else []
        )
        return [row[0] for row in rows]

    return _answers(cases, rank)


def baselines() -> dict[str, Callable[[list[Case]], Answers]]:
    """The baselines by name."""
    return {"BM25": bm25, "SQLite FTS5": fts5}
