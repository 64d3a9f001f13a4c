"""A nvidia-smi that answers queries with the fields of a capture from a real box; a name that the driver doesn't know is refused."""

from __future__ import annotations

import csv
import json
import re
import shlex
import sys
from pathlib import Path

CAPTURES = Path(__file__).resolve().parents[2] / "tests/gpu_health/gpu_captures"
PROGRAM = """
import json, sys
boxes, table = json.load(open(sys.argv[1]))
query = [word for word in sys.argv[2:] if word.startswith("--query-gpu=")]
if not query:
    print(table)
    sys.exit()
alias = {"clocks.sm": "clocks.current.sm"}  # the header has the longer name
names = [alias.get(name, name) for name in query[0].partition("=")[2].split(",")]
units = {name.split(" [")[0]: name for name in boxes[0]}
for name in names:
    if name not in units:
        print(f'Field "{name}" is not a valid field to query.')
        sys.exit(2)
print(", ".join(units[name] for name in names))
for box in boxes:
    print(", ".join(box[units[name]] for name in names))
"""


def smi(box, capture: str, table: str = "", **changes: dict[int, str]) -> None:
    """Put it into the box. `changes` are {field with _ for a dot: {index of the card: value}}; `table` is printed
    without a query."""
    text = (CAPTURES / capture / "nvidia-smi.csv").read_text(encoding="utf-8")
    cards: dict[str, dict[str, str]] = {}
    for block in re.split(r"^(?=index,)", text, flags=re.M)[1:]:
        for row in csv.DictReader(block.splitlines(), skipinitialspace=True):
            if row["index"].isdigit():
                cards.setdefault(row["index"], {}).update(
                    {key: value for key, value in row.items() if key and value is not None}
                )
    for field, values in changes.items():
        for index, value in values.items():
            row = cards[str(index)]
            [name] = [key for key in row if re.sub(r"\W", "_", key.split(" [")[0]) == field]
            row[name] = value
    (box.folder / "smi.json").write_text(json.dumps([list(cards.values()), table]))
    (box.folder / "smi.py").write_text(PROGRAM)
    words = (sys.executable, str(box.folder / "smi.py"), str(box.folder / "smi.json"))
    box.program("nvidia-smi", f'exec {shlex.join(words)} "$@"')
