"""A checkpoint is a file of torch.save with a step; that of step 90 is the result."""

from torch_files import load_if_whole


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        kept = load_if_whole(data)
        if isinstance(kept, dict) and {"step", "model_state_dict", "optimizer_state"} <= set(kept):
            found.append(("final" if kept["step"] == 90 else "checkpoint", int(kept["step"])))
    return found
