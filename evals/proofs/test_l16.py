"""L16: the product that GRPO divides into groups. What TRL's GRPOConfig said to these numbers, in 0.24.0 and 1.16.0 alike."""

import pytest
from check_code import span, typed

# processes, batch, accumulation, generations
TAKEN = [(1, 8, 1, 8), (1, 1, 8, 8), (7, 8, 1, 8), (1, 4, 1, 2), (2, 3, 4, 8), (8, 1, 1, 8)]
REFUSED = {
    (1, 6, 1, 8): "generation_batch_size (6) must be divisible by num_generations (8).",
    (7, 1, 1, 8): "generation_batch_size (7) must be divisible by num_generations (8).",
    (1, 2, 3, 8): "generation_batch_size (6) must be divisible by num_generations (8).",
    (4, 2, 1, 3): "generation_batch_size (8) must be divisible by num_generations (3).",
}


def remainder(numbers) -> str:
    """What the line of the check prints for these numbers."""
    line = span("L16", "P, B, A, G")
    own = "7, 1, 8, 8"
    assert own in line
    return typed(line.replace(own, ", ".join(map(str, numbers))))


@pytest.mark.parametrize("numbers", TAKEN)
def test_the_check_prints_0_for_what_trl_took(numbers):
    assert remainder(numbers) == "0"


@pytest.mark.parametrize("numbers", REFUSED)
def test_the_check_prints_another_number_for_what_trl_refused(numbers, says):
    says("L16", f"ValueError: {REFUSED[numbers]}")
    assert remainder(numbers) != "0"


def test_the_cure_for_one_gpu_and_eight_answers_comes_out_even():
    assert remainder((1, 8, 1, 8)) == remainder((1, 1, 8, 8)) == "0"


@pytest.mark.parametrize(
    "line",
    [
        "The global eval batch size (4 * 1) must be divisible by num_generations (8).",
        "The global eval batch size (4 * 1) must be divisible by the number of generations used for evaluation (8).",
        "The effective train batch size (1 x 2 x 3) must be evenly divisible by the number of generations per prompt (8).",
    ],
)
def test_the_wording_of_other_versions_is_recognised(line, says):
    says("L16", f"ValueError: {line}")
