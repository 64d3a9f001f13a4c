"""C17: what the automatic clean-up of Trainer keeps. Needs transformers and accelerate."""

import contextlib
import json
import os
import re
import shutil

import pytest
import torch
from check_code import in_shell, span
from remote_gpu_trainer.catalogue import bundle

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from line_model import DATA, Config, Line

pytestmark = pytest.mark.filterwarnings("ignore")


class Worsening(transformers.Trainer):
    """Its evaluation is best at the first checkpoint and gets worse with each step."""

    def evaluate(self, *args, **kwargs):
        metrics = {"eval_loss": float(self.state.global_step)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics


BEST = {"eval_strategy": "steps", "eval_steps": 5, "load_best_model_at_end": True}


def run(folder, resume=None, epochs=2, **arguments):
    torch.manual_seed(0)
    given = {
        "per_device_train_batch_size": 2,
        "num_train_epochs": epochs,
        "save_steps": 5,
        "logging_steps": 100,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
    } | arguments
    trainer = Worsening(
        Line(Config()),
        transformers.TrainingArguments(str(folder), **given),
        train_dataset=DATA,
        eval_dataset=DATA,
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def kept(folder) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*"))


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """The folder of a run with a limit of two, `out` in it."""
    folder = tmp_path_factory.mktemp("limited")
    run(folder / "out", save_total_limit=2)
    return folder


@pytest.fixture(scope="module")
def protected(tmp_path_factory):
    """The same with the best model to be loaded at the end."""
    folder = tmp_path_factory.mktemp("protected")
    run(folder / "out", save_total_limit=2, **BEST)
    return folder


@contextlib.contextmanager
def moved(folder):
    """Where `out` lies now, until it is moved back."""
    away = folder / "away"
    away.mkdir()
    shutil.move(folder / "out", away)
    try:
        yield away
    finally:
        shutil.move(away / "out", folder)
        away.rmdir()


def test_a_limit_alone_keeps_the_newest_and_deletes_the_best(limited):
    assert kept(limited / "out") == [15, 20]


def test_a_limit_of_two_with_best_model_keeps_both_the_best_and_the_newest(protected):
    assert kept(protected / "out") == [5, 20]


def test_a_limit_of_one_with_best_model_leaves_the_best_and_a_longer_run_goes_back_to_it(tmp_path):
    run(tmp_path, save_total_limit=1, **BEST)
    assert kept(tmp_path) == [5]
    assert transformers.trainer_utils.get_last_checkpoint(str(tmp_path)).endswith("checkpoint-5")


def test_save_strategy_best_writes_nothing_that_holds_later_progress(tmp_path):
    run(
        tmp_path,
        save_strategy="best",
        metric_for_best_model="loss",
        eval_strategy="steps",
        eval_steps=5,
    )
    assert kept(tmp_path) == [5]


def test_a_moved_folder_loses_the_protection_of_the_best_with_the_signature(
    protected, tmp_path, says, caplog
):
    pytest.importorskip("transformers", minversion="5.17")  # older ones say nothing
    logger = transformers.utils.logging.get_logger("transformers")
    logger.addHandler(caplog.handler)
    try:
        with moved(protected) as folder:
            shutil.copytree(folder / "out", tmp_path / "out")
            run(tmp_path / "out", resume=True, epochs=3, save_total_limit=2, **BEST)
    finally:
        logger.removeHandler(caplog.handler)
    says("C17", caplog.text)


def test_a_try_in_the_old_folder_deletes_its_start_and_one_of_its_own_leaves_the_copy(tmp_path):
    run(tmp_path / "out")
    assert kept(tmp_path / "out") == [5, 10, 15, 20]
    command = re.search(r"```bash\n(.*?) *#", bundle.load().get("C17").fix)[1]
    in_shell(command.replace("checkpoint-20", "checkpoint-10"), tmp_path)
    start = str(tmp_path / "good" / "checkpoint-10")
    run(tmp_path / "try1", resume=start, save_total_limit=1)
    assert kept(tmp_path / "try1") == [20] and kept(tmp_path / "good") == [10]
    run(tmp_path / "out", resume=str(tmp_path / "out" / "checkpoint-10"), save_total_limit=2)
    assert kept(tmp_path / "out") == [15, 20]


def test_where_times_are_alike_the_limit_deletes_the_new_save_and_keeps_the_later_bad_ones(
    tmp_path,
):
    rotate = pytest.importorskip("transformers.trainer_utils").rotate_checkpoints
    for number in (30, 40, 50):  # 30 is new, 40 and 50 are of the run before
        folder = tmp_path / f"checkpoint-{number}"
        folder.mkdir()
        os.utime(folder, (1e9, 1e9))
    rotate(str(tmp_path), save_total_limit=2, use_mtime=True)
    assert kept(tmp_path) == [40, 50]


def test_the_best_step_stands_in_trainer_state(protected):
    state = json.loads((protected / "out" / "checkpoint-20" / "trainer_state.json").read_text())
    assert state["best_model_checkpoint"].endswith("checkpoint-5") and state["global_step"] == 20


def test_the_check_finds_the_best_at_its_path_only_where_it_is_protected_and_not_moved(
    limited, protected
):
    def told(folder):
        """The last save, and the best: its path, or None."""
        *there, line = in_shell(span("C17", "grep best_model_checkpoint"), folder).splitlines()
        best = json.loads("{" + line.rstrip(",") + "}")["best_model_checkpoint"]
        return max(there, key=lambda name: int(name.split("-")[1])), best

    assert told(limited) == ("out/checkpoint-20", None)
    newest, best = told(protected)
    assert newest == "out/checkpoint-20" and os.path.isdir(best)
    with moved(protected) as folder:
        newest, best = told(folder)
        assert newest == "out/checkpoint-20" and not os.path.isdir(best)
