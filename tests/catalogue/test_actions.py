"""The first sentence of a fix is its action: an answer begins with it."""

import gzip
import json
import lzma
import re
from collections import Counter

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.budget import first_sentence, opening

from tests.conftest import ROOT

MOST_REPORTED = 150
ORDERS = """
    accept add ask bring build call cap change choose clip convert copy correct count decode delete divide draw drop
    encode extend feed find freeze give go halve install judge keep leave let load log look make
    mend move name number pack pass point print put read remove replace restart run sample save say
    scan seed send set size start step switch take train turn upgrade use walk wrap write
"""
VERBS = frozenset(ORDERS.split())
# Words that begin a condition: its action follows within the sentence.
CONDITIONS = frozenset(("After", "At", "Before", "For", "If", "In", "On", "To", "When", "Where"))
WITHIN = 16  # words


def reported() -> list[str]:
    """The ids that committed reports name most often, by the entry that is the best answer."""
    counts: Counter[str] = Counter()
    opening_of = {".gz": gzip.open, ".xz": lzma.open}
    for path in [ROOT / "evals/cases.jsonl", *sorted((ROOT / "evals/sets").glob("*.jsonl*"))]:
        if path.name.startswith("sealed"):
            continue
        with opening_of.get(path.suffix, open)(path, "rt", encoding="utf-8") as file:
            for line in file:
                expected = json.loads(line).get("expect")
                first = expected[:1] if isinstance(expected, list) else [expected]
                counts.update(id for id in first if isinstance(id, str))
    found: Counter[str] = Counter()
    catalogue = bundle.load()
    for id, count in counts.items():
        if id in catalogue.by_id or catalogue.retired_id(id):
            found[catalogue.get(id).id] += count
    return [id for id, _ in found.most_common(MOST_REPORTED)]


def begins_with_action(text: str) -> bool:
    """Whether a sentence is an order, or a condition and an order."""
    words = re.findall(r"[A-Za-z]+", re.sub(r"`[^`]*`", "", text))
    if not words or text.startswith("`"):
        return False
    if words[0] in CONDITIONS:
        return not VERBS.isdisjoint(word.lower() for word in words[1:WITHIN])
    return words[0].lower() in VERBS


@pytest.mark.parametrize("id", reported())
def test_the_fix_of_an_entry_that_is_often_reported_begins_with_an_action(id):
    text = first_sentence(opening(bundle.load_cache()[id].fix))
    assert begins_with_action(text), text


@pytest.mark.parametrize(
    "text",
    [
        "The lost files can't be recovered.",
        "Flags first.",
        "`drop_last=True` for training.",
        "401:",
    ],
)
def test_what_only_tells_is_no_action(text):
    assert not begins_with_action(text)
