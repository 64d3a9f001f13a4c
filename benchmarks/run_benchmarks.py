"""Measure the look-up beside other programs, and write the figures to benchmarks/FIGURES.md.

usage: python benchmarks/run_benchmarks.py [--write] [--only NAME] [--quick]

Every line is a ratio of two things measured in this run, one after the other, on this machine.
Nothing here is a test: a busy machine gives other figures. Needs grep.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "evals"), str(HERE.parent / "server")]

import measure
import reports

PAGE = HERE / "FIGURES.md"
LOOKUP = [sys.executable, "-m", "remote_gpu_trainer", "lookup"]
EMPTY_SERVER = "from mcp.server import MCPServer; MCPServer('empty', log_level='WARNING').run()"
QUESTIONS = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)
Row = tuple[str, str, str, str]  # what, ours, beside what, ratio


def warm(quick: bool) -> list[Row]:
    """Reports of 10 KB in one process, beside BM25 over the same entries."""
    from grading.cases import Case
    from grading.systems import bm25
    from remote_gpu_trainer.lookup.answer import answer_for

    texts = reports.ten_kilobytes(20 if quick else 200)
    middle, late = measure.of_calls(lambda text: answer_for(text=text), texts)
    cases = [Case(str(at), "error", text, (), "") for at, text in enumerate(texts[:20])]
    started = time.perf_counter()
    bm25(cases)
    plain = (time.perf_counter() - started) / len(cases)
    return [
        (
            "10 KB report, warm, median",
            _ms(middle),
            f"BM25 in plain Python {_ms(plain)}",
            _ratio(middle, plain),
        ),
        (
            "10 KB report, warm, 95th percentile",
            _ms(late),
            f"BM25 {_ms(plain)}",
            _ratio(late, plain),
        ),
    ]


def cold(quick: bool) -> list[Row]:
    """The command on a 10 KB report, beside an empty Python."""
    with tempfile.NamedTemporaryFile("w", suffix=".log", encoding="utf-8") as log:
        log.write(reports.ten_kilobytes(1)[0])
        log.flush()
        ours = measure.of_program([*LOOKUP, "--log", log.name], 3 if quick else 9)
        empty = measure.of_program([sys.executable, "-c", "pass"], 3 if quick else 9)
    return [
        (
            "10 KB report, cold command",
            _ms(ours.seconds),
            f"python -c pass {_ms(empty.seconds)}",
            _ratio(ours.seconds, empty.seconds),
        )
    ]


def catalogues(quick: bool) -> list[Row]:
    """The same question to catalogues of 1, 10 and 100 times as many entries."""
    import synthetic
    from remote_gpu_trainer.logs import reading
    from remote_gpu_trainer.lookup.steps import look_up

    texts, rows, first = reports.ten_kilobytes(20), [], 0.0
    for times in (1, 10) if quick else (1, 10, 100):
        entries, retriever = synthetic.larger(times)
        ask = partial(look_up, entries=entries, retriever=retriever, limit=3, today=date.today())
        middle, _ = measure.of_calls(lambda text, ask=ask: ask(reading.from_text(text)), texts)
        first = first or middle
        rows.append(
            (
                f"catalogue × {times} ({len(entries)} entries), warm median",
                _ms(middle),
                f"× 1 {_ms(first)}",
                _ratio(middle, first),
            )
        )
    return rows


def logs(quick: bool) -> list[Row]:
    """Large logs, beside grep for the literal signatures."""
    from remote_gpu_trainer.catalogue import bundle

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        texts = sorted(
            {s.text for entry in bundle.load().entries for s in entry.signatures if not s.is_regex}
        )
        patterns = Path(folder, "signatures.txt")
        patterns.write_text("\n".join(texts) + "\n", encoding="utf-8")
        for megabytes in (1, 100) if quick else (1, 100, 1000):
            log = Path(folder, "run.log")
            reports.write_log(log, megabytes)
            ours = measure.of_program([*LOOKUP, "--log", str(log)], 3)
            grep = measure.of_program(["grep", "-c", "-F", "-f", str(patterns), str(log)], 3)
            rows.append(
                (
                    f"log of {megabytes} MB ({ours.megabytes:.0f} MB of memory)",
                    _s(ours.seconds),
                    f"grep -c -F -f, {len(texts)} texts, {_s(grep.seconds)}",
                    _ratio(ours.seconds, grep.seconds),
                )
            )
    return rows


def server(quick: bool) -> list[Row]:
    """From the start of the process to the reply to tools/list, beside a server without tools."""
    ours, empty = [], []
    for _ in range(5 if quick else 15):
        ours.append(_first_reply([sys.executable, "-m", "remote_gpu_trainer", "serve"]))
        empty.append(_first_reply([sys.executable, "-c", EMPTY_SERVER]))
    middle, plain = sorted(ours)[len(ours) // 2], sorted(empty)[len(empty) // 2]
    return [
        (
            "server, start to the first tools/list reply",
            _ms(middle),
            f"empty MCPServer {_ms(plain)}",
            _ratio(middle, plain),
        )
    ]


def _first_reply(command: list[str]) -> float:
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        for question in QUESTIONS:
            child.stdin.write(json.dumps(question) + "\n")
            child.stdin.flush()
        for line in child.stdout:
            if json.loads(line).get("id") == 2:
                taken = time.perf_counter() - started
                child.stdin.close()
                child.wait(10)
                return taken
    raise RuntimeError(f"found no reply to tools/list from {' '.join(command)}, expected one")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _ratio(ours: float, other: float) -> str:
    return f"{ours / other:.2f}"


# Children first: their memory counts from what this process held when it started them.
PARTS = {"cold": cold, "logs": logs, "server": server, "warm": warm, "catalogues": catalogues}


def page(rows: list[Row]) -> str:
    """FIGURES.md, whole."""
    about = ", ".join(
        [
            str(date.today()),
            f"{platform.system()} {platform.machine()}",
            _processor(),
            f"{os.cpu_count()} cores",
            f"Python {platform.python_version()}",
            f"remote-gpu-trainer {version('remote-gpu-trainer')}",
            f"mcp {version('mcp')}",
        ]
    )
    head = (
        "# Figures\n\nGenerated by `python benchmarks/run_benchmarks.py --write`. "
        "Every ratio is of two things measured in the same run.\n\n"
        f"{about}\n\n| what | look-up | beside | ratio |\n|---|---|---|---|\n"
    )
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def main() -> int:
    """Measure, and print the figures or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write benchmarks/FIGURES.md")
    parser.add_argument("--only", choices=sorted(PARTS), help="measure one part")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no gigabyte")
    args = parser.parse_args()
    rows: list[Row] = []
    for name in [args.only] if args.only else list(PARTS):
        for row in PARTS[name](args.quick):
            print(" | ".join(row), flush=True)
            rows.append(row)
    if args.write and not args.only and not args.quick:
        PAGE.write_text(page(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
