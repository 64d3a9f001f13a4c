"""A checkpoint is the HF Trainer's folder; the result has an adapter and its evaluation."""

import json

from torch_files import load

STEPS = 60


def whole(data):
    """Say whether a safetensors file is whole."""
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    head.pop("__metadata__", None)
    return (
        len(head) > 20 and max(t["data_offsets"][1] for t in head.values()) == len(data) - 8 - size
    )


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    try:
        assert (
            whole(files["adapter_model.safetensors"])
            and json.loads(files["adapter_config.json"])["r"]
        )
    except Exception:
        return found
    try:
        report = json.loads(files["eval_results.json"])
        if report["global_step"] == STEPS and report["eval_loss"]:
            found.append(("final", STEPS))
    except Exception:
        pass
    try:
        assert load(files["optimizer.pt"])["state"] and load(files["scheduler.pt"])
        found.append(("checkpoint", int(json.loads(files["trainer_state.json"])["global_step"])))
    except Exception:
        pass
    return found
