"""What a rehearsal tells of the cards' memory, with recorded answers of nvidia-smi and of torch's counters.

Nothing here has run on a GPU.
"""

import json
import os
import sys

import pytest
from remote_gpu_trainer.runner import card_memory

from tests.conftest import module
from tests.runner.box import Box
from tests.runner.test_rehearsal import make

pytest_plugins = ["tests.runner.box"]

# As an H100 answers: its number, and the MiB in use, in the gaps.
CARD = "{}, GPU-5a3f, NVIDIA H100 80GB HBM3, {}, 81559"
TRAIN = """
import os, pathlib, sys, time
import torch
from torch import nn
if "{card}":  # what a card's allocator would count
    peaks = iter([1.0, 3.0, 2.0] + [2.5] * 10000)
    torch.cuda.is_initialized = torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.is_current_stream_capturing = lambda: False
    counted = lambda peak: {{"allocated_bytes.all.peak": int(peak * 2**30), "reserved_bytes.all.peak": int((peak + 1) * 2**30)}}
    torch.cuda.memory_stats = lambda card: counted(next(peaks))
    class Card:
        name, total_memory, uuid = "NVIDIA H100 80GB HBM3", 80 * 2**30, "5a3f"
    torch.cuda.get_device_properties = lambda card: Card
folder = pathlib.Path(os.environ["RGT_CHECKPOINT_DIR"])
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters())
for path in folder.glob("step-*.pt"): torch.load(path)
(pathlib.Path(__file__).parent / "trains").write_text("")
for step in range(1, 60):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8 + step % 2, 4)), torch.randint(3, (8 + step % 2,))).backward()
    optimizer.step()
    print("step", step, flush=True)
    if step % 10 == 0:
        torch.save(model.state_dict(), folder / "new"), os.replace(folder / "new", folder / f"step-{{step}}.pt")
    time.sleep(0.1)
"""


@pytest.fixture
def trainer(box: Box, monkeypatch):
    """A program that trains, and, with `smi`, a card that shows more once it does."""
    module("torch", "pip install -e '.[proofs]'")

    def with_smi(card: bool) -> Box:
        (box.folder / "train.py").write_text(TRAIN.format(card="yes" if card else ""))
        command = [sys.executable, str(box.folder / "train.py")]
        tools = box.folder / "tools"
        tools.mkdir()
        if card:
            lines = f"if [ -e {box.folder}/trains ]; then used=5120; else used=512; fi\n"
            lines += (
                'case "$*" in *name,memory.used*) echo "' + CARD.format(0, "$used") + '"\necho "'
            )
            lines += CARD.format(1, 3) + '" ;; *compute-apps*) ;; *index,uuid*) '
            lines += "echo '0, GPU-5a3f, 3, 81559' ;; esac\n"
            (tools / "nvidia-smi").write_text("#!/bin/sh\n" + lines)
            (tools / "nvidia-smi").chmod(0o755)
        box.env["PATH"] = f"{tools}:{os.environ['PATH']}"
        return make(
            box, command=command, results=[], rendered={"probe": True}, rehearsal={"minutes": 3.0}
        )

    return with_smi


def test_a_rehearsal_tells_what_cards_showed_and_what_torch_counted(trainer):
    box = trainer(card=True)
    done = box.verb("rehearse", "--memory", timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr + box.log()
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("ok memory"))
    assert lines[at] == (
        "ok memory: GPU 0 (NVIDIA H100 80GB HBM3) showed at most 5.0 of 79.6 GiB, 0.5 of it before"
        " the program; 74.6 GiB are left"
    )
    torch = "  rank 0, its card 0: tensors took 3.0 GiB at most, torch's allocator kept 4.0"
    assert lines[at + 1] == torch, "the most, though the program's counter fell"
    assert lines[at + 2].startswith(
        "  not reached, and not in these numbers: an evaluation; a sample larger than 9x4"
    )
    assert "ok resume" not in done.stdout, "for its memory a program starts once"
    told = json.loads((box.run_dir / "rehearsal/log/memory.json").read_text())
    [process] = told["processes"]
    assert process["model"]["class"] == "Sequential" and process["model"]["optimizer"] == "AdamW"
    assert process["model"]["trained"] == 4 * 8 + 8 + 8 * 3 + 3


def test_without_a_card_a_rehearsal_says_that_it_cannot_measure(trainer):
    box = trainer(card=False)
    done = box.verb("rehearse", "--memory", timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr + box.log()
    [line] = [line for line in done.stdout.splitlines() if " memory: " in line]
    assert line.startswith("unsure memory: not measured: nvidia-smi ") and "--on BOX" in line
    assert "GiB" not in line


def test_a_program_that_dies_for_want_of_memory_needs_more_than_was_seen(trainer):
    box = trainer(card=True)
    path = box.folder / "train.py"
    died = "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')"
    path.write_text(path.read_text().replace("    optimizer.step()\n", f"    optimizer.step()\n    if step == 5: time.sleep(3); {died}\n"))  # fmt: skip
    done = box.verb("rehearse", timeout=150)
    assert done.returncode == 1 and "ok memory: GPU 0" in done.stdout
    assert "  the program died for want of memory, so it needs more" in done.stdout
    told = json.loads((box.run_dir / "rehearsal/log/memory.json").read_text())
    assert told["died"] and told["has_failed"]


def test_an_answer_without_numbers_is_no_card():
    said = "0, GPU-1, NVIDIA H100, 10, 81559\n1, GPU-2, NVIDIA GB10, [N/A], [N/A]\nfailed\n"
    assert card_memory.read_cards(said) == {0: card_memory.Shown("GPU-1", "NVIDIA H100", 10, 81559)}


def test_a_rank_that_started_twice_has_the_most_of_both(tmp_path):
    def write(pid: int, rank: int, steps: int, allocated: int) -> None:
        card = {"index": 0, "name": "H100", "allocated": allocated, "reserved": 2 * allocated}
        told = {"rank": rank, "pid": pid, "steps": steps, "cards": [card], "evaluated": pid == 1}
        (tmp_path / f"memory-{pid}.json").write_text(json.dumps(told))

    write(1, 0, 4, 100)
    write(2, 0, 9, 70)
    write(3, 1, 9, 80)
    (tmp_path / "memory-4.json").write_text('{"rank": 0, "steps": 0, "cards": []}')  # a loader
    (tmp_path / "memory-5.json").write_text("{")
    first, second = card_memory.read_processes(str(tmp_path))
    assert first["cards"][0]["allocated"] == 100 and first["steps"] == 9 and first["evaluated"]
    assert second["cards"][0]["reserved"] == 160
