"""C3: the same command, started again, has to go on by itself."""

import re
from pathlib import Path

import pytest
import torch
from check_code import block, in_shell, span
from remote_gpu_trainer.catalogue import bundle


def newest(folder: Path, *arguments: str) -> Path | None:
    """What the Fix chooses."""
    names: dict = {}
    exec(block("C3", "fix"), names)
    chosen = names["newest"](folder, *arguments)
    return chosen and Path(chosen)


def run(folder: Path, until: int, dies_at: int | None = None) -> list[int]:
    """The whole training script: returns the steps that this start did."""
    latest = newest(folder)
    step = torch.load(latest)["step"] if latest else 0
    done = []
    while step < until:
        if step == dies_at:
            return done
        step += 1
        done.append(step)
        if step % 5 == 0:
            torch.save({"step": step}, folder / f"step_{step}.pt")
    return done


def test_the_same_command_starts_fresh_the_first_time_and_goes_on_afterwards(tmp_path):
    assert run(tmp_path, until=20, dies_at=12) == list(range(1, 13))
    assert run(tmp_path, until=20) == list(range(11, 21))
    assert run(tmp_path, until=20) == []


def test_sorting_names_as_text_resumes_from_an_old_checkpoint(tmp_path):
    for step in (100, 900, 1000):
        torch.save({"step": step}, tmp_path / f"step_{step}.pt")
    assert max(path.name for path in tmp_path.glob("step_*.pt")) == "step_900.pt"
    assert newest(tmp_path).name == "step_1000.pt"


def test_a_half_written_file_is_passed_over(tmp_path):
    torch.save({"step": 100}, tmp_path / "step_100.pt")
    (tmp_path / "step_200.pt.tmp").write_bytes(b"half")
    assert newest(tmp_path).name == "step_100.pt"


def test_of_trainers_folders_the_newest_that_was_written_to_the_end_is_chosen(tmp_path):
    told = re.search(r"newest\(out, r\"(.+?)\", \"(.+?)\"\)", bundle.load().get("C3").fix)
    assert newest(tmp_path / "out", *told.groups()) is None
    for name in ("checkpoint-500", "checkpoint-1000", "checkpoint-best", "checkpoint-1200.old"):
        (tmp_path / "out" / name).mkdir(parents=True)
        (tmp_path / "out" / name / "trainer_state.json").write_text("{}")
    (tmp_path / "out" / "checkpoint-1100").mkdir()  # killed during the save
    assert newest(tmp_path / "out", *told.groups()).name == "checkpoint-1000"


@pytest.mark.parametrize("chosen_by", ["name", "number"])
def test_the_check_names_another_path_only_where_names_are_sorted_as_text(tmp_path, chosen_by):
    folder = tmp_path / "ckpt"
    folder.mkdir()
    for step in (100, 900, 1000):
        torch.save({"step": step}, folder / f"step_{step}.pt")
    (folder / "step_1100.pt.tmp").write_bytes(b"half")
    text = max(folder.glob("step_*.pt"), key=lambda path: path.name)
    loaded = newest(folder) if chosen_by == "number" else text
    told = in_shell(span("C3", "sort -V"), tmp_path)
    assert (tmp_path / told == loaded) == (chosen_by == "number")
