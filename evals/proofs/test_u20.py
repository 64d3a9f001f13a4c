"""U20: the Trainer keeps the whole curve in each checkpoint, and Trackio gets a Space only where one is named."""

import importlib.machinery
import json
import sys
import types

import pytest
from transformers import Trainer, TrainingArguments

pytest.importorskip("accelerate")
from line_model import DATA, Config, Line

pytestmark = pytest.mark.filterwarnings("ignore")


class Asked(Exception):
    """What trackio.init was given."""


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """trained(**arguments): a Trainer of four steps that saves after each second one."""

    def make(**given):
        arguments = TrainingArguments(
            str(tmp_path / "out"), max_steps=4, save_steps=2, logging_steps=1, use_cpu=True,
            disable_tqdm=True, **{"report_to": "none"} | given,
        )  # fmt: skip
        return Trainer(Line(Config()), arguments, train_dataset=DATA)

    def init(**given):
        raise Asked(given)

    trackio = types.ModuleType("trackio")
    trackio.__spec__ = importlib.machinery.ModuleSpec("trackio", None)
    trackio.init, trackio.__version__ = init, "0.43.0"
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    return make


def test_a_checkpoint_holds_the_curve_from_the_first_step_also_after_a_resume(tmp_path, trained):
    trained().train()
    half = str(tmp_path / "out" / "checkpoint-2")
    trained().train(resume_from_checkpoint=half)
    for step in (2, 4):
        path = tmp_path / "out" / f"checkpoint-{step}" / "trainer_state.json"
        history = json.loads(path.read_text())["log_history"]
        assert [line["step"] for line in history if "loss" in line] == list(range(1, step + 1))


@pytest.mark.parametrize(("given", "space", "private"), [
    ({}, None, None),
    ({"trackio_space_id": "me/curves", "hub_private_repo": True}, "me/curves", True),
])  # fmt: skip
def test_trackio_is_told_of_a_space_only_where_one_is_named(trained, given, space, private):
    with pytest.raises(Asked) as asked:
        trained(report_to="trackio", **given).train()
    told = asked.value.args[0]
    assert (told["space_id"], told["private"]) == (space, private)
