"""A checkpoint is a line with step and sha256, then the state."""

import hashlib


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        try:
            head, state = data.split(b"\n", 1)
            step, digest = head.decode().split()
            if len(state) == 2_000_000 and hashlib.sha256(state).hexdigest() == digest:
                found.append(("final" if int(step) == 120 else "checkpoint", int(step)))
        except ValueError:
            continue
    return found
