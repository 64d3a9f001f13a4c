"""Take the numbers of a run into a program that tracks experiments, without a network.

    rgt status BOX --series run.csv
    python track.py run.csv trackio        # then: trackio show --project run
    python track.py run.csv tensorboard    # then: tensorboard --logdir tensorboard
    python track.py run.csv wandb          # then, to send it: wandb sync wandb/offline-run-*

The run is called as the file. Rows without a step are left out. A run that was resumed repeats
steps: in W&B, choose `step` as the axis. trackio shortens names to ten letters: gpu0temper.
"""

import csv
import sys
import tempfile
from datetime import datetime
from pathlib import Path

IS_NO_NUMBER = ("timestamp", "step", "phase", "")


def rows_of(path):
    """Return (step, seconds since 1970, {name: number}) of each row that has a step."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("step")]
    return [
        (
            int(float(row["step"])),
            datetime.fromisoformat(row["timestamp"]).timestamp(),
            {n: float(v) for n, v in row.items() if n not in IS_NO_NUMBER and v != ""},
        )
        for row in rows
    ]


def to_trackio(path):
    """Import the rows as a project of the file's name."""
    import trackio

    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / path.name
        with open(path, encoding="utf-8", newline="") as source, kept.open("w") as target:
            rows = csv.reader(source)
            names = next(rows)
            step = names.index("step")
            csv.writer(target).writerows([names, *(row for row in rows if row[step])])
        trackio.import_csv(kept, project=path.stem, name=path.stem)


def to_tensorboard(path):
    """Write an event file into tensorboard/, in a folder of the file's name."""
    from tensorboard.summary import Writer

    writer = Writer(f"tensorboard/{path.stem}")
    for step, seconds, numbers in rows_of(path):
        for name, value in numbers.items():
            writer.add_scalar(name, value, step, wall_time=seconds)
    writer.close()


def to_wandb(path):
    """Write an offline run into wandb/."""
    import wandb

    with wandb.init(project=path.stem, name=path.stem, mode="offline") as run:
        run.define_metric("*", step_metric="step")
        for step, seconds, numbers in rows_of(path):
            run.log({**numbers, "step": step, "_timestamp": seconds})


if __name__ == "__main__":
    ways = {"trackio": to_trackio, "tensorboard": to_tensorboard, "wandb": to_wandb}
    if len(sys.argv) != 3 or sys.argv[2] not in ways:
        sys.exit(f"usage: python track.py run.csv {'|'.join(ways)}")
    if not rows_of(sys.argv[1]):
        sys.exit(
            f"{sys.argv[1]} has no row with a step; step_pattern in the job finds it in the log"
        )
    ways[sys.argv[2]](Path(sys.argv[1]))
