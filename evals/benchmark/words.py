"""The look-up and two baselines on many texts: `words.py lookup`, `bm25` or `titles`.

Reads a JSON list of texts from standard input, or of paths after `--files`, and prints the entries
for each. `titles` prints those whose title quotes something that stands in the text, the longest
quote first.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "evals"), str(ROOT / "server")]

from grading import systems
from grading.cases import Case
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.state import Answer

MOST = 100_000  # letters


def titles(text: str) -> list[str]:
    """Ids of the entries of which a quote in the title, of six letters or more, is in the text."""
    low, found = text.lower(), []
    for entry in bundle.load().entries:
        quotes = [part for q in re.findall(r"`([^`]+)`", entry.title) for part in q.split("…")]
        long = [len(q.strip()) for q in quotes if len(q.strip()) >= 6 and q.strip().lower() in low]
        if long:
            found.append((-max(long), entry.id))
    return [name for _, name in sorted(found)][:3]


def bm25(text: str) -> list[str]:
    """The first 18 ids by Okapi BM25 of a text's end; those after the third aren't claimed."""
    claims, further = systems.bm25([Case("1", "error", text[-MOST:], (), "")])["1"]
    return [*claims, *(f"also {name}" for name in further)]


def lookup(answer: Answer) -> list[str]:
    """The ids of an answer: claims with their confidence, then titles."""
    claims = [f"{match['id']} {match['confidence']}" for match in answer.matches]
    return [*claims, *(f"also {title['id']}" for title in answer.also)]


def main() -> None:
    """Answer what is on standard input."""
    by_path = "--files" in sys.argv
    for given in json.load(sys.stdin):
        text = Path(given).read_text("utf-8", "replace") if by_path else given
        if sys.argv[1] == "lookup":
            found = lookup(answer_for(log=given) if by_path else answer_for(text=given))
        else:
            found = {"bm25": bm25, "titles": titles}[sys.argv[1]](text)
        print("\n".join(found) or "none", "\nEND", sep="", flush=True)


if __name__ == "__main__":
    main()
