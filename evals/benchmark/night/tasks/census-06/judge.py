"""A checkpoint is a Lightning .ckpt with global_step; that of step 100 is the result."""

from torch_files import load_if_whole


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        kept = load_if_whole(data)
        if isinstance(kept, dict) and {
            "global_step",
            "state_dict",
            "optimizer_states",
            "loops",
        } <= set(kept):
            found.append(
                ("final" if kept["global_step"] == 100 else "checkpoint", int(kept["global_step"]))
            )
    return found
