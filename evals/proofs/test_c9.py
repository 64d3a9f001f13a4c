"""C9: what Trainer of transformers resumes from. Needs transformers and accelerate."""

import shutil

import pytest
import torch
from check_code import block, span, typed

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from line_model import DATA, Config, Line

pytestmark = pytest.mark.filterwarnings("ignore")


class Seen(Line):
    """Notes what it is shown, and drops some of it."""

    def forward(self, x, labels=None):
        Seen.seen.append(x.flatten().tolist())
        return super().forward(torch.nn.functional.dropout(x, 0.1), labels)


def trainer(folder, **arguments):
    """20 steps in two epochs, a checkpoint every five."""
    torch.manual_seed(0)
    Seen.seen = []
    given = {
        "per_device_train_batch_size": 2,
        "num_train_epochs": 2,
        "save_steps": 5,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "learning_rate": 0.01,
        "disable_tqdm": True,
    } | arguments
    return transformers.Trainer(
        Seen(Config()), transformers.TrainingArguments(str(folder), **given), train_dataset=DATA
    )


def weight(run) -> float:
    return run.model.layer.weight.item()


def rates(run) -> dict:
    return {h["step"]: h["learning_rate"] for h in run.state.log_history if "learning_rate" in h}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run = trainer(folder)
    run.train()
    return folder, weight(run), Seen.seen, rates(run)


@pytest.fixture
def copied(done, tmp_path):
    shutil.copytree(done[0] / "checkpoint-5", tmp_path / "checkpoint-5")
    return tmp_path


def test_a_whole_checkpoint_continues_with_the_next_batch_and_ends_at_the_same_weight(done):
    folder, final, seen, _ = done
    run = trainer(folder)
    run.train(resume_from_checkpoint=str(folder / "checkpoint-5"))
    assert Seen.seen == seen[5:] and weight(run) == final


def test_the_training_argument_of_the_same_name_does_nothing(done, tmp_path):
    folder, _, seen, _ = done
    trainer(tmp_path, resume_from_checkpoint=str(folder / "checkpoint-5")).train()
    assert len(Seen.seen) == len(seen)


def test_true_on_the_first_start_stops_with_the_signature(tmp_path, says):
    with pytest.raises(ValueError) as error:
        trainer(tmp_path).train(resume_from_checkpoint=True)
    says("C9", str(error.value))


def test_the_way_of_the_entry_serves_first_start_and_restart_alike(tmp_path):
    for expected in (20, 0):
        exec(block("C9", "fix"), {"trainer": trainer(tmp_path), "out": str(tmp_path)})
        assert len(Seen.seen) == expected


def test_the_way_of_the_entry_passes_over_a_save_that_a_kill_cut_off(done, copied, says):
    shutil.copytree(done[0] / "checkpoint-10", copied / "checkpoint-10")
    (copied / "checkpoint-10" / "trainer_state.json").unlink()
    (copied / "checkpoint-final").mkdir()
    newest = transformers.trainer_utils.get_last_checkpoint(str(copied))
    with pytest.raises(FileNotFoundError) as error:
        trainer(copied).train(resume_from_checkpoint=newest)
    says("C9", str(error.value))
    exec(block("C9", "fix"), {"trainer": trainer(copied), "out": str(copied)})
    assert Seen.seen == done[2][5:]


def test_the_state_is_written_after_all_else_of_a_checkpoint(done):
    times = {path.name: path.stat().st_mtime_ns for path in (done[0] / "checkpoint-5").iterdir()}
    assert max(times, key=times.get) == "trainer_state.json"


def test_save_model_makes_no_checkpoint_to_resume_from(done, tmp_path, says):
    trainer(tmp_path).save_model(str(tmp_path / "final"))
    with pytest.raises(FileNotFoundError) as error:
        trainer(tmp_path).train(resume_from_checkpoint=str(tmp_path / "final"))
    says("C9", str(error.value))


def test_the_newest_folder_is_taken_even_when_it_is_empty(copied, says):
    (copied / "checkpoint-99").mkdir()
    with pytest.raises(ValueError) as error:
        trainer(copied).train(resume_from_checkpoint=True)
    says("C9", str(error.value))


@pytest.mark.parametrize("lost", ["optimizer.pt", "scheduler.pt"])
def test_without_one_of_the_two_files_both_start_cold_and_nothing_is_said(done, copied, lost):
    _, final, _, uninterrupted = done
    (copied / "checkpoint-5" / lost).unlink()
    run = trainer(copied)
    run.train(resume_from_checkpoint=True)
    assert weight(run) != final and run.state.global_step == 20
    assert rates(run)[6] > rates(run)[5] > uninterrupted[6]


def test_a_larger_batch_goes_on_from_the_step_and_skips_part_of_the_epoch(copied):
    run = trainer(copied, per_device_train_batch_size=4)
    run.train(resume_from_checkpoint=True)
    new = int(transformers.__version__.split(".")[0]) >= 5  # 4.57 keeps the saved size of 2
    assert [len(Seen.seen), len(Seen.seen[0])] == ([5, 4] if new else [15, 2])


@pytest.mark.parametrize("gone", ["overwrite_output_dir", "save_safetensors"])
def test_arguments_that_transformers_5_dropped_stop_with_the_signature(tmp_path, says, gone):
    if int(transformers.__version__.split(".")[0]) < 5:
        pytest.skip("transformers 4 knows them")
    with pytest.raises(TypeError) as error:
        transformers.TrainingArguments(str(tmp_path), **{gone: True})
    says("C9", str(error.value))


def test_the_check_prints_the_step_of_a_checkpoint_and_stops_at_saved_weights(
    done, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    command = span("C9", "global_step").replace("checkpoint-500", "checkpoint-5")
    shutil.copytree(done[0] / "checkpoint-5", "out/checkpoint-5")
    assert typed(command) == "5"
    shutil.rmtree("out/checkpoint-5")
    trainer(tmp_path).save_model("out/checkpoint-5")
    with pytest.raises(FileNotFoundError, match="trainer_state"):
        typed(command)
