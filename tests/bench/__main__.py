"""The table of the bench: python -m tests.bench --cells in-place/kill 'hf*/*' --record FILE."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

from . import campaign, faults, shapes


def main() -> int:
    """Run cells, print a line each, and write the record; 1 where one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument(
        "--cells",
        nargs="*",
        help="patterns of SHAPE/FAULT (default: the whole table)",
    )
    parser.add_argument(
        "--seconds", type=float, default=0, help="draw cells by the seed until so many are gone"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side-by-side", type=int, default=3 * (os.cpu_count() or 1))
    parser.add_argument("--record", type=Path, help="a JSON file for the verdicts")
    parser.add_argument("--keep", type=Path, help="a folder for all that the cells leave")
    args = parser.parse_args()
    if why := campaign.missing():
        sys.exit(
            f"no namespaces of its own for a cell here ({why}); run it as root, or where unshare works"
        )
    names = [(shape, fault) for shape in shapes.BY_NAME for fault in faults.BY_NAME]
    patterns = args.cells or ["*"]
    cells = [
        (shape, [fault], args.seed)
        for shape, fault in names
        if shapes.can_run(shapes.BY_NAME[shape])
        and any(fnmatch(f"{shape}/{fault}", pattern) for pattern in patterns)
        and (args.cells or f"{shape}/{fault}" in campaign.TABLE)
    ]
    if args.seconds:
        random.Random(args.seed).shuffle(cells)
    until = time.monotonic() + args.seconds if args.seconds else None
    found: list[dict] = []

    def tell(one: dict) -> None:
        print(campaign.line(one), flush=True)
        found.append(one)
        if args.record:
            campaign.write_record(args.record, found)

    campaign.many(cells, args.side_by_side, args.keep, tell, until)
    bad = [one for one in found if one["wrong"]]
    void = [one for one in found if one["void"]]
    print(
        f"{len(found) - len(bad) - len(void)} of {len(found)} right, {len(bad)} wrong, {len(void)} void"
    )
    return int(bool(bad or void))


if __name__ == "__main__":
    sys.exit(main())
