"""L19: the divisions of verl. What its own lines in 0.4.1 and 0.9.1 said to these numbers."""

import pytest
from check_code import span, typed

# train_batch_size, ppo_mini_batch_size, rollout.n, GPUs, sequence parallel, micro batch
TAKEN = [
    (16, 8, 5, 8, 1, 1),
    (16, 8, 5, 8, 1, 5),
    (8, 4, 4, 1, 1, 1),
    (64, 32, 8, 8, 2, 4),
    (128, 64, 8, 8, 1, 8),
]
# What one of them refused, its text, and the place of the condition in what the check prints.
REFUSED = {
    (16, 8, 5, 8, 1, 2): (
        "normalized ppo_mini_batch_size 5 should be divisible by ppo_micro_batch_size_per_gpu 2",
        4,
    ),
    (24, 8, 1, 16, 1, 1): (
        "real_train_batch_size (24) must be divisible by minimal possible batch size (16)",
        2,
    ),
    (8, 1, 1, 8, 1, 1): (
        "ppo_mini_batch_size 0 should be larger than 0 after normalization",
        3,
    ),
    (16, 128, 1, 8, 1, 1): ("train_batch_size (16) must be >= actor.ppo_mini_batch_size (128)", 0),
}
# The texts of 0.9.1, where 0.4.1 rounded down without a word.
ROUNDED = {
    (36, 6, 4, 16, 1, 1): 3,  # Got mini_batch_size=24 and self.engine.get_data_parallel_size()=16
    (24, 16, 4, 4, 1, 2): 1,  # 24 % 16 != 0
}
SOUND = ["True", "0", "0", "0", "0"]


def told(numbers) -> list[str]:
    """What the line of the check prints for these numbers."""
    line, own = span("L19", "T, M, n, G, S, u"), "16, 8, 5, 8, 1, 2"
    assert own in line
    return typed(line.replace(own, ", ".join(map(str, numbers)))).split()


@pytest.mark.parametrize("numbers", TAKEN)
def test_the_check_finds_nothing_in_what_both_versions_took(numbers):
    assert told(numbers) == SOUND


@pytest.mark.parametrize("numbers", REFUSED)
def test_the_check_names_the_condition_that_verl_refused(numbers, says):
    text, place = REFUSED[numbers]
    says("L19", f"AssertionError: {text}")
    assert told(numbers)[place] != SOUND[place]


@pytest.mark.parametrize("numbers", ROUNDED)
def test_the_check_also_names_what_only_the_newer_version_refuses(numbers):
    place = ROUNDED[numbers]
    assert [i for i in range(5) if told(numbers)[i] != SOUND[i]] == [place]
