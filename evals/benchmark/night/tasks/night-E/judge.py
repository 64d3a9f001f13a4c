"""The results are a final.pt of all 24 parts, and a report.json with all 12 answers."""

import io
import json
import zipfile


def look(files):
    """Return what lies whole in a folder's files, as (what, step)."""
    found = []
    for data in files.values():
        try:
            if data[:2] == b"PK":
                with zipfile.ZipFile(io.BytesIO(data)) as z:
                    meta = json.loads(z.read("meta.json"))
                    if len(z.read("weights.bin")) == 40000 and meta["parts"] == 24:
                        found.append(
                            ("final" if meta["final"] else "checkpoint", int(meta["step"]))
                        )
            elif data[:1] == b"{":
                report = json.loads(data)
                if len(report["answers"]) == 12 and report["score"]:
                    found.append(("report", 0))
        except Exception:
            continue
    return found
