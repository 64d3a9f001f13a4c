"""Grade the look-up, or any other agent's answers, on real public reports.

usage: python evals/run_evals.py [--suite main|lookup|curves|render|staleness|health|all]
                                 [--system lookup|mcp] [--answers FILE] [--write]
                                 [--no-baselines] [--wrong]

Without options, in under a minute: the main table, the look-up beside BM25 on the fresh reports
(nothing is learned from them) and on the reporting half of evals/cases.jsonl. The half of a case
follows from its id: 0-7 tunes, 8-f reports. Exits 1 when a figure falls below evals/floor.json.

`--suite lookup` adds every baseline, 95 % bootstrap intervals by half, family and kind, the other
sets of evals/sets, other forms of a report, and reports within long healthy logs. `--suite curves`
grades logs that end without an error; render, staleness and health grade the other tools.
`--suite all` runs all of it. `--write` brings RESULTS.md and the floor up to date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SETS = HERE / "sets"
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]

from grading import (
    curved,
    floor,
    forms,
    grade,
    healthy,
    nudge,
    ranks,
    rendered,
    report,
    sentence,
    stale,
    systems,
    whole,
)
from grading.cases import Case, read_cases

APART = {
    "near.jsonl": "near misses (out of scope, chosen because they look like an entry)",
    "outside.jsonl": "reports that searches in the field brought, "
    "left without an answer by both of their readers",
}
KEPT = {  # nothing is learned from either half, of the first from its reporting half
    "waiting.jsonl": "reports of the entries that came after the cases (some learned since, "
    "the others wait), and strange ones in such words: the reporting half, "
    "of which nothing is learned",
    "fresh.jsonl": "fresh reports "
    "(collected after the ranking was made; nothing is learned from them)",
    "short.jsonl": "questions of 3 to 14 words (invented by writers who saw titles and symptoms "
    "and no answer; nothing is learned from them)",
}


NUDGED = 0.85  # share that keeps its first answer when a platform is named that isn't the cause


def main_table(cases: list[Case]) -> tuple[str, list[str]]:
    """The look-up beside BM25 on what nothing was learned from, as text.

    Also what is below the floor, a line each.
    """
    sets = {
        "fresh reports, of which nothing is learned": read_cases(SETS / "fresh.jsonl"),
        "the reporting half of the cases, which the ranking never saw": [
            case for case in cases if case.half == "reporting"
        ],
    }
    told, grades = [], []
    for title, asked in sets.items():
        beside = {
            name: grade.grade(asked, answer(asked))
            for name, answer in (("lookup", systems.lookup), ("BM25", systems.bm25))
        }
        told.append(report.beside(title, beside))
        grades.append(beside["lookup"])
    fresh, reporting = grades
    return "\n\n".join(told), floor.below(HERE / "floor.json", cases, reporting, fresh)


def main() -> int:
    """Run the suites that the command line names. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--suite",
        choices=("main", "lookup", "curves", "render", "staleness", "health", "all"),
        default="main",
        help="what to grade (default main: the look-up beside BM25, in under a minute)",
    )
    parser.add_argument(
        "--system",
        choices=("lookup", "mcp"),
        default="lookup",
        help="call the function, or the real server over stdio",
    )
    parser.add_argument(
        "--answers",
        type=Path,
        metavar="FILE",
        help='grade these answers: {"id", "ids": [...]} a line',
    )
    parser.add_argument(
        "--write", action="store_true", help="write evals/RESULTS.md and raise evals/floor.json"
    )
    parser.add_argument("--no-baselines", action="store_true", help="leave the baselines out")
    parser.add_argument("--wrong", action="store_true", help="list the misses of the tuning half")
    args = parser.parse_args()

    cases = read_cases(HERE / "cases.jsonl")
    if args.suite == "main" and not args.answers and not args.write and args.system == "lookup":
        table, below = main_table(cases)
        print(table.replace("**", ""))
        print("".join(f"{line}\n" for line in below), end="", file=sys.stderr)
        return int(bool(below))
    failed = False
    for name, suite in (("render", rendered), ("staleness", stale), ("health", healthy)):
        if args.suite in (name, "all"):
            count, wrong = suite.run(SETS / f"{name}.jsonl")
            failed |= bool(wrong)
            right = count - len({line.partition(":")[0] for line in wrong})
            print(f"{name}: {right} of {count} cases right")
            print("".join(f"{line}\n" for line in wrong), end="", file=sys.stderr)
    curves, missed = (
        curved.run(SETS / "curves.jsonl")
        if args.suite in ("curves", "all") or args.write
        else ("", [])
    )
    failed |= bool(missed)
    print("".join(f"{line}\n" for line in missed), end="", file=sys.stderr)
    print(
        curves.replace("**", "")
        + ("\n" + curved.misses(SETS / "curves.jsonl") if curves and args.wrong else "")
    )
    if args.suite in ("curves", "render", "staleness", "health"):
        return int(failed)
    if args.answers:
        name, answers = args.answers.name, systems.from_file(args.answers, cases)
    elif args.system == "mcp":
        name, answers = "lookup over MCP", systems.mcp(cases)
    else:
        name, answers = "lookup", systems.lookup(cases)
    graded = {name: grade.grade(cases, answers)}
    if not args.no_baselines and not args.answers:
        for baseline, answer in systems.baselines().items():
            graded[baseline] = grade.grade(cases, answer(cases))
    print(report.text(cases, graded))
    if not args.answers:
        kept = {
            name: [
                case
                for case in read_cases(SETS / name)
                if name != "waiting.jsonl" or case.half == "reporting"
            ]
            for name in KEPT
        }
        found = {name: systems.lookup(asked) for name, asked in kept.items()}
        marks = {name: grade.grade(asked, found[name]) for name, asked in kept.items()}
        said = "".join(report.apart(KEPT[name], marked) + "\n\n" for name, marked in marks.items())
        reporting, fresh = [case for case in cases if case.half == "reporting"], kept["fresh.jsonl"]
        pairs = sentence.read(SETS / "said.jsonl", [*reporting, *fresh])
        said += _with_a_sentence(pairs, reporting, fresh, answers | found["fresh.jsonl"])
        said += whole.run(cases, "reporting", {case.id: text for case, text in pairs}) + "\n\n"
        said += ranks.run(reporting) + "\n\n" + forms.run(reporting) + "\n\n"
        said += "\n\n".join(
            f"{what}: answered {_answered(SETS / name)}" for name, what in APART.items()
        )
        asked, same, changed = nudge.kept(reporting)
        failed |= same < NUDGED * asked
        said += (
            f"\n\nwith a platform's name put in or taken out, {same} of {asked} reports "
            "whose cause isn't the platform keep their first answer"
        )
        print(said.replace("**", ""))
        if args.wrong:
            print("\n".join(changed))
    if args.wrong:
        print(report.misses(cases, answers, "tuning"))
    if args.answers:
        return 0
    if args.write:
        (HERE / "RESULTS.md").write_text(
            report.page(cases, graded, main_table(cases)[0]) + "\n" + said + "\n\n" + curves + "\n",
            encoding="utf-8",
        )
        floor.raise_to(HERE / "floor.json", cases, graded[name], marks["fresh.jsonl"])
    below = floor.below(HERE / "floor.json", cases, graded[name], marks["fresh.jsonl"])
    for line in below:
        print(line, file=sys.stderr)
    return 1 if below or failed else 0


