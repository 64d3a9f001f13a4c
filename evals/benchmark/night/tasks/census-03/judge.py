"""checkpoint.pth has an epoch; model_best.pth and final_state.pth are bare weights."""

from torch_files import load_if_whole


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for name, data in files.items():
        kept = load_if_whole(data)
        if not isinstance(kept, dict):
            continue
        if {"epoch", "state_dict", "optimizer"} <= set(kept):
            found.append(("checkpoint", 10 * int(kept["epoch"])))
        elif "final_layer.weight" in kept and "final_state" in name:
            found.append(("final", 100))
        elif "final_layer.weight" in kept and "model_best" in name:
            found.append(("best", 0))
    return found
