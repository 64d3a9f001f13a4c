"""A checkpoint holds weights, optimizer and epoch; final_state.pt and best.pt hold weights alone.

How many iterations weights have been trained for is told by their batch norms, which count them.
"""

from torch_files import load, read_storage

STEPS, ITERS = 100, 4


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        try:
            state = load(data)
            if "epoch" in state:
                assert state["optimizer"]["state"] and state["state_dict"]
                found.append(("checkpoint", int(state["epoch"]) * ITERS))
                continue
            # a tensor is rebuilt from (storage, offset, size, ...), a storage is (_, _, key, ...)
            key = state["model.stem.0.1.num_batches_tracked"].args[0].args[2]
            number = int.from_bytes(read_storage(data, key), "little")
            if number == STEPS:
                found.append(("final", STEPS))
            elif number % (5 * ITERS) == ITERS:  # saved after a validation
                found.append(("best", 0))
        except Exception:
            continue
    return found
