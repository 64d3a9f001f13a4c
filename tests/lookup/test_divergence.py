"""A report that says nan or diverges gets no entry that raises the learning rate."""

import pytest
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.divergence import RAISE_RATE, says_diverges

DIVERGES = [
    "chatglm lora微调 学习率5e-3 loss直接为nan",
    "lora微调 lr设置5e-3，训练loss直接就是nan了",
    "lora 训练 lr 5e-3 loss 直接 nan 正常吗",
    "lora lr=5e-3 loss直接nan",
    "学习率调到0.01后loss一开始就是nan",
    "LoRA 微调 学习率 1e-2 loss 发散",
    "学习率 5e-3 训练 loss 爆炸",
    "lora fine-tune at a learning rate of 5e-3, loss is nan at once",
    "lora learning rate 1e-2, loss explodes after the first epoch",
    "loss diverges with the learning rate from the full fine-tune",
    "loss goes to inf in the first epoch, learning rate 2e-4 for LoRA",
    "larger batch, same rate, the loss blows up",
]
SLOW = [
    "after lowering the rate to stop NaN it doesn't learn any more",
    "学习率调小之后不报 NaN 了，但是学不动",
    "LoRA fine-tune barely changes the model after 3 epochs, no nan",
    "收敛特别慢，一个 epoch 只降一点点，没有nan",
]


def _named(text):
    answer = answer_for(text=text)
    return {match["id"] for match in answer.matches}, {title["id"] for title in answer.also}


@pytest.mark.parametrize("text", DIVERGES)
def test_a_report_that_diverges_gets_no_higher_rate(text):
    assert says_diverges(text)
    claimed, titles = _named(text)
    assert not (claimed | titles) & RAISE_RATE
    assert claimed | titles


@pytest.mark.parametrize("text", SLOW)
def test_a_slow_run_without_nan_still_gets_one(text):
    assert not says_diverges(text)
    claimed, titles = _named(text)
    assert "O7" in claimed | titles


@pytest.mark.parametrize("text", ["financial news", "info: lr 1e-6", "nanogpt learns slowly"])
def test_a_word_that_holds_nan_says_nothing(text):
    assert not says_diverges(text)
