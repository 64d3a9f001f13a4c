"""Simulated nights by seed: python -m tests.simulation --nights 100000."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter, deque
from fnmatch import fnmatch
from functools import partial
from multiprocessing import Pool

from . import planted
from .night import Night, play

NIGHTS, PLANTED = 5000, 8000  # that are played; the rarest planted fault needs more of them
CHUNK = 200  # nights of a process at a time
SHOWN, WIDTH = 12, 300  # steps of a night that fails, and characters of each


def _chunk(begin: int, count: int) -> tuple[int, int, list[Night]]:
    """Play some nights; return how many, their steps, and those that fail."""
    steps, bad = 0, []
    gc.disable()  # a third of the time goes into looking for circles in what lives for a moment
    for seed in range(begin, begin + count):
        night = play(seed)
        steps += night.steps
        if night.broken:
            bad.append(night)
    gc.collect()
    return count, steps, bad


def many(nights: int, first: int, processes: int) -> tuple[int, list[Night]]:
    """Play nights side by side; return the steps, and the nights that fail, by seed."""
    chunks = [(at, min(CHUNK, first + nights - at)) for at in range(first, first + nights, CHUNK)]
    if processes == 1:
        found = [_chunk(*one) for one in chunks]
    else:
        with Pool(processes) as pool:
            found = pool.starmap(_chunk, chunks, 1)
    bad = [night for _, _, some in found for night in some]
    return sum(steps for _, steps, _ in found), sorted(bad)


def find(name: str, nights: int, first: int) -> tuple[str, Night | None]:
    """Plant a fault and play nights until one fails; return its name and that night."""
    with planted.put_in(name):
        found = (play(seed) for seed in range(first, first + nights))
        return name, next((night for night in found if night.broken), None)


def plant_all(nights: int, first: int, processes: int, only: str) -> int:
    """Plant each fault in a process of its own, and print what found it; return how many weren't."""
    names = [one.name for one in planted.ALL if fnmatch(one.name, only)]
    missed = 0
    with Pool(processes) as pool:
        for name, night in pool.imap(partial(find, nights=nights, first=first), names, 1):
            if night is None:
                missed += 1
                print(f"{name:28} not found in {nights} nights", flush=True)
            else:
                print(f"{name:28} {night.seed:5}  {night.broken}: {night.what[:90]}", flush=True)
    print(f"{len(names) - missed} of {len(names)} planted faults found")
    return missed


def main() -> int:
    """Play nights and print which fail; 1 where one does."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--nights", type=int, help=f"{NIGHTS}; for --planted {PLANTED}, each")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED")
    parser.add_argument("--seed", type=int, help="play the night of this seed alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print each step")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, default=3, help="failing nights to show with a trace")
    parser.add_argument(
        "--planted",
        nargs="?",
        const="*",
        metavar="PATTERN",
        help="plant the faults of this pattern, each by itself, and say after how many nights which"
        " invariant finds it",
    )
    args = parser.parse_args()
    if args.planted:
        return int(
            bool(plant_all(args.nights or PLANTED, args.first, args.processes, args.planted))
        )
    nights = args.nights or NIGHTS
    if args.seed is not None:
        night = play(args.seed, print if args.trace else None)
        _show(night)
        return int(bool(night.broken))
    begun = time.monotonic()
    steps, bad = many(nights, args.first, args.processes)
    seconds = time.monotonic() - begun
    for night in bad[: args.show]:
        _show(night)
    for name, count in Counter(night.broken for night in bad).most_common():
        first = next(night for night in bad if night.broken == name)
        print(f"{count:6} {name}, first at seed {first.seed}: {first.what}")
    print(
        f"{nights - len(bad)} of {nights} nights held, in {seconds:.0f} s:"
        f" {nights / seconds:.0f} nights/s, {steps / nights:.0f} steps a night"
    )
    return int(bool(bad))


def _show(night: Night) -> None:
    if not night.broken:
        print(f"seed {night.seed}: held, {night.steps} steps")
        return
    print(f"seed {night.seed}: {night.broken}: {night.what}")
    rows: deque[str] = deque(maxlen=SHOWN)
    play(night.seed, rows.append)  # the same night once more
    for row in rows:
        print(f"  {row[:WIDTH]}")


if __name__ == "__main__":
    sys.exit(main())
