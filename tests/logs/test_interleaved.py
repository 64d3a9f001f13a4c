"""Ranks that fail alike and share a file without labels: their tracebacks are read once."""

import itertools

import pytest
from remote_gpu_trainer.logs.interleaved import LONGEST, find_copies
from remote_gpu_trainer.lookup.answer import answer_for

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/home/u/proj/train.py", line 60, in <module>',
    "    main()",
    '  File "/home/u/proj/train.py", line 40, in main',
    "    batch = {key: sample[key] for key in keys}",
    "KeyError: 'image_id'",
]
OTHER = [*TRACEBACK[:-2], "    scores = model(batch)", "ValueError: not enough values to unpack"]
CHAIN = [
    "Traceback (most recent call last):",
    '  File "/home/u/proj/data.py", line 9, in load',
    "    return records[name]",
    "IndexError: list index out of range",
    "During handling of the above exception, another exception occurred:",
]
STEPS = [f"step {n} loss {2 / n:.3f}" for n in range(1, 6)]


def times(lines: list[str], count: int) -> list[str]:
    return [line for line in lines for _ in range(count)]


def late(lines: list[str]) -> list[str]:
    """As by two ranks, the second one line behind."""
    pairs = itertools.zip_longest([*lines, None], [None, *lines])
    return [line for pair in pairs for line in pair if line]


@pytest.mark.parametrize(
    "lines",
    [
        times(TRACEBACK, 2),
        times(TRACEBACK, 8),
        late(TRACEBACK),
        [*TRACEBACK[:3], *TRACEBACK[:3], *TRACEBACK[3:5], *TRACEBACK[3:5], *TRACEBACK[5:] * 2],
        [*times(TRACEBACK[:4], 2), "UserWarning: the lr is 0", *times(TRACEBACK[4:], 2)],
        times([*CHAIN, *TRACEBACK], 2),
        [f"2026-11-20 10:00:0{n % 9} {line}" for n, line in enumerate(times(TRACEBACK, 2))],
    ],
    ids=["two", "eight", "late", "blocks", "with another line", "chain", "stamped"],
)
def test_an_own_error_of_several_ranks_gets_its_sentence(tmp_path, lines):
    path = tmp_path / "train.log"
    path.write_text("\n".join([*times(STEPS, 2), *lines]) + "\n")
    answer = answer_for(log=str(path))
    assert not answer.matches and not answer.also
    assert "train.py line 40, with `KeyError`" in answer.ask


def test_the_exceptions_may_tell_the_card_or_process_of_each_rank():
    ends = [f"RuntimeError: rank {rank} stopped" for rank in range(2)]
    lines = [*times(TRACEBACK[:-1], 2), *ends]
    assert find_copies(lines) == {1, 3, 5, 7, 9, 11}


def test_copies_of_a_recursion_keep_their_depth():
    deep = [TRACEBACK[0], *TRACEBACK[1:3] * 4, TRACEBACK[-1]]
    lines = times(deep, 3)
    assert [line for at, line in enumerate(lines) if at not in find_copies(lines)] == deep


@pytest.mark.parametrize(
    "lines",
    [
        TRACEBACK,
        TRACEBACK * 3,  # one behind another: attempts, or two handlers of a logger
        [line for pair in zip(TRACEBACK, OTHER) for line in pair],  # noqa: B905 - of one length
        times(TRACEBACK, 2)[:-1],  # one rank was ended before its last line
        TRACEBACK[:1] * (2 * LONGEST),
    ],
    ids=["one", "in turn", "two faults", "cut", "heads alone"],
)
def test_other_lines_stay(lines):
    assert find_copies(lines) == set()


@pytest.mark.parametrize("count", [1, 2])
def test_a_healthy_log_with_doubled_lines_keeps_its_answer(tmp_path, count):
    caught = ["WARNING sample 7 skipped", *TRACEBACK]
    lines = [*times(STEPS, count), *caught * count, *times(STEPS, count), "Training complete"]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    answer = answer_for(log=str(path))
    assert not answer.matches and not answer.also and answer.decision["do"] == "stop"
