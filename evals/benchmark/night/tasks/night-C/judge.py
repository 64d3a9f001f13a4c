"""A checkpoint is a folder whose shards all match its index.json."""

import hashlib
import json


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    try:
        index, state = json.loads(files["index.json"]), json.loads(files["state.json"])
        whole = len(index) == 4 and all(
            hashlib.sha256(files[n]).hexdigest() == h for n, h in index.items()
        )
        return [("final" if state["final"] else "checkpoint", int(state["step"]))] if whole else []
    except (KeyError, ValueError, TypeError, AttributeError):
        return []
