"""What is odd about an end with 0."""

import pytest
from remote_gpu_trainer.runner import early_end, log, memory, why
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of

FRAMES = "Traceback (most recent call last):\n  File 'train.py', line 3, in <module>\n    main()\n    ~~~~^^\n"


@pytest.fixture
def make(tmp_path):
    """Make a run whose log says something."""

    def made(said: str = "", **fields) -> Run:
        run = Run(job_of({"rendered": {"run_dir": str(tmp_path / "run")}}, fields), clock=Clock())
        run.folder.make()
        with open(log.path(run, 0), "w") as file:
            file.write(said)
        return run

    return made


def attempt(step: int | None = None) -> why.Attempt:
    return why.Attempt(1, 0, 0, step, memory.Mark(None, frozenset(), 0), [])


def told_short(run: Run, step: int | None, total: int | None) -> str:
    return early_end.tell_short(run, attempt(step), total)


def test_an_end_before_the_last_step_of_the_log_is_told(make):
    run = make("".join(f"step {step}/30\n" for step in range(1, 21)))
    assert told_short(run, 20, 30).startswith("it ended with 0 at step 20 of 30: by early stopping")
    assert told_short(run, 20, 20) == told_short(run, 20, 21) == ""
    assert told_short(run, 20, None) == told_short(run, None, 30) == ""


def test_a_log_that_leaves_steps_out_ends_before_the_last(make):
    run = make("step 100/1250\nstep 200/1250\nstep 1200/1250\n")
    assert told_short(run, 1200, 1250) == ""
    run = make("step 100/1250\nstep 200/1250\n")
    assert told_short(run, 200, 1250)


@pytest.mark.parametrize("fields", [{"results": ["model.pt"]}, {"final_step": 20}])
def test_what_the_job_expects_says_whether_it_was_the_end(make, fields):
    run = make("step 19/30\nstep 20/30\n", **fields)
    assert told_short(run, 20, 30) == ""


def words(run: Run) -> str:
    return early_end.last_words(run, attempt()).partition("traceback: ")[2]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("ValueError: wrong shape\n", "ValueError: wrong shape"),
        ("AssertionError\n\n", "AssertionError"),
        ("ray.exceptions.RayTaskError(ValueError): x", "ray.exceptions.RayTaskError(ValueError): x"),
        ("KeyError: 1\nwandb: View run at https://x\n[rank0]:[W1126 x.cpp] destroy\n", "KeyError: 1"),
        (
            "RuntimeError: CUDA error: x\nCUDA kernel errors might be\nFor debugging consider passing\nCompile with `TORCH_USE_CUDA_DSA`\n",
            "RuntimeError: CUDA error: x",
        ),
    ],
)  # fmt: skip
def test_a_traceback_at_the_logs_end_is_told(make, end, said):
    assert words(make("step 3\n" + FRAMES + end)) == said
    inner = FRAMES + "KeyError: 0\n\nDuring handling of the above exception, another occurred:\n\n"
    assert words(make(inner + FRAMES + end)) == said
    ranked = "".join(f"[rank1]: {line}" for line in (FRAMES + end).splitlines(keepends=True))
    assert words(make(ranked)) == said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step 3\ndone\n",
        FRAMES + "ValueError: skipped a sample\nstep 4\n",
        FRAMES + "ValueError: skipped\nepoch 2\nsaved\n",
        FRAMES,
        FRAMES + "and then words\n",
        FRAMES + "ValueError: x\n" + "step 5\n" * 5000,
    ],
)
def test_a_log_that_goes_on_after_a_traceback_says_nothing(make, text):
    assert early_end.last_words(make(text), attempt()) == ""
