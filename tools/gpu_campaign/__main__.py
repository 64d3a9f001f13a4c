"""Run the parts of the campaign and write its record. tools/gpu_campaign.sh starts it.

Python 3.8 and its standard library. Each part runs programs of their own, so that a part that
breaks the card's context, hangs or dies leaves the others alone. The record is written after each
part: what was done before a power cut is kept.
"""

import argparse
import json
import os
import sys
import time
from datetime import date
from pathlib import Path

import compare
import errors
import fit
import health
import probe
import proofs
from apart import ROOT, Clock, anonymous, environment
from machine import commit_of, machine

FORMAT = 1
# Seconds for each part, and for all together. The sum with the start stays under nine minutes.
LIMITS = {"health": 90, "errors": 75, "fit": 120, "probe": 150, "proofs": 75}
WHOLE = 520
BY_NAME = {"compare": 420}  # parts that run only where --parts names them
PARTS = {
    "health": health.run_part,
    "errors": errors.run_part,
    "fit": fit.run_part,
    "probe": probe.run_part,
    "proofs": proofs.run_part,
    "compare": compare.run_part,
}


def options():
    """Return the parsed arguments. Exits with code 2 for a part that doesn't exist."""
    parser = argparse.ArgumentParser(prog="gpu_campaign", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(LIMITS))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    given.parts = given.parts.split(",")
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part is named {unknown[0]}; choose from {', '.join(PARTS)}")
    return given


def kept(place, asked_for):
    """Return the parts of an earlier record that aren't asked for now, with when each was made."""
    if not place:
        return {}
    record = json.loads(place.read_text(encoding="utf-8"))
    made = {"date": record["date"], "commit": record["commit"]}
    return {
        name: {**made, **part} for name, part in record["parts"].items() if name not in asked_for
    }


def write(record, place):
    """Replace the record whole, so that an interruption never leaves half of one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(place.name + ".new")
    text = anonymous(json.dumps(record, ensure_ascii=False, indent=1))
    new.write_text(text + "\n", encoding="utf-8")
    os.replace(new, place)


def main():
    """Run what was asked for, part after part."""
    given = options()
    whole = Clock(WHOLE)
    env = environment(ROOT, without_card=given.cpu)
    box = machine(env, whole)
    record = {
        "format": FORMAT,
        "date": str(date.today()),
        "commit": commit_of(ROOT),
        "machine": box,
        "limits": dict(LIMITS, whole=WHOLE),
        "parts": kept(given.keep, given.parts),
    }
    for name in given.parts:
        start = time.monotonic()
        clock = Clock(min({**LIMITS, **BY_NAME}[name], whole.left()))
        try:
            part = PARTS[name](ROOT, env, box, clock)
        except KeyboardInterrupt:
            part = {"results": [], "not_run": {name: "not run: the time for all parts was over"}}
            whole.end()
        except Exception as error:  # the other parts still have something to tell
            part = {"results": [], "not_run": {name: f"not run: {type(error).__name__}: {error}"}}
        record["parts"][name] = dict(part, seconds=round(time.monotonic() - start, 1))
        record["parts"] = {name: record["parts"][name] for name in PARTS if name in record["parts"]}
        record["seconds"] = round(whole.passed(), 1)
        write(record, given.out)
        told = record["parts"][name]
        print(
            f"{name}: {len(told['results'])} results, {len(told['not_run'])} not run,"
            f" {told['seconds']} s",
            flush=True,
        )
    print(f"wrote {given.out}")


if __name__ == "__main__":
    sys.exit(main())
