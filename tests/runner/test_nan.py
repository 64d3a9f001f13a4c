"""A loss of nan: three in a row, in the forms that trainers write."""

import pytest
from remote_gpu_trainer.runner import nan


def test_three_losses_of_nan_are_a_loss_that_is_lost():
    lines = [b"{'loss': nan}", b"loss=NaN, lr 1", b"train_loss: tensor(nan, device=0)"]
    assert not nan.is_lost(b"\n".join(lines[:2]))
    assert nan.is_lost(b"loss: 0.3\n" + b"\n".join(lines))


@pytest.mark.parametrize(
    "last", [b"loss: 1.0", b"loss 2.5, loss_scale: nan, nanmean 3", b"loss: 17"]
)
def test_a_number_after_them_or_another_word_is_none(last):
    assert not nan.is_lost(b"loss: nan\nloss: nan\n" + last)
    assert not nan.is_lost(last * 3)
