"""Where in a run a traceback ends, by tracebacks of torch 2.13 and transformers 5.23 in which something was made to fail at each place."""

import pytest
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.numbers.memory import run_phase

from tests.conftest import ROOT

TRACEBACKS = ROOT / "tests" / "numbers" / "tracebacks"
SAID = {
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optim": "in the optimizer's step",
    "eval": "in an evaluation",
    "save": "while saving",
    "load": "while loading",
}


def where(text: str) -> str:
    lines = reading.from_text(text).lines
    return run_phase(lines, next(line for line in lines if "out of memory" in line.text))


@pytest.mark.parametrize("by", ["hf", "plain"])
@pytest.mark.parametrize("place", SAID)
def test_the_place_is_told_by_the_calls(by, place):
    assert where((TRACEBACKS / f"{by}_{place}.txt").read_text()) == SAID[place]


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint_reentrant"])
def test_what_checkpointing_computes_again_is_the_backward_pass(name):
    assert where((TRACEBACKS / f"{name}.txt").read_text()) == SAID["backward"]


def test_calls_below_the_message_are_read_too():
    *calls, message = (TRACEBACKS / "hf_optim.txt").read_text().strip().splitlines()
    assert where("\n".join([message, *calls[1:]])) == SAID["optim"]


def test_lightnings_forward_pass_within_the_optimizers_step_is_the_forward_pass():
    text = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/lightning/pytorch/core/module.py", line 1366, in optimizer_step
    optimizer.step(closure=optimizer_closure)
  File "/opt/venv/lib/python3.11/site-packages/torch/optim/adamw.py", line 220, in step
    loss = closure()
  File "train.py", line 31, in training_step
    return self.model(batch).loss
torch.OutOfMemoryError: CUDA out of memory."""
    assert where(text) == SAID["forward"]


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory",
        'File "train.py", line 3, in <module>\n    main()\nRuntimeError: CUDA out of memory',
        "optimizer.step()\nCUDA out of memory",
    ],
)
def test_without_telling_calls_no_place_is_named(text):
    assert where(text) == ""


def test_another_ranks_calls_dont_count():
    calls = (TRACEBACKS / "hf_optim.txt").read_text().strip().splitlines()[:-1]
    assert (
        where(
            "\n".join(
                [
                    *(f"[rank1]: {call}" for call in calls),
                    "[rank0]: torch.OutOfMemoryError: CUDA out of memory.",
                ]
            )
        )
        == ""
    )
