"""What only several lines together show: which steps count the run, and which bar is the one of training."""

import json

import pytest
from remote_gpu_trainer.readings.course import Course
from remote_gpu_trainer.readings.files import read_metrics_csv, read_trainer_state


def follow(*lines: str, final: int = 0) -> Course:
    course = Course(final)
    for second, line in enumerate(lines):
        course.take(line, second)
    return course


def place(*lines: str, final: int = 0) -> tuple:
    course = follow(*lines, final=final)
    return course.step, course.total


BAR = " 12%|█▏        | {}/{} [00:10<01:20, 11.2it/s]"


@pytest.mark.parametrize(("lines", "told"), [
    (["step 3/10 loss 1"], (3, 10)),
    (["step 3/10 loss 1", "step 9/10 loss 1", "step 2/10 loss 1"], (None, None)),  # ten an epoch, of so many epochs
    (["step 7/10", "step 6/10", "step 8/10"], (8, 10)),  # two ranks
    (["Epoch [1/3], Step [1/100]"], (None, None)),  # of the run or of the epoch?
    (["Epoch [1/3], Step [1/100]", "Epoch [1/3], Step [60/100]"], (60, 300)),
    (["Epoch [1/3], Step [20/100]", "Epoch [2/3], Step [60/100]"], (60, 100)),
    (["Epoch [1/3], Step [100/100]", "Epoch [2/3], Step [100/100]"], (200, 300)),
    (["Epoch [2/3], Batch [5/100]"], (None, None)),  # its first line was cut off
    (["Epoch [1/1], Step [5/100]"], (5, 100)),
    (["Epoch: [0][ 20/500]", "Epoch: [1][ 20/500]"], (520, None)),
    (["Epoch 0/9 ━━━━━━━━╸━━━━━ 120/500 0:00:10"], (120, None)),  # of nine, or of ten
    (["Epoch 1/10", " 100/469 [=====>........] - ETA: 3s - loss: 0.3", " 469/469 [==============] - loss: 0.3"], (469, 4690)),
    (["step 3 loss 1", "step 4 loss 1"], (4, None)),
    (["epoch 0 step 3 loss 1", "epoch 0 step 4 loss 1", "epoch 1 step 3 loss 1"], (None, None)),
    (["step 90 loss 1", "step 40 loss 1"], (None, None)),  # the next epoch, or from a checkpoint
    (["step 90 loss 1", "step 40 loss 1", "step 120 loss 1"], (120, None)),
    (["epoch 1 global_step 500/900 loss 1"], (500, 900)),
    ([BAR.format(12, 100)], (None, None)),  # of what?
    ([BAR.format(63, 63), BAR.format(120, 1000), "{'loss': 0.1, 'epoch': 0.3}", BAR.format(20, 63)], (120, 1000)),
    (["{'loss': 0.1, 'epoch': 0.3}", BAR.format(4, 20), "{'loss': 0.1, 'epoch': 0.3}", BAR.format(4, 20), BAR.format(5, 20)], (5, 20)),
    (["Steps: " + BAR.format(6, 12), "Steps: " + BAR.format(12, 12), "epoch 1: loss 0.9", "Steps: " + BAR.format(12, 12)], (None, None)),
    (["Steps: " + BAR.format(4, 12), "epoch 0: loss 0.9", "Steps: " + BAR.format(7, 12), "epoch 1: loss 0.8", "Steps: " + BAR.format(8, 12)], (8, 12)),
    (["Scanning train: " + BAR.format(4, 12), "Map of train " + BAR.format(4, 12).replace("it/s", "examples/s")], (None, None)),
    (["  Total optimization steps = 1,000", BAR.format(20, 63), BAR.format(5, 1000)], (5, 1000)),
])  # fmt: skip
def test_a_step_is_of_the_run_or_left_out(lines, told):
    assert place(*lines) == told


def test_the_jobs_last_step_is_the_total_where_the_log_has_none():
    assert place("step 3 loss 1", final=50) == (3, 50)
    assert place("step 60 loss 1", final=50) == (60, None)


