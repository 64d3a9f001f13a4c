"""Of 56 public training logs, labelled by somebody who didn't know the reader, no number is read wrongly."""

import json
import lzma
import math
from collections import Counter

from remote_gpu_trainer.readings.course import PIECE, Course

from tests.conftest import ROOT

SET = ROOT / "evals/sets/training_logs.jsonl.xz"
PLACE, NUMBERS = ("step", "total", "epoch"), ("loss", "lr", "val_loss")
LEAST_RIGHT = 130  # of the numbers that are labelled; the others are left out


def numbers_of(text: str) -> dict:
    """What is read at the end of a log, by name."""
    course = Course()
    written = text.encode() + b"\n"
    for at in range(0, len(written), PIECE):
        course.feed(written[at : at + PIECE], 0.0)
    told = course.as_dict()
    newest = {name: told["newest"].get(name, {}).get("value") for name in NUMBERS}
    return {name: told.get(name) for name in PLACE} | newest


def is_near(read: float | str, labelled: float | str) -> bool:
    if "nan" in (read, labelled):
        return read == labelled
    return math.isclose(float(read), float(labelled), rel_tol=1e-3, abs_tol=1e-9)


def grade(row: dict) -> Counter:
    """How many numbers of a log were read rightly, wrongly or not at all.

    A label is a list of all values that a careful reader takes, [] for none in the file, None where
    nobody labelled it.
    """
    found = Counter()
    for name, read in numbers_of(row["text"]).items():
        labels = row["labels"][name]
        if labels is None or (read is None and not labels):
            continue
        right = read is not None and any(is_near(read, label) for label in labels)
        found["right" if right else "left out" if read is None else "wrong"] += 1
        if read is not None and not right:
            found[f"{row['source']}: {name} is {read}, labelled {labels}"] += 1
    return found


def test_none_is_wrong_and_no_fewer_are_right():
    rows = list(map(json.loads, lzma.decompress(SET.read_bytes()).decode().splitlines()))
    found = sum(map(grade, rows), Counter())
    assert len(rows) == 56 and not found["wrong"], found
    assert found["right"] >= LEAST_RIGHT, found
