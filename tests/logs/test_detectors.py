"""The table of what a line can say: each row fires on its example, and no line is asked twice."""

import pytest
from remote_gpu_trainer.logs import detectors, evidence
from remote_gpu_trainer.logs.informative import informative_lines
from remote_gpu_trainer.logs.ranks import drop_secondary
from remote_gpu_trainer.logs.reading import from_path, from_text

from tests.logs.test_ranks import CLOSED, DYING, raised, steps, summary

ROWS = pytest.mark.parametrize("row", detectors.TABLE, ids=lambda row: row.name)


@ROWS
def test_a_row_fires_on_its_example_and_spares_the_line_that_looks_like_it(row):
    assert row.matches and all(row.find(line) is not None for line in row.matches)
    assert row.spares and row.find(row.spares) is None


@ROWS
def test_a_row_is_found_by_its_hints_whatever_the_case(row):
    for line in row.matches:
        assert row.name in [name for name, _ in detectors.Watch([line]).signs_of(line, True)]
    assert row.hints and all(hint == hint.lower() for hint in row.hints)


def test_a_hint_with_digits_is_found_too():
    text = "terminate called after throwing an instance of 'c10::DistBackendError'"
    assert "secondary" in [name for name, _ in detectors.Watch([text]).signs_of(text, False)]


def test_names_are_unique_and_every_role_has_rows():
    assert len(detectors.NAMES) == len(detectors.TABLE)
    assert {row.role for row in detectors.TABLE} == set(detectors.ROLES)


def test_a_row_for_ranks_says_nothing_of_a_line_without_one():
    watch = detectors.Watch(["step 3"])
    assert watch.signs_of("step 3", False) == ()
    assert watch.signs_of("step 3", True) == (("step", ("3",)),)
    assert watch.signs_of("step 4", True) == (("step", ("4",)),)


def test_no_line_of_a_run_is_asked_twice(tmp_path, monkeypatch):
    """Whatever a run's logs are read for: failures, routine, ranks, launcher, salient lines."""
    asked = []
    signs_of = detectors.Watch.signs_of

    def counted(watch, text, ranked):
        asked.append(text)
        return signs_of(watch, text, ranked)

    monkeypatch.setattr(detectors.Watch, "signs_of", counted)
    log = "\n".join(f"loading {word}" for word in ("weights", "optimizer", "data")) + "\n"
    for rank, text in enumerate(
        (steps(60) + CLOSED + DYING, steps(60) + raised(1, "KeyError: 'a'"), steps(60) + CLOSED)
    ):
        (tmp_path / f"worker_{rank}.log").write_text((log + text).format(rank=rank))
    (tmp_path / "run.log").write_text(summary(0, {0: -6, 1: 1, 2: 1}))
    found = from_path(str(tmp_path))
    assert found.first.rank == 1
    informative_lines(drop_secondary(found))
    evidence.disagreement(found, found.lines[-1])
    assert len(asked) == len(found.lines) > 200


@pytest.mark.parametrize(
    "advice",
    [
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ],
)
def test_advice_that_every_error_carries_never_decides(advice):
    found = from_text(f"RuntimeError: CUDA error: misaligned address\n{advice}\n")
    assert [line.text for line in found.decisive] == [
        "RuntimeError: CUDA error: misaligned address"
    ]
