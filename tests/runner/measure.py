"""What the runner costs: one small job, by the runners of several checkouts at the same time.

`python -m tests.runner.measure [--seconds 180] [--trace] CHECKOUT...` prints a row for each. Every
run has a home of its own, so nothing of another run is seen or touched.

Without --trace: processor time and memory of the runner's own processes while the program trains.
With it: the calls of Python's functions on the three ways of a run, from `rgt start` to the first
step, for one `rgt status`, and from a checkpoint to its verified copy. A traced run is slow.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROGRAM = """\
import os, pathlib, time
folder = pathlib.Path(os.environ["RGT_CHECKPOINT_DIR"])
for step in range(1, 100000):
    time.sleep(0.2)
    print(f"step {step} loss {1 / step:.4f} " + "x" * 100, flush=True)
    if step % SAVE == 0:
        folder.mkdir(exist_ok=True)
        new = folder / f"step-{step}.bin.new"
        new.write_bytes(os.urandom(1 << 20))
        new.rename(folder / f"step-{step}.bin")
"""
# One line a call: instant, process, module and function of the called and of the caller.
TRACER = """
def _rgt_trace():
    import fcntl, os, sys, threading, time
    file = os.open({trace!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    # A number that no child of the runner closes.
    file = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 5000)
    def name(frame):
        module = frame.f_globals.get("__name__", "") if frame else ""
        ours = module.startswith("remote_gpu_trainer.")
        return module.partition(".")[2] + ":" + frame.f_code.co_name if ours else "-"
    def note(frame, event, _):
        if event == "call" and name(frame) != "-" and frame.f_code.co_name[0] != "<":
            line = (repr(time.time()), str(os.getpid()), name(frame), name(frame.f_back))
            try:
                os.write(file, (" ".join(line) + chr(10)).encode())
            except OSError:
                pass
    threading.setprofile(note)
    sys.setprofile(note)
_rgt_trace()
del _rgt_trace
"""


class Case:
    """One checkout's run, in a folder of its own. `trace`: calls are noted."""

    def __init__(self, tree: Path, folder: Path, trace: bool):
        self.folder, self.run, self.name = folder, folder / "run", tree.name
        self.durable, self.calls = folder / "durable", folder / "calls"
        self.server = tree / "server"
        if trace:
            copy = folder / "tree"
            shutil.copytree(
                tree, copy, ignore=shutil.ignore_patterns(".git", ".venv", "node_modules")
            )
            main = copy / "server/remote_gpu_trainer/runner/main.py"
            main.write_text(main.read_text() + TRACER.format(trace=str(self.calls)))
            self.server = copy / "server"
        work = folder / "work"
        work.mkdir()
        (work / "train.py").write_text(PROGRAM.replace("SAVE", "50"))
        job = {
            "name": "cost", "command": ["python3", "train.py"], "gpus": 0, "probe": "off", "deadline": "1h", "run_dir": str(self.run),
            "checkpoint": {"folder": "ck", "pattern": "step-*.bin", "save_seconds": 5},
            "durable": {"to": str(self.durable), "on_this_box": True, "what": ["ck"], "every_minutes": 0.5},
        }  # fmt: skip
        (work / "job.yaml").write_text(json.dumps(job))

    def call(self, *words: str) -> str:
        """Run the checkout's `rgt`; return what it says."""
        enter = "import sys; from remote_gpu_trainer.__main__ import main; sys.exit(main())"
        is_traced = self.server.parent == self.folder / "tree"
        traced = TRACER.format(trace=str(self.calls)) if is_traced else ""
        done = subprocess.run(
            [sys.executable, "-c", f"{traced}\n{enter}", *words],
            cwd=self.folder / "work", capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(self.server), "HOME": str(self.folder), "RGT_TARGETS": ""},
        )  # fmt: skip
        if done.returncode not in (0, 3):
            raise SystemExit(f"{self.name}: rgt {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def is_verified(self, since: float) -> bool:
        """Return whether a round of copies that came to its end since then proved what it copied."""
        rows = [row.split("\t") for path in self.run.rglob("synced.tsv") for row in path.open()]
        return any(int(row[0]) >= int(since) and row[2] == "ok" for row in rows)

    def steps(self) -> int:
        """Return how many lines the program has printed."""
        return sum(path.read_bytes().count(b"\n") for path in self.run.glob("log/train.log.*"))

    def wait_for(self, step: int) -> None:
        until = time.monotonic() + 120
        while self.steps() < step:
            if time.monotonic() > until:
                raise SystemExit(f"{self.name}: no step {step} in two minutes")
            time.sleep(0.05)

    def wait_for_end(self) -> None:
        until = time.monotonic() + 60
        while self.processes() and time.monotonic() < until:
            time.sleep(0.2)

    def processes(self) -> dict[int, str]:
        """Return {pid: what it is} of the runner's own processes that stay."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"RGT_RUN_DIR={self.run}".encode() in environ or os.getpid() == int(entry.name):
                continue
            if any(word.startswith(bytes(self.run)) for word in words):
                found[int(entry.name)] = words[0].decode().rpartition("/")[2]
        return found


def cpu(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended, in seconds."""
    own = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return own + sum(map(int, words[13:15])) / TICKS


def memory(pid: int) -> tuple[int, int]:
    """Return what of a process lies in memory, in bytes: whole, and with what it shares by parts."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    told = {row.split()[0]: int(row.split()[1]) * 1024 for row in rows[1:]}
    return told["Rss:"], told["Pss:"]


def weigh(cases: list[Case], seconds: float) -> None:
    """Print what each case's processes compute in the same stretch, and their memory."""
    for case in cases:
        case.call("start", "local", "job.yaml")
    for case in cases:
        case.wait_for(100)
    before = {case: {pid: cpu(pid) for pid in case.processes()} for case in cases}
    time.sleep(seconds)
    print("checkout\tprocess\tCPU s\tRSS MB\tPSS MB")
    for case in cases:
        total = [0.0, 0.0, 0.0]
        for pid, name in sorted(case.processes().items()):
            if pid in before[case]:
                rss, pss = memory(pid)
                row = [cpu(pid) - before[case][pid], rss / 1e6, pss / 1e6]
                total = [sum(pair) for pair in zip(total, row, strict=True)]
                print(case.name, name, *(f"{value:.2f}" for value in row), sep="\t")
        print(case.name, "all", *(f"{value:.2f}" for value in total), sep="\t", flush=True)


def count(case: Case, way: str, begin: float, end: float, apart: bool = False) -> None:
    """Print how many calls there were between two instants; `apart`: without the processes that
    were there before."""
    rows, before = [], set()
    for line in case.calls.read_text().splitlines():
        instant, pid, called, caller = line.split(" ")
        if apart and float(instant) < begin:
            before.add(pid)
        elif begin <= float(instant) < end and pid not in before:
            rows.append((pid, called, caller))
    functions = {called for _, called, _ in rows}
    modules = {called.partition(":")[0] for called in functions}
    moves = sum(called.partition(":")[0] != caller.partition(":")[0] for _, called, caller in rows)
    processes = {pid for pid, _, _ in rows}
    print(
        f"{case.name}\t{way}\t{len(rows)} calls\t{len(functions)} functions\t{len(modules)} modules"
        f"\t{moves} moves\t{len(processes)} processes\t{end - begin:.1f} s"
    )
    often = Counter(called for _, called, _ in rows)
    asks = often["runner.procs:alive"]
    told = (f"{name} {number}" for name, number in often.most_common(6))
    print("", f"{asks} ask whether one lives", *told, sep="\t", flush=True)


def trace(case: Case) -> None:
    """Print the three ways of a case."""
    begin = time.time()
    case.call("start", "local", "job.yaml")
    case.wait_for(1)
    count(case, "start to the first step", begin, (case.run / "log/train.log.0000").stat().st_ctime)
    case.wait_for(20)
    begin = time.time()
    case.call("status", "local", "--run", str(case.run))
    count(case, "status", begin, time.time(), apart=True)
    until = time.monotonic() + 240
    while not (copies := [*case.durable.rglob("step-50.bin")]) and time.monotonic() < until:
        time.sleep(0.05)
    since = time.time()
    while not case.is_verified(since) and time.monotonic() < until:
        time.sleep(0.05)
    saved = next(path for path in case.folder.rglob("step-50.bin") if path not in copies)
    count(case, "checkpoint to verified", saved.stat().st_mtime, time.time())


def main() -> int:
    """Measure what the words say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--trace", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rgt-cost-") as root:
        cases = []
        for number, tree in enumerate(given.tree):
            folder = Path(root, str(number))
            folder.mkdir()
            cases.append(Case(tree.resolve(), folder, given.trace))
        try:
            if given.trace:
                for case in cases:
                    trace(case)
            else:
                weigh(cases, given.seconds)
        finally:
            for case in cases:
                case.call("stop", "local", "--run", str(case.run))
                case.wait_for_end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
