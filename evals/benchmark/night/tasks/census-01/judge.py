"""A checkpoint is a file of torch.save with iter_num; at 50 a variant is finished."""

from torch_files import load_if_whole

VARIANTS = {"learned": 0, "sinusoidal": 51}  # steps before the variant's first


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        kept = load_if_whole(data)
        if isinstance(kept, dict) and {"model", "optimizer", "model_args", "iter_num"} <= set(kept):
            variant = kept["model_args"]["embedding_type"]
            done = kept["iter_num"] == 50
            found.append((variant if done else "checkpoint", VARIANTS[variant] + kept["iter_num"]))
    return found
