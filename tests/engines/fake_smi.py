"""A nvidia-smi that answers from a capture, and the kernel log beside it, in a folder to put before the PATH.

`fake_smi(folder, "h100x8")` is a healthy box; `swaps` edits the capture's texts: (("nvidia-smi.csv", "old", "new"), …); `log`
comes behind its kernel log. Calling it again changes its answers.
"""

from __future__ import annotations

import re
from pathlib import Path

CAPTURES = Path(__file__).resolve().parents[1] / "gpu_health" / "gpu_captures"
# Each call is one shell and one cat: many boxes are looked at on a machine with two cores.
PROGRAM = """#!/bin/sh
cd {here} || exit 9
case "$*" in
  --help-query-gpu) exec cat help.txt ;;
  *-lms*) exec sh watch.sh "$1" ;;
  *=*memory.total*) exec cat 1.csv ;;
  *=*ecc.mode.current*) exec cat 2.csv ;;
  --query-gpu=*) exec cat 3.csv ;;
  --query-remapped-rows=*) exec cat 4.csv ;;
  -L) exec cat nvidia-smi-list.txt ;;
  "-q -x") exec cat nvidia-smi-q.xml ;;
  "nvlink -s") exec cat nvlink.txt ;;
  "topo -m") exec cat topo.txt ;;
  --query-compute-apps=*) exec cat apps.csv ;;
esac
echo "unknown: $*"
exit 2
"""

# What -lms gives: eight busy cards, every 0.2 s, in the order of the names asked for.
WATCH = """IFS=,
while :; do
  for gpu in 0 1 2 3 4 5 6 7; do
    line=
    for name in ${1#--query-gpu=}; do
      case $name in
        index) value=$gpu ;;
        pci.bus_id) value=00000000:1$gpu:00.0 ;;
        utilization.gpu) value=97 ;;
        utilization.memory) value=40 ;;
        memory.used) value=61000 ;;
        memory.total) value=81559 ;;
        power.draw) value=650.00 ;;
        power.limit) value=700.00 ;;
        temperature.gpu) value=61 ;;
        clocks.current.sm | clocks.sm) value=1755 ;;
        clocks.max.sm) value=1980 ;;
        *active) value=0x0000000000000004 ;;
        pstate) value=P0 ;;
        *) value=5 ;;
      esac
      line="$line, $value"
    done
    echo "${line#, }"
  done
  sleep 0.4
done
"""


def fake_smi(
    folder: Path,
    capture: str = "h100x8",
    swaps: tuple[tuple[str, str, str], ...] = (),
    log: str = "",
) -> Path:
    """Write the programs; the folder to put before the PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {path.name: path.read_text(encoding="utf-8") for path in (CAPTURES / capture).iterdir()}
    for name, old, new in swaps:
        assert old in texts[name], f"{name} of {capture} holds no {old!r}"
        texts[name] = texts[name].replace(old, new)
    texts["dmesg.txt"] += log
    blocks = re.split(r"^(?=index|gpu_bus_id)", texts["nvidia-smi.csv"], flags=re.MULTILINE)[1:]
    names = {
        cell.split(" [")[0]
        for block in blocks
        if block.startswith("index")
        for cell in block.splitlines()[0].split(", ")
    }
    names |= {
        name.replace("event_reasons.", "throttle_reasons.")
        for name in names
        if "counters" not in name
    }
    texts["help.txt"] = "List of valid properties:\n\n" + "".join(
        f'"{name}"\nwhat it is\n\n' for name in sorted(names)
    )
    texts |= {f"{number}.csv": block for number, block in enumerate(blocks, 1)}
    texts["watch.sh"] = WATCH
    for name, text in texts.items():
        new = folder / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(folder / name)
    for name, text in (
        ("nvidia-smi", PROGRAM.format(here=folder)),
        ("dmesg", f"#!/bin/sh\nexec cat {folder}/dmesg.txt\n"),
    ):
        if not (folder / name).exists():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
    return folder
