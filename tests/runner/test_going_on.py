"""Whether a program went on where it was, by the names of its checkpoints and the steps of its log."""

import os

import pytest
from remote_gpu_trainer.runner import going_on, log, spec
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock


@pytest.fixture
def make(tmp_path):
    """Make a run whose checkpoints have these names, the oldest first."""

    def made(*names: str) -> Run:
        fields = {"checkpoint_folder": str(tmp_path), "checkpoint_pattern": "*.pt"}
        told = {"run_dir": str(tmp_path / "run"), "step_pattern": "step [0-9]+", **fields}
        run = Run(spec.of(told), clock=Clock())
        run.folder.make()
        for at, name in enumerate(names, 1):
            save(tmp_path / name, at)
        return run

    return made


def save(path, at: int) -> None:
    path.write_text("x")
    os.utime(path, (at, at))


@pytest.mark.parametrize(
    ("names", "saved", "kind"),
    [
        (["model_7b.pt"], "model_7b.pt", "saved"),
        (["rank0.pt", "rank1.pt"], "rank1.pt", "saved"),
        (["m-00001-of-00002.pt", "m-00002-of-00002.pt"], "m-00002-of-00002.pt", "saved"),
        (["step_20260101_101500.pt"], "step_20260101_111500.pt", "saved"),
        (["step_1767225600.pt"], "step_1767229200.pt", "saved"),
        (["m_10.pt", "m_20.pt"], "m_20.pt", "again"),
        (["m_10.pt", "m_20.pt"], "m_30.pt", "beyond"),
        (["step_10.pt", "step_20.pt"], "step_10.pt", "lower"),
        (["epoch=1-step=90.pt"], "epoch=1-step=90-v1.pt", "again"),
        (["epoch=1-step=90.pt"], "epoch=2-step=10.pt", "beyond"),
        (["step_90.pt"], "epoch_1.pt", "saved"),
        (["fold1_epoch_9.pt"], "fold2_epoch_0.pt", "saved"),
        (["epoch=1-step=90-loss=0.31.pt"], "epoch=1-step=80-loss=0.4.pt", "lower"),
        (["step-0.pt", "last.pt"], "last.pt", "saved"),
        (["step_10.pt", "last.pt"], "step_20.pt", "beyond"),
        (["step_10.pt", "last.pt", "step_20.pt"], "step_20.pt", "beyond"),
    ],
)
def test_what_was_saved_since_is_told_by_the_numbers_in_names(make, names, saved, kind):
    """The last case: one that is newer than the newest whole one was torn."""
    run = make(*names)
    newest = "last.pt" if "last.pt" in names else names[-1]
    saves = going_on.Saves(run, os.path.join(run.checkpoints, newest))
    assert saves.look() == {}
    path = os.path.join(run.checkpoints, saved)
    with open(path, "w") as file:
        file.write("y")
    os.utime(path, (100, 100))
    assert saves.look() == {kind: path}


@pytest.mark.parametrize(
    ("name", "saved", "lowest", "is_anew"),
    [
        ("step_10.pt", ["step_20.pt", "step_10.pt"], 1, True),
        ("step_10.pt", ["step_5.pt"], 1, True),
        ("step_10.pt", ["step_10.pt"], 10, False),
        ("step_10.pt", ["step_10.pt"], None, False),
        ("step_10.pt", ["step_20.pt"], 1, False),
        ("last.pt", ["last.pt"], 1, False),
        ("checkpoint_epoch10.pt", ["checkpoint_epoch10.pt"], 1, False),
        ("ckpt_1.pt", ["ckpt_0.pt"], 1000, False),
    ],
)
def test_a_step_saved_again_and_lower_ones_printed_are_a_beginning_anew(
    make, tmp_path, name, saved, lowest, is_anew
):
    saves = going_on.Saves(make(name), str(tmp_path / name))
    for at, other in enumerate(saved, 40):
        save(tmp_path / other, at)
    steps = lowest and going_on.Steps(lowest, lowest, False, -1)
    assert bool(saves.anew(saves.look(), steps)) is is_anew


def steps(*found: int, epoch: str = "") -> str:
    return "".join(f"{epoch}step {number}\n" for number in found)


@pytest.mark.parametrize(
    ("before", "after", "saved", "went"),
    [
        (steps(1, 2, 37), steps(31, 32), None, True),
        (steps(1, 2, 37), steps(1, 2), None, False),
        (steps(1, 2, 37), steps(0, 31, 32), None, True),
        (steps(1, 2, 37), "from step 30\n" + steps(1, 2), None, False),
        (steps(1, 150), steps(101), None, True),
        (steps(10, 37), steps(11), 10, True),
        (steps(10), steps(10), None, True),
        (steps(20), steps(20), 20, True),
        (steps(10), steps(20), None, True),
        (steps(1, 50, 1, 50), steps(1), None, False),
        (steps(1, 50, epoch="Epoch 1 "), steps(1, epoch="Epoch 2 "), None, True),
        (steps(1, 50, epoch="Epoch 1 "), steps(1, epoch="Epoch 1 "), None, False),
        ("", steps(1), None, False),
        (steps(1, 5), "Loading: step 1\n", None, False),
        (steps(1, 5), steps(0), None, False),
    ],
)
def test_the_steps_of_a_start_tell_where_it_began(make, before, after, saved, went):
    run = make()
    for number, text in enumerate((before, after)):
        with open(log.path(run, number), "w") as file:
            file.write(text)
    told = going_on.steps_of(run, 1)
    os.rename(log.path(run, 1), run.folder.at("later"))
    assert going_on.went_on(going_on.steps_of(run, 0), told, saved) is went
