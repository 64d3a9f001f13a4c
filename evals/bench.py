"""Ask several systems about the same failures, and write the page that shows them side by side.

usage: python evals/bench.py                        # grade what is recorded
       python evals/bench.py --record SYSTEM ...    # ask these anew, and record their answers
       python evals/bench.py --write                # write evals/BENCHMARK.md from the records

SYSTEM is a file of evals/benchmark/systems/ without its ending; `--track NAME` keeps to a track.
BENCH_PYTHON is the Python that has the rivals, DISK_FILES and OUTSIDE_SETS the folders of texts
that aren't kept here; a track without its texts keeps its recorded answers.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]

from benchmark import asking, page, tracks
from grading.cases import BadCase


def main() -> int:
    """Grade, record or write. Returns the exit code."""
    asked = _parser().parse_args()
    known = asking.systems()
    unknown = [name for name in asked.system if name not in known]
    if unknown:
        print(f"error: unknown system {unknown[0]!r}; give one of {', '.join(known)}",
              file=sys.stderr)  # fmt: skip
        return 2
    if asked.record:
        for name in asked.system or known:
            record(name, known[name], asked.track)
        return 0
    text = page.page(asked.system)
    if asked.write:
        page.PAGE.write_text(page.page(), encoding="utf-8")
    print(text.replace("**", ""))
    return 0


def record(stem: str, system: asking.System, only: list[str]) -> None:
    """Ask a system on the tracks that it has a command for, and keep its answers."""
    kept = asking.record_of(stem) or {"dates": {}, "tracks": {}}
    for track in tracks.TRACKS:
        if not system.answers(track.gives) or (only and track.name not in only):
            continue
        cases = [case for case in track.cases() if case.text]
        if not cases:
            print(f"{stem}: {track.name}: left as recorded; its texts aren't on this machine")
            continue
        answers = kept["tracks"][track.name] = {}
        kept["dates"][track.name] = f"{datetime.date.today()}"
        for name, said in asking.ask_all(system, track.gives, cases):
            answers[name] = asking.row_of(said)
            asking.write_record(stem, kept)
            if said.failed:
                print(f"{stem}: {track.name}: {name}: {said.failed}", flush=True)
        print(f"{stem}: {track.name}: {len(cases)} cases", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("system", nargs="*", help="files of evals/benchmark/systems (default: all)")
    add("--record", action="store_true", help="ask anew")
    add(
        "--track", action="append", default=[], choices=list(tracks.by_name()), help="ask only here"
    )
    add("--write", action="store_true", help="write evals/BENCHMARK.md")
    return parser


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except BadCase as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
