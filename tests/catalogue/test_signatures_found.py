"""What the index finds by words that each signature needs is what a plain search of every signature finds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.entry import Signature
from remote_gpu_trainer.catalogue.signatures import MAX_TEXT, SignatureIndex, normal
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.ends import as_shell_says
from remote_gpu_trainer.logs.kinds import FAILURE
from remote_gpu_trainer.retrieval import ranking

LOG = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    train()
RuntimeError: the first thing that broke at step 7"""
EVALS = Path(__file__).resolve().parents[2] / "evals"


def plainly(found: reading.Evidence) -> set[tuple[str, str]]:
    """(entry, text of the signature): literals anywhere in the joined lines, expressions in a single one.

    What a shell says of a line's end by a signal counts as a line.
    """
    ends = [as_shell_says(line) for line in found.lines if line.kind == FAILURE]
    lines = [*filter(None, ends), *(line.text for line in found.lines)]
    joined = " ".join(map(normal, lines))
    return {
        (name, pattern.source.text)
        for name, pattern in ranking.load().signatures.patterns
        if (pattern.literal in joined if pattern.literal else any(map(pattern.search, lines)))
    }


def test_no_signature_is_lost_on_the_way_to_its_lines():
    texts = [
        json.loads(line).get("text", "")
        for name in ("waiting", "fresh")
        for line in (EVALS / f"sets/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    hits = 0
    for text in filter(str.strip, texts[::3]):
        found = reading.from_text(text)
        expected = plainly(found)
        assert {
            (hit.entry_id, hit.signature.text) for hit in ranking.load().signatures.find(found)
        } == expected, text[:200]
        hits += len(expected)
    assert hits > 100


@pytest.mark.parametrize(
    ("role", "decides"), [("root", True), ("cascade", False), ("advice", False)]
)
@pytest.mark.parametrize(
    ("text", "is_regex"),
    [("first thing that broke", False), (r"thing that broke at step \d", True)],
)
def test_only_a_root_text_decides_and_every_hit_has_its_role(text, is_regex, role, decides):
    index = SignatureIndex([("O999", [Signature(text, is_regex, role)])])
    for log in (LOG, "the first thing that broke at step 7"):
        [hit] = index.find(reading.from_text(log))
        assert (hit.signature.role, hit.decisive) == (role, decides)


def test_a_root_text_decides_beside_a_cascade_of_the_same_entry():
    both = [Signature("the first thing", role="cascade"), Signature("that broke at step")]
    hits = SignatureIndex([("O999", both)]).find(reading.from_text(LOG))
    assert [(hit.signature.role, hit.decisive) for hit in hits] == [
        ("cascade", False),
        ("root", True),
    ]


def test_in_a_long_log_what_stands_behind_the_failure_counts_as_well():
    index = SignatureIndex([("D34", [Signature("creating shared memory segment")])])
    failed = reading.from_text("[rank2]: Last error:\n[rank2]: creating shared memory segment")
    noise = reading.from_text("\n".join(f"sample {'read ' * 40}" for _ in range(500))).lines
    lines = [*noise * 10, *failed.lines, *noise]
    assert sum(len(line.text) for line in noise * 10) > MAX_TEXT
    assert [hit.entry_id for hit in index.find(replace(failed, lines=lines))] == ["D34"]


def test_the_rows_of_an_index_make_an_equal_one():
    whole = ranking.load().signatures
    again = SignatureIndex.from_rows(json.loads(json.dumps(whole.rows())))
    assert again.rows() == whole.rows() == SignatureIndex(bundle.load_cache().signatures()).rows()
    assert again.find(reading.from_text(LOG)) == whole.find(reading.from_text(LOG))
