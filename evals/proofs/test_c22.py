"""C22: a tensor or NumPy number in the Trainer's log can't be written as JSON; a Python number can."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from check_code import shown, span
from line_model import DATA, Config, Line
from remote_gpu_trainer.catalogue import bundle
from transformers.trainer_callback import TrainerState


def odd(state) -> str:
    """What the line of the check prints."""
    return shown(span("C22", "log_history"), trainer=SimpleNamespace(state=state))


ODD = [torch.tensor(0.5), np.float32(0.5), np.ones(2), np.bool_(True), torch.float32]


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [0.5, v]], ids=["alone", "in a list"])
@pytest.mark.parametrize("value", ODD, ids=[type(value).__name__ for value in ODD])
def test_the_state_is_refused_with_the_signature_and_the_check_names_the_key(
    says, tmp_path, value, wrap
):
    state = TrainerState(log_history=[{"loss": 0.1, "eval_f1": wrap(value)}])
    with pytest.raises(TypeError) as error:
        state.save_to_json(str(tmp_path / "trainer_state.json"))
    says("C22", str(error.value))
    assert odd(state) == f"eval_f1 {type(value)}"


def test_converted_values_are_saved(tmp_path):
    metrics = {"eval_f1": float(torch.tensor(0.5)), "eval_each": np.ones(2).tolist()}
    state = TrainerState(log_history=[metrics])
    state.save_to_json(str(tmp_path / "trainer_state.json"))
    assert odd(state) == ""
    assert json.loads((tmp_path / "trainer_state.json").read_text())["log_history"] == [metrics]


@pytest.mark.parametrize("value", [np.float32(0.5), torch.tensor(0.5), np.ones(2), torch.ones(2)])
def test_only_an_array_from_compute_metrics_is_refused_and_the_line_of_the_fix_converts_it(
    tmp_path, value
):
    [line] = re.findall(r"`return (\{k: v[^`]*)`", bundle.load().get("C22").fix)

    def saved(metrics) -> bool:
        trainer = transformers.Trainer(
            Line(Config()),
            transformers.TrainingArguments(
                str(tmp_path), report_to=[], use_cpu=True, disable_tqdm=True
            ),
            eval_dataset=DATA,
            compute_metrics=lambda _: metrics,
        )
        trainer.evaluate()
        try:
            trainer.save_state()
        except TypeError:
            return False
        return True

    assert saved({"f1": value}) is (value.ndim == 0)
    assert saved(eval(line, {"metrics": {"f1": value}}))
