"""Torture runs by seed: python -m tests.torture --runs 200 --seed 1."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import date
from pathlib import Path

from tests.conftest import ROOT

from . import campaign
from .faults import BY_NAME


def main() -> int:
    """Run, print a line a run, and write the record; 1 where a run broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the others follow")
    parser.add_argument("--side-by-side", type=int, default=4)
    parser.add_argument("--fault", action="append", default=[], choices=sorted(BY_NAME))
    parser.add_argument("--record", type=Path, help="a JSON file for the results")
    parser.add_argument("--keep", type=Path, help="a folder for what broken runs leave")
    args = parser.parse_args()
    if why := campaign.missing():
        sys.exit(
            f"no namespaces of its own for a run here ({why}); run it as root, or where unshare works"
        )

    def tell(found: dict) -> None:
        print(campaign.line(found), flush=True)

    seeds = list(range(args.seed, args.seed + args.runs))
    found = campaign.many(seeds, args.fault, args.side_by_side, args.keep, tell)
    held = sum(one["held"] for one in found)
    print(f"{held} of {len(found)} held")
    if args.record:
        git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        told = {"commit": commit, "date": str(date.today()), "results": found}
        args.record.write_text(
            json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
    return int(held < len(found))


if __name__ == "__main__":
    sys.exit(main())
