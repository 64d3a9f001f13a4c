"""A checkpoint is a pair G_N.pth and D_N.pth of one step, each what torch.save wrote."""

from torch_files import load

STEPS, EPOCHS = 100, 25


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found, pairs = [], {}
    for data in files.values():
        try:
            if data[:2] == b"PK":
                state = load(data)
                half = "G" if "emb.weight" in state["model"] else "D"
                assert state["optimizer"]["state"] and state["model"]
                pairs.setdefault(int(state["iteration"]), set()).add(half)
            elif f"====> Epoch: {EPOCHS}\n".encode() in data and b"\tINFO\t" in data:
                found.append(("log", 0))
        except Exception:
            continue
    for iteration, halves in pairs.items():  # N is saved after the batch of number N + 1
        if len(halves) == 2:
            found.append(("final" if iteration + 1 == STEPS else "checkpoint", iteration + 1))
    return found