def test_the_best_value_of_held_out_data_has_its_step_and_outlives_an_attempt():
    course = follow(
        "step 100 loss 2.0", "step 100 val_loss 1.5", "step 200 val_loss 0.9", "step 300 val_loss nan",
        "step 400 val_loss 1.1",
    )  # fmt: skip
    assert (course.best["value"], course.best["step"]) == (0.9, 200)
    assert course.newest["val_loss"]["value"] == 1.1
    later = Course()
    later.recall(json.loads(json.dumps(course.as_dict())))
    later.feed(b"step 500 val_loss 1.0\n", 5)
    assert (later.best["value"], later.newest["val_loss"]["value"]) == (0.9, 1.0)
    assert follow("step 1 loss 2").best is None


def test_the_newest_of_each_number_has_its_step_and_its_time():
    course = follow("step 1 loss 2.5 lr 0.1", "step 2 loss nan", "step 2 val_loss 2.0")
    assert course.newest == {
        "loss": {"value": "nan", "step": 2, "t": 1},
        "lr": {"value": 0.1, "step": 1, "t": 0},
        "val_loss": {"value": 2.0, "step": 2, "t": 2},
    }
    again = Course()
    again.recall(course.as_dict())
    assert again.newest == course.newest


@pytest.mark.parametrize(
    "head", ["Step  Training_Loss  Validation_Loss", "| Step | Training Loss | Validation Loss |"]
)
def test_the_rows_of_a_table_are_read_by_its_head(head):
    row = "| 10 | 1.2 | 1.3 |" if "|" in head else "10  1.2  1.3"
    course = follow(head, row, "step 11 took 3 4 5")
    assert (course.newest["loss"]["value"], course.newest["val_loss"]["value"]) == (1.2, 1.3)
    assert follow("a  b  c", "10  1.2  1.3").newest == {}


def test_pieces_are_put_together_and_a_bar_needs_no_end():
    course = Course()
    for piece in (b"step 1 lo", b"ss 0.5\nstep 2 loss 0.", b"25"):
        course.feed(piece, 1.0)
    assert course.newest["loss"]["value"] == 0.5
    course.feed(b"\r 50%|##  | 5/10 [00:01<00:01, 2.0it/s, loss=0.125]", 2.0)
    assert (course.newest["loss"]["value"], course.step) == (0.125, 5)
    course.feed(b"\xff\x00" * 100_000 + b"\nstep 9 loss 3.0\n", 3.0)
    assert course.newest["loss"]["value"] == 3.0


STATE = """{"global_step": 20, "max_steps": 100, "epoch": 0.4, "log_history": [
  {"epoch": 0.2, "grad_norm": 1.5, "learning_rate": 5e-05, "loss": 2.25, "step": 10},
  {"epoch": 0.4, "eval_loss": 2.5, "eval_runtime": 3.0, "step": 20},
  {"epoch": 0.4, "train_loss": 9.0, "train_runtime": 3.0, "step": 20}]}"""


def test_files_of_libraries_are_read():
    state = read_trainer_state(STATE)
    assert (state["step"], state["total"], state["epoch"]) == (20, 100, 0.4)
    assert {name: told["value"] for name, told in state["newest"].items()} == {
        "loss": 2.25,
        "lr": 5e-05,
        "grad_norm": 1.5,
        "val_loss": 2.5,
    }
    table = read_metrics_csv(
        "epoch,lr-AdamW,step,train_loss_step,val_loss\n0,,49,0.5,\n0,0.001,49,,\n0,,99,,0.75\n"
    )
    assert (table["step"], table["epoch"]) == (99, 0)
    assert {name: told["value"] for name, told in table["newest"].items()} == {
        "loss": 0.5,
        "lr": 0.001,
        "val_loss": 0.75,
    }


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "{", '{"log_history": 3}', "[" * 100_000, "a,b\n1,2\n"]
)
def test_other_files_say_nothing(text):
    assert read_trainer_state(text) == {} and read_metrics_csv(text) == {}
