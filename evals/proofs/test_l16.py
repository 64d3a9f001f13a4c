"""L16: the product that GRPO divides into groups. TRL's own GRPOConfig takes these numbers or refuses them."""

import pytest
from check_code import span, typed

trl = pytest.importorskip("trl")

# processes, batch, accumulation, generations
TAKEN = [(1, 8, 1, 8), (1, 1, 8, 8), (7, 8, 1, 8), (1, 4, 1, 2), (2, 3, 4, 8), (8, 1, 1, 8)]
REFUSED = [(1, 6, 1, 8), (7, 1, 1, 8), (1, 2, 3, 8), (4, 2, 1, 3)]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """config(numbers, …): the configuration of TRL for these numbers. The processes are described to it."""

    def make(numbers, **arguments):
        processes, batch, accumulation, generations = numbers
        monkeypatch.setattr(trl.GRPOConfig, "world_size", processes)
        return trl.GRPOConfig(
            str(tmp_path),
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation,
            num_generations=generations,
            **arguments,
        )

    return make


def remainder(numbers) -> str:
    """What the line of the check prints for these numbers."""
    line = span("L16", "P, B, A, G")
    own = "7, 1, 8, 8"
    assert own in line
    return typed(line.replace(own, ", ".join(map(str, numbers))))


@pytest.mark.parametrize("numbers", TAKEN)
def test_the_check_prints_0_for_what_trl_takes(config, numbers):
    config(numbers)
    assert remainder(numbers) == "0"


@pytest.mark.parametrize("numbers", REFUSED)
def test_the_check_prints_another_number_for_what_trl_refuses(config, numbers, says):
    with pytest.raises(ValueError) as stop:
        config(numbers)
    says("L16", str(stop.value))
    assert remainder(numbers) != "0"


def test_the_cure_for_one_gpu_and_eight_answers_comes_out_even():
    assert remainder((1, 8, 1, 8)) == remainder((1, 1, 8, 8)) == "0"


def test_the_batch_of_an_evaluation_is_divided_too(config, says):
    with pytest.raises(ValueError) as stop:
        config((1, 8, 1, 8), do_eval=True, eval_strategy="steps", per_device_eval_batch_size=4)
    says("L16", str(stop.value))


# Older releases of https://github.com/huggingface/trl/blob/main/trl/trainer/grpo_config.py
@pytest.mark.parametrize(
    "line",
    [
        "The global eval batch size (4 * 1) must be divisible by num_generations (8).",
        "The effective train batch size (1 x 2 x 3) must be evenly divisible by the number of generations per prompt (8).",
    ],
)
def test_the_wording_of_other_versions_is_recognised(line, says):
    says("L16", f"ValueError: {line}")
