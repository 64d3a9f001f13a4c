"""Error texts of a real card: each from a short program in a process of its own.

A program of `programs/` stands here with the entries that explain what it prints. The whole
standard error is kept. Where the package can be imported, the look-up is asked for each text, as if
somebody had pasted it.
"""

import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from apart import anonymous, run, shown
from machine import NO_TIME, NO_TORCH, missing

PROGRAMS = Path(__file__).resolve().parent / "programs"
EACH = 45  # seconds for one program; those that compile need most of it
SOUND = None  # the program must end well
NO_ENTRY = ()  # nothing explains it yet: no match may then be sure

# name of the program -> the entries of which one must come first
ON_A_CARD = {
    "nccl_of_one_rank": SOUND,
    "memory_of_one_request": ("U10", "M8"),
    "memory_filled_by_training": ("U10", "M8"),
    "memory_of_a_share": ("U10", "M8"),
    "index_outside_the_table": ("L14", "O14"),
    "label_outside_the_classes": ("O14", "L14"),
    "label_outside_the_classes_blocking": ("O14", "L14"),
    "illegal_address": ("CMP10",),
    "triton_illegal_address": ("CMP4", "CMP10"),
    "triton_shared_memory": ("CMP7",),
    "nccl_two_ranks_one_card": ("D3",),
    "nccl_no_interface": ("D34",),
    "nccl_without_launcher": ("D1",),
    "two_devices": ("O27",),
    "input_on_the_host": ("O27",),
    "numpy_of_a_card": ("O33",),
    "card_that_is_not_there": ("D3",),
    "cublas_without_memory": ("U49", "U10", "M8"),
    "cudnn_without_memory": ("ENV24", "U10", "M8"),
    "forked_after_start": ("DP18",),
    "pinned_twice": ("DP5",),
    "scaler_of_bf16": ("P6",),
    "scaler_of_fp16_weights": ("P4",),
    "two_types": ("P4",),
    "graph_output_overwritten": ("CMP5",),
    "graph_with_item": ("CMP11",),
}
ANYWHERE = {
    "checkpoint_of_another_card": ("C20",),
    "card_hidden": ("ENV22", "ENV13"),
}
EXTRA = {
    "label_outside_the_classes_blocking": {"CUDA_LAUNCH_BLOCKING": "1"},
    "card_hidden": {"CUDA_VISIBLE_DEVICES": ""},
    "nccl_of_one_rank": {"NCCL_DEBUG": "INFO"},
    "nccl_no_interface": {"NCCL_SOCKET_IFNAME": "=nosuch0", "NCCL_DEBUG": "WARN"},
    "nccl_two_ranks_one_card": {"NCCL_DEBUG": "WARN"},
}
COMPILED = ("triton_illegal_address", "triton_shared_memory", "graph_output_overwritten")
NO_TRITON = "not run: triton is not installed"
# These fill the card, so nothing else may run beside them.
ALONE = ("memory_filled_by_training", "cublas_without_memory", "cudnn_without_memory")
SAME_PROGRAM = {"label_outside_the_classes_blocking": "label_outside_the_classes"}


def run_program(name, env, seconds):
    """Run one program in an empty folder and return its row of the record, not looked up yet."""
    place = PROGRAMS / f"{SAME_PROGRAM.get(name, name)}.py"
    with tempfile.TemporaryDirectory() as folder:
        done = run([sys.executable, place], dict(env, **EXTRA.get(name, {})), seconds, cwd=folder)
    for text in ("stdout", "stderr"):
        done[text] = done[text].replace(anonymous(str(PROGRAMS)), "/home/me")
    return dict(done, name=name)


def looked_up(texts, env, seconds):
    """Return the look-up's matches for each text, and why there are none, "" where there are."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "texts.json"
        place.write_text(json.dumps(texts), encoding="utf-8")
        command = [sys.executable, Path(__file__).with_name("look_up.py"), place]
        done = run(command, env, seconds)
    try:
        return json.loads(done["stdout"].strip().splitlines()[-1]), ""
    except (ValueError, IndexError):
        reason = (done["stderr"].strip().splitlines() or ["no answer in time"])[-1]
        return [None] * len(texts), f"not run: the look-up can't be asked here: {shown(reason)}"


def row_of(name, expect, env, clock):
    """Return the row of one program, or None where no time is left for it."""
    if clock.left() < 25:
        return None
    row = run_program(name, env, min(EACH, clock.left() - 15))
    return dict(row, expect=None if expect is SOUND else list(expect))


def run_part(root, env, box, clock):
    """Return the part's results: a row for each program, with what was looked up."""
    why = missing(box)
    programs = {} if why == NO_TORCH else dict(ANYWHERE)
    if not why:
        programs.update(ON_A_CARD)
    not_run = {name: why for name in [*ANYWHERE, *ON_A_CARD] if name not in programs}
    for name in COMPILED:
        if name in programs and not box["versions"].get("triton"):
            del programs[name]
            not_run[name] = NO_TRITON

    def row(name):
        return row_of(name, programs[name], env, clock)

    alone = [name for name in programs if name in ALONE]
    beside = [name for name in programs if name not in ALONE]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        rows = dict(zip(beside, pool.map(row, beside)))
    rows.update({name: row(name) for name in alone})
    not_run.update({name: NO_TIME for name, found in rows.items() if found is None})
    results = [rows[name] for name in programs if rows[name]]
    asked = [failed for failed in results if failed["rc"] != 0 and failed["stderr"].strip()]
    answers, reason = looked_up([failed["stderr"] for failed in asked], env, max(10, clock.left()))
    for failed, matches in zip(asked, answers):
        failed["matches"] = matches
    if reason and asked:
        not_run["look-up"] = reason
    return {"results": results, "not_run": not_run}