def _with_a_sentence(
    pairs: list[tuple[Case, str]], reporting: list[Case], fresh: list[Case], bare: systems.Answers
) -> str:
    """What one sentence before a report changes, as text.

    `pairs`: reports with their sentences; `bare`: the answers to the reports as they are.
    """
    told = ""
    for what, of in (("the reporting half", reporting), ("fresh reports", fresh)):
        known = {case.id for case in of}
        asked = [(case, text) for case, text in pairs if case.id in known]
        chosen = [case for case, _ in asked]
        told += (
            report.apart(f"{len(chosen)} of {what} as they are", grade.grade(chosen, bare)) + "\n\n"
        )
        then = "the same behind one sentence by a reader and a blank line"
        told += report.apart(then, grade.grade(chosen, sentence.answers(asked))) + "\n\n"
    return told


def _answered(path: Path) -> str:
    """How many of these out-of-scope reports get a match, by half."""
    apart = read_cases(path)
    grades = grade.grade(apart, systems.lookup(apart))
    halves = {
        half: [g.false for g in grades if g.case.half == half] for half in ("reporting", "tuning")
    }
    return ", ".join(
        f"{sum(found)} of {len(found)} of the {half} half" for half, found in halves.items()
    )


if __name__ == "__main__":
    sys.exit(main())
