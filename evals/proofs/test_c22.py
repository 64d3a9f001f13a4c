"""C22: a tensor or NumPy number in the Trainer's log can't be written as JSON; a Python number can."""

import json

import numpy as np
import pytest
import torch
from transformers.trainer_callback import TrainerState

PLAIN = (int, float, str, bool, list, dict, type(None))


def odd(state):
    return [
        (k, type(v)) for d in state.log_history for k, v in d.items() if not isinstance(v, PLAIN)
    ]


@pytest.mark.parametrize("value", [torch.tensor(0.5), np.float32(0.5), np.ones(2)])
def test_the_state_is_refused_with_the_signature_and_the_check_names_the_key(says, tmp_path, value):
    state = TrainerState(log_history=[{"loss": 0.1, "eval_f1": value}])
    with pytest.raises(TypeError) as error:
        state.save_to_json(str(tmp_path / "trainer_state.json"))
    says("C22", str(error.value))
    assert odd(state) == [("eval_f1", type(value))]


def test_converted_values_are_saved(tmp_path):
    metrics = {"eval_f1": float(torch.tensor(0.5)), "eval_each": np.ones(2).tolist()}
    state = TrainerState(log_history=[metrics])
    state.save_to_json(str(tmp_path / "trainer_state.json"))
    assert odd(state) == []
    assert json.loads((tmp_path / "trainer_state.json").read_text())["log_history"] == [metrics]
