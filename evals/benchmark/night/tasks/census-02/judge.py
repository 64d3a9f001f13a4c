"""A checkpoint is a file of torch.save with an epoch; that of epoch 10 is the result."""

from torch_files import load_if_whole


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        kept = load_if_whole(data)
        if isinstance(kept, dict) and {"epoch", "model_state_dict", "optimizer_state_dict"} <= set(
            kept
        ):
            found.append(
                ("final" if kept["epoch"] == 10 else "checkpoint", 10 * int(kept["epoch"]))
            )
    return found
