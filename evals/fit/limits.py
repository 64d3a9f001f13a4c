"""Training runs on a GPU whose memory is limited: the least in which each survives.

    PYTHONPATH=server:tools/gpu_campaign python evals/fit/limits.py SECONDS > rows.jsonl

The runs are those of tools/gpu_campaign/fit_models.py as they are, then with layers, widths and
batches drawn by chance, with a fixed seed, until the seconds are over. Each is run with all of the
card, then with its own peak as the limit of torch's allocator, then with more and more. A row has
the bytes of the peak, and the shares of it in which the run last died and first survived;
tests/records/fit_limits.json has them in bytes, with `rgt fit`'s words for the optimizer.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time

import fit_models
import torch

SEED, ROUNDS, STEPS = 7, 4, 2
SHARES = (1, 1.02, 1.04, 1.06, 1.08, 1.1, 1.13, 1.16, 1.2, 1.3, 1.5)
WIDTHS = (
    "hidden_size", "n_embd", "intermediate_size", "num_attention_heads", "n_head",
    "num_key_value_heads",
)  # fmt: skip
DEPTHS = ("num_hidden_layers", "n_layer")


def drawn():
    """Yield the runs: name, kind, fields of its config, what `rgt fit` is asked, and the factors."""
    dice = random.Random(SEED)
    for place in range(ROUNDS):
        for name, (kind, values, asked) in fit_models.RUNS.items():
            values, asked = dict(values), dict(asked)
            wide, deep = dice.choice((1, 1, 2)), dice.choice((1, 2, 3))
            many = dice.choice((1, 2, 3, 4))
            if place == 0:
                wide = deep = many = 1
            values |= {field: values[field] * wide for field in WIDTHS if field in values}
            values |= {field: values[field] * deep for field in DEPTHS if field in values}
            asked["batch"] *= many
            yield f"{place} {name}", kind, values, asked, [wide, deep, many]


def survives(kind, values, asked, share: float) -> bool:
    """Return whether a run ends without running out of memory in this share of the card."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_per_process_memory_fraction(min(1.0, share))
    try:
        model = fit_models.model_for(kind, values, asked, "cuda")
        fit_models.train(model, values, asked, "cuda", STEPS)
        torch.cuda.synchronize()
    except torch.OutOfMemoryError:
        return False
    return True


def measured(kind, values, asked, before: int) -> dict:
    """Return what a run takes, and the shares of its peak in which it dies and survives."""
    total = torch.cuda.get_device_properties(0).total_memory
    survives(kind, values, asked, 1.0)
    peak = torch.cuda.max_memory_allocated() - before
    told = {"peak": peak, "reserved": torch.cuda.max_memory_reserved(), "dies": 0, "survives": 0}
    for share in SHARES:
        if survives(kind, values, asked, (peak * share + before) / total):
            return {**told, "survives": share}
        told["dies"] = share
    return told


def main():
    """Print a line about the card, then one for each run."""
    began, seconds = time.monotonic(), float(sys.argv[1])
    fit_models.warm_up()
    before = torch.cuda.memory_allocated()
    free, shown = torch.cuda.mem_get_info()
    about = {
        "gpu": torch.cuda.get_device_name(0),
        "total": torch.cuda.get_device_properties(0).total_memory,
        "context": shown - free - torch.cuda.memory_reserved(),
        "before": before,
        "torch": torch.__version__,
    }
    print(json.dumps(about), flush=True)
    for name, kind, values, asked, scaled in drawn():
        if time.monotonic() - began > seconds:
            return
        row = {"run": name, "kind": kind, "values": values, "asked": asked, "scaled": scaled}
        try:
            row |= measured(kind, values, asked, before)
        except Exception as error:  # the other runs still have something to tell
            row["error"] = str(error)[:150]
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
