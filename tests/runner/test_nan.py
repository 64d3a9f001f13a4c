"""A loss of nan: three in a row, in the forms that trainers write, from which step on."""

import pytest
from remote_gpu_trainer.runner import log, nan
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of


def read(*pieces: bytes) -> nan.Watch:
    run = Run(job_of({}))
    made = nan.Watch(lambda line: log.find_step(run, line))
    for piece in pieces:
        made.feed(piece)
    return made


def test_three_losses_of_nan_are_a_loss_that_is_lost():
    lines = [b"{'loss': nan}", b"loss=NaN, lr 1", b"train_loss: tensor(nan, device=0)"]
    assert not read(b"\n".join(lines[:2]) + b"\n").is_lost
    assert read(b"loss: 0.3\n" + b"\n".join(lines) + b"\n").is_lost


@pytest.mark.parametrize(
    "last", [b"loss: 1.0\n", b"loss 2.5, loss_scale: nan, nanmean 3\n", b"loss: 17\n"]
)
def test_a_number_after_them_or_another_word_is_none(last):
    assert not read(b"loss: nan\nloss: nan\n" + last + b"loss: nan\n").is_lost
    assert not read(last * 3).is_lost


def test_the_first_step_is_that_of_the_log_and_not_of_the_look():
    lines = [b"step %d loss %s\n" % (n, b"nan" if n >= 12 else b"0.5") for n in range(1, 40)]
    assert read(b"".join(lines)).step == 12
    assert read(*[bytes([byte]) for byte in b"".join(lines)]).step == 12
    assert read(*lines).step == 12


def test_a_step_on_a_line_of_its_own_counts_for_the_losses_behind_it():
    assert read(b"step 7\nloss: nan\nstep 8\nloss: nan\nstep 9\nloss: nan\n").step == 7
    assert read(b"loss: nan\n" * 3).step is None


def test_nan_between_two_looks_is_seen_although_numbers_follow():
    text = b"".join(b"step %d loss %s\n" % (n, b"nan" if 4 < n < 9 else b"1.0") for n in range(30))
    assert read(text).step == 5
