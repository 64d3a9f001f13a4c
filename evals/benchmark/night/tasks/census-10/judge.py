"""A checkpoint is what torch.save wrote of weights, optimizer and step."""

from torch_files import load

STEPS = 90


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        try:
            state = load(data)
            assert state["model_state_dict"] and state["optimizer_state"]["state"]
            step = int(state["step"])
            found.append(("final" if step == STEPS else "checkpoint", step))
        except Exception:
            continue
    return found
