"""The code with which a run ends: of this tool's table, else the program's own."""

import pytest
from remote_gpu_trainer.runner.core.ends import exit_code
from remote_gpu_trainer.runner.core.phases import CODES, TABLE


@pytest.mark.parametrize(
    ("failure", "own", "expected"),
    [
        ("", 0, 0),
        ("bug", 3, 3),
        ("bug", 0, 1),
        ("bug", None, 1),
        ("killed", 137, 137),
        *[("bug", own, 1) for own in sorted({*CODES.values()}) if own >= 74],
        ("preempted", 137, CODES["preempted"]),
        ("deadline", 137, CODES["deadline"]),
        ("unsaved", 0, CODES["unsaved"]),
    ],
)
def test_a_programs_own_code_is_never_taken_for_one_of_the_table(failure, own, expected):
    assert exit_code(failure, "signal TERM", own) == expected
    stopped = CODES["stopped"] if failure == "preempted" else expected
    assert exit_code(failure, "asked", own) == stopped


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.code], ids=lambda row: f"{row.source} {row.on}"
)
def test_the_table_tells_the_code_of_each_end(row):
    asked, late = exit_code("preempted", "signal TERM", 137), exit_code("deadline", "deadline", 137)
    own = f"the program's, {exit_code('bug', '', 0)} in place of 0"
    told = {
        "preempted": f"{asked}, {late} by the deadline, {exit_code('preempted', 'asked', 143)} by stop",
        "failed": str(exit_code("gpu", "", None, True)) if row.source == "preflight" else own,
        "unsaved": str(exit_code("unsaved", "", 0)),
        "done": str(exit_code("", "", 0)),
    }
    assert row.code == told[row.target]
