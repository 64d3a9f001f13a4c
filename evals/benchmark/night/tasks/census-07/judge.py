"""An agent is what torch.save wrote of a DAgent; rewards and temperatures are pickled lists."""

from torch_files import Reader, load

EPISODES, DECISIONS = 110, 12


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        try:
            if data[:2] == b"PK":
                step = load(data).state["steps_done"] // DECISIONS
                found.append(("final" if step == EPISODES else "checkpoint", step))
                continue
            rows = Reader(data).load()
            if len(rows) == EPISODES + 1 and rows[-1]["NUM_EPISODES"] == EPISODES:
                found.append(("temperatures" if isinstance(rows[0], list) else "rewards", 0))
        except Exception:
            continue
    return found
