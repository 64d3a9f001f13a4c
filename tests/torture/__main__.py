"""Torture runs by seed: python -m tests.torture --runs 200 --seed 1 --record FILE."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.bench import campaign

from .draw import draw


def main() -> int:
    """Run, print a line a run, and write the record; 1 where a run is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the others follow")
    parser.add_argument("--side-by-side", type=int, default=3 * (os.cpu_count() or 1))
    parser.add_argument("--record", type=Path, help="a JSON file for the verdicts")
    parser.add_argument("--keep", type=Path, help="a folder for all that the runs leave")
    args = parser.parse_args()
    if why := campaign.missing():
        sys.exit(
            f"no namespaces of its own for a run here ({why}); run it as root, or where unshare works"
        )

    def tell(one: dict) -> None:
        print(f"seed {one['seed']}: {campaign.line(one)}", flush=True)

    runs = [draw(seed) for seed in range(args.seed, args.seed + args.runs)]
    found = campaign.many(runs, args.side_by_side, args.keep, tell)
    held = [one for one in found if not one["wrong"] and not one["void"]]
    print(f"{len(held)} of {len(found)} held")
    if args.record:
        campaign.write_record(args.record, found)
    return int(len(held) < len(found))


if __name__ == "__main__":
    sys.exit(main())
