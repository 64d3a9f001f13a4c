"""A checkpoint is a zip with meta.json and 40,000 bytes of weights."""

import io
import json
import zipfile


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as z:
                meta = json.loads(z.read("meta.json"))
                if len(z.read("weights.bin")) == 40000:
                    found.append(("final" if meta["final"] else "checkpoint", int(meta["step"])))
        except Exception:
            continue
    return found
