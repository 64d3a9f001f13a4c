"""A checkpoint is accelerate's folder; results are the LoRA of step 100 and validation.json."""

import json

from torch_files import load

STEPS = 100


def lora_step(data):
    """Return the step of a safetensors file with LoRA weights; raise an error unless it's whole."""
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    about = json.loads(head.pop("__metadata__")["lora_adapter_metadata"])
    if not head or max(t["data_offsets"][1] for t in head.values()) != len(data) - 8 - size:
        raise ValueError("damaged")
    return int(about["global_step"])


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found, weights = [], []
    for name, data in files.items():
        try:
            if name.endswith(".safetensors"):
                weights.append(lora_step(data))
            elif data[:1] == b"{":
                report = json.loads(data)
                if report["global_step"] == STEPS and len(report["images"]) == 4:
                    found.append(("validation", 0))
        except Exception:
            continue
    if STEPS in weights:
        found.append(("final", STEPS))
    try:
        assert load(files["optimizer.bin"])["state"] and load(files["random_states_0.pkl"])
        step = int(load(files["scheduler.bin"])["last_epoch"])
        if step in weights:
            found.append(("checkpoint", step))
    except Exception:
        pass
    return found
