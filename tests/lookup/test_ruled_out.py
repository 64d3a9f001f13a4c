"""What else a report says rules an entry out."""

import pytest
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.ruled_out import has_trained, was_never_resumed
from remote_gpu_trainer.numbers.entries import AFTER_RESUME

NEVER_MET = "D2"


@pytest.mark.parametrize(
    "text",
    [
        "two nodes hang after the first epoch, then time out",
        "stuck in the second epoch on 16 GPUs",
        "多机多卡跑完一个epoch，第二轮卡住然后超时报错",
        "DDP 训练一两百个batch后卡住",
    ],
)
def test_ranks_that_trained_together_have_met(text):
    assert has_trained(text)
    answer = answer_for(text=text)
    shown = [match["id"] for match in answer.matches] + [title["id"] for title in answer.also]
    assert NEVER_MET not in shown


@pytest.mark.parametrize(
    "text",
    [
        "the first epoch never starts, node 1 waits for node 0",
        "两台机器连不上，第一个epoch都没开始",
        "set epochs to 3 on both nodes, rendezvous times out",
    ],
)
def test_a_run_that_never_began_may_still_lack_the_other_machine(text):
    assert not has_trained(text)


@pytest.mark.parametrize(
    "text",
    ["设了warmup但是学习率一直没变化", "the learning rate stays flat although I set warm-up steps"],
)
def test_a_run_of_which_nobody_says_that_it_was_resumed_gets_no_entry_about_resuming(text):
    assert was_never_resumed(text)
    answer = answer_for(text=text)
    shown = [match["id"] for match in answer.matches] + [title["id"] for title in answer.also]
    assert shown and not set(shown) & set(AFTER_RESUME)


@pytest.mark.parametrize(
    "text",
    [
        "断点续训后学习率又从头开始",
        "接着上一天训练，学习率没有继承",
        "learning rate restarts after resume",
    ],
)
def test_a_run_that_went_on_keeps_them(text):
    assert not was_never_resumed(text)
    answer = answer_for(text=text)
    shown = [match["id"] for match in answer.matches] + [title["id"] for title in answer.also]
    assert set(shown[:3]) & set(AFTER_RESUME)
