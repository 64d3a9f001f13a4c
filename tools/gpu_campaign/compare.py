"""What `rgt fit` reckons of eight kinds of runs, what `--measure` tells of them, and nvidia-smi.

Not among the parts that run by themselves: it takes up to seven minutes.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from apart import run
from machine import missing

PROGRAM = Path(__file__).with_name("memory_of_a_kind.py")
LLAMA, QWEN = "meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-0.5B"
# What each kind asks of `rgt fit`: the model's name, and the run.
USUAL = {"batch": 4, "sequence": 1024}
KINDS = {
    "full": (QWEN, {**USUAL, "precision": "bf16-mixed"}),
    "lora": (LLAMA, {**USUAL, "precision": "bf16", "lora": 16}),
    "lora-checkpointing": (
        LLAMA,
        {**USUAL, "precision": "bf16", "lora": 16, "checkpointing": True},
    ),
    "8bit": (LLAMA, {**USUAL, "precision": "8bit", "lora": 16, "checkpointing": True}),
    "liger": (LLAMA, {**USUAL, "precision": "bf16", "liger": True}),
    "dpo": (QWEN, {"batch": 2, "sequence": 1024, "precision": "bf16", "dpo": True}),
    "unet": (
        "stable-diffusion-v1-5/stable-diffusion-v1-5",
        {"batch": 2, "precision": "bf16-mixed"},
    ),
    "vit": ("google/vit-base-patch16-224", {"batch": 64, "precision": "bf16-mixed"}),
}

NEEDS = {"lora": "peft", "lora-checkpointing": "peft", "8bit": "bitsandbytes"}
NEEDS.update(liger="liger_kernel", unet="diffusers")
ALL_NEED = ("torch", "transformers", "click")
SECONDS = 75  # for one kind: a start, four steps and a save
EVERY = 0.3  # seconds between two looks at the card


def reckoned(name, asked):
    """Return what fit reckons of a run, in GiB."""
    from remote_gpu_trainer.runs.fit_report import Asked, reckon

    report = reckon(Asked(name, {}), None, {"sequence": None, **asked})
    return {key: report[key] for key in ("need_gib", "peak_gib", "least_gib", "most_gib", "moment")}


class Watch:
    """The most memory that nvidia-smi showed while it watched, and before, in MiB."""

    def __init__(self, look=None):
        self.look, self.stopped = look or used, threading.Event()
        self.before = self.most = self.look()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self.stopped.wait(EVERY):
            self.most = max(self.most, self.look())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def used():
    """Return the memory in use on the first card by nvidia-smi, in MiB; 0 where it says nothing."""
    words = ["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
        return int(done.stdout.split()[0])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return 0


def run_part(root, env, box, clock):
    """Return the part's results: a row for each kind."""
    why = missing(box)
    if why:
        return {"results": [], "not_run": {"compare": why}}
    results, not_run = [], {}
    for kind, (name, asked) in KINDS.items():
        wanted = [*ALL_NEED, NEEDS.get(kind, "torch")]
        absent = [module for module in wanted if importlib.util.find_spec(module) is None]
        if absent or clock.left() < SECONDS / 3:
            not_run[kind] = f"not run: no {absent[0]}" if absent else "not run: no time was left"
            continue
        results.append(one(kind, name, asked, env, clock))
    return {"results": results, "not_run": not_run}


def one(kind, name, asked, env, clock):
    """Return the row of a kind."""
    row = {"run": kind, "model": name, "asked": asked, "reckoned": reckoned(name, asked)}
    with tempfile.TemporaryDirectory() as folder, Watch() as watch:
        told = Path(folder) / "told"
        words = [sys.executable, "-m", "remote_gpu_trainer", "fit", "--measure", "--"]
        words += [sys.executable, PROGRAM, kind]
        inside = {**env, "MEMORY_TOLD": str(told), "MEMORY_SAVED": f"{folder}/checkpoint.pt"}
        done = run(words, inside, min(SECONDS, clock.left()), cwd=folder, most=4000)
        lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    row["allocator"] = json.loads(lines[-1]) if lines else None
    row["nvidia_smi_mib"] = {"before": watch.before, "most": watch.most}
    row["measured"] = {key: done[key] for key in ("rc", "seconds", "timed_out", "stdout", "stderr")}
    return row
