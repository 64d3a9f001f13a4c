"""What people type in a hurry: a few words without a log get the entry that splits the cause, among the first three."""

import json

import pytest
from remote_gpu_trainer.cli.main import main

BARE = {
    "CUDA out of memory": "U10", "RuntimeError: CUDA out of memory": "U10", "显存不足": "U10", "GPU utilization is low": "U24", "training is slow": "U24",
    "No space left on device": "U6", "Xid 79": "HW1", "process killed": "U3", "no kernel image is available for execution on the device": "ENV1",
    "Failed to initialize NVML: Driver/library version mismatch": "ENV11", "loss is nan": "P9", "training hangs": "D19", "loss变成nan": "P9", "训练卡住了": "D19", "rc=143": "U3", "退出码 143": "U3", "返回码 -9": "M3", "进程返回 -9": "M3",
    "爆显存": "U10", "断点续训": "C1", "/dev/shm 太小": "DP15", "/dev/shm太小怎么办": "DP15", "sm_120": "ENV1", "比单卡慢": "T23", "卡住不动": "D19", "显卡挂了": "HW1",
}  # fmt: skip


@pytest.mark.parametrize(("words", "entry"), BARE.items())
def test_a_few_words_get_the_entry_that_splits_the_cause(words, entry, capsys):
    assert entry in named(words, capsys)[:3]


@pytest.mark.parametrize("words", ["error", "help", "it does not work", "hello", "foo_bar"])
def test_words_that_say_nothing_get_nothing(words, capsys):
    assert named(words, capsys) == []


def named(words, capsys):
    """The ids of an answer, matches first, then titles to choose from."""
    main(["lookup", words, "--json"])
    answer = json.loads(capsys.readouterr().out)
    return [found["id"] for found in [*answer["matches"], *answer["also"]]]
