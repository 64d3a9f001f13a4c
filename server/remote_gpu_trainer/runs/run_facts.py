"""Runs on a box: tell what runs there were given and what came out, each cell of a queue as a run.

It is sent to the box's Python with the runner's reader of processes and the reader of numbers. It
reads the files of a run, and changes nothing. What a run didn't leave is None.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time

from ..readings.line import MOST, read
from ..readings.named_numbers import named_numbers, unwrap
from ..readings.names import words_of
from ..runner import procs
from ..runner.folder import Folder
from .sent_job import job_in

NEAR = 8 << 20  # bytes at the end of a log file in which the metric is looked for
POINTS = 200  # rows of a series
HANDS = ("runner", "train")


def main(words):
    """Print {"jobs", "rows"} as JSON. Words: what is wanted as JSON, and a name or folder a run.

    A row's `job` is the number of its job in `jobs`.
    """
    wanted, jobs, rows = json.loads(words[0]), [], []
    for name in words[1:]:
        found = rows_of(name, wanted, jobs)
        rows += [{**row, "asked": name} for row in found]
    sys.stdout.write(json.dumps({"jobs": jobs, "rows": rows}) + "\n")
    return 0


def rows_of(name, wanted, jobs):
    """Return the rows of a run, of each cell of a queue, or one that says why there is none.

    `wanted`: the `metric`, which '' leaves to the job, and whether the `series` is. `jobs` gets the
    job."""
    path, cell = find(name)
    if not path:
        return [{"why": "no run is there"}]
    sent = job_in(path)
    job = sent.get("job")
    if not isinstance(job, dict):
        return [{"why": "its job can't be read"}]
    jobs.append(sent)
    cells = (job.get("queue") or {}).get("cells") or []
    if cell:
        cells = [one for one in cells if one["name"] == cell]
    metric = wanted["metric"] or str(job.get("metric") or "")
    parts = [(one, Folder(os.path.join(path, "cells", one["name"]))) for one in cells]
    rows = []
    for one, folder in parts or [(None, Folder(path))]:
        row = row_of(folder, metric, wanted["series"])
        row["folder"], row["job"] = path, len(jobs) - 1
        row["cell"] = one["name"] if one else ""
        row["arguments"] = one["arguments"] if one else []
        rows.append(row)
    return rows


def find(name):
    """Return the folder of a run by its name or folder, and its cell, '' for none; '' for no run.

    A cell is RUN/CELL, or its own folder.
    """
    path = os.path.expanduser(name)
    if not os.path.isabs(path):
        path = os.path.expanduser(os.path.join("~", "runs", name))
    for above, cell in ((path, ""), _cell_of(path)):
        if os.path.isfile(os.path.join(above, "run.sh")) and job_in(above):
            return os.path.realpath(above), cell
    return "", ""


def _cell_of(path):
    above, cell = os.path.split(path.rstrip("/"))
    return (os.path.dirname(above) if os.path.basename(above) == "cells" else above), cell


def row_of(folder, metric, has_series):
    """Return what a run came to. `metric`: the name of the number that counts, '' for none."""
    state, events = folder.json("state.json"), _timed(folder.rows("events.jsonl"))
    series = _timed(folder.rows("series.jsonl"))
    alive = any(procs.alive(folder, hand) for hand in HANDS)
    end = "" if alive else folder.ended()
    attempts = {event.get("attempt") for event in events if event.get("event") == "attempt"}
    reading = state.get("reading") if isinstance(state.get("reading"), dict) else {}
    found = {
        "end": end,
        "marker": folder.json("." + end) if end else {},
        "alive": alive,
        "began": bool(attempts),
        "attempts": len(attempts),
        "seconds": seconds_of(events, time.time() if alive else None),
        "step": reading.get("step", state.get("step")),
        "total": reading.get("total"),
        "numbers": reading.get("newest"),
        "rate": rate_of(series),
        "metric": read_metric(folder, metric) if metric else None,
        "metric_name": metric,
        "gpu": state.get("gpu"),
        "versions": versions_of(folder),
    }
    if has_series:
        found["series"] = thinned(series)
    return found


def _timed(rows):
    return [row for row in rows if isinstance(row.get("t"), (int, float))]


def seconds_of(events, now):
    """Return how long the runner was there: from each start to the last event before the next one.

    `now`: seconds since 1970, of a run that lives.
    """
    spans = []
    for event in events:
        if event.get("event") == "start":
            spans.append([event["t"], event["t"]])
        elif spans:
            spans[-1][1] = max(spans[-1][1], event["t"])
    if spans and now is not None:
        spans[-1][1] = max(spans[-1][1], now)
    return sum(end - begin for begin, end in spans) if spans else None


def rate_of(series):
    """Return steps a second from the first row with a step of the newest attempt to the last one
    that moved, None where two rows don't tell it."""
    rows = [row for row in series if isinstance(row.get("step"), int)]
    rows = [row for row in rows if row.get("attempt") == rows[-1].get("attempt")]
    if not rows:
        return None
    last = next(row for row in rows if row["step"] == rows[-1]["step"])
    seconds, steps = last["t"] - rows[0]["t"], last["step"] - rows[0]["step"]
    return steps / seconds if seconds > 0 and steps > 0 else None


def versions_of(folder):
    """Return {package: version} as the probe saw them in the program, None where it saw none."""
    for fact in folder.json("log/probe.json").get("facts") or []:
        if isinstance(fact, dict) and fact.get("name") == "versions":
            return fact.get("numbers")
    return None


def read_metric(folder, name):
    """Return the last number in the log that is called so, as {"value", "step"}; None for none.

    A longer name that ends with the words of this one counts where no line has just these.
    """
    wanted = words_of(name)
    try:
        files = sorted(os.listdir(folder.at("log")), reverse=True)
    except OSError:
        return None
    longer = None
    for file in [file for file in files if file.startswith("train.log.")]:
        for line in reversed(_last_lines(folder.at("log", file))):
            if wanted[-1] not in line.lower():
                continue
            found = _numbers_called(line[:MOST], wanted)
            if found and found[0] == wanted:
                return _metric_row(found[1], line)
            longer = longer or (found and _metric_row(found[1], line))
    return longer


def _last_lines(path):
    try:
        with open(path, "rb") as file:
            file.seek(max(os.path.getsize(path) - NEAR, 0))
            return file.read(NEAR).decode("utf-8", "replace").replace("\r", "\n").split("\n")
    except OSError:
        return []


def _numbers_called(line, wanted):
    """Return (words of its name, value) of the line's number that is called so, an exact name
    before a longer one, the last of several; None for none."""
    found = [(words_of(one.name), one.value) for one in named_numbers(unwrap(line))[0]]
    found = [one for one in found if one[0][-len(wanted) :] == wanted]
    return max(reversed(found), key=lambda one: one[0] == wanted, default=None)


def _metric_row(value, line):
    return {"value": value if math.isfinite(value) else str(value), "step": read(line).step}


def thinned(series):
    """Return the rows of a series that have a step, at most POINTS of them, without the cards."""
    names = ("t", "attempt", "phase", "step", "loss", "val_loss", "lr", "grad_norm")
    names += ("disk_free", "disk_total")
    rows = [row for row in series if isinstance(row.get("step"), int)]
    if len(rows) > POINTS:
        rows = [rows[round(at * (len(rows) - 1) / (POINTS - 1))] for at in range(POINTS)]
    return [{name: row[name] for name in names if name in row} for row in rows]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
