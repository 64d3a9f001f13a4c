"""The programs of the probe's test run to their end, and each pair differs by its entry's fix."""

import ast
import difflib
import hashlib
import os
import re
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import conftest
from tests.conftest import ROOT

PROGRAMS = ROOT / "evals" / "probe"
COUNTED = ROOT / "tests" / "evals" / "counted.py"
NAMES = ROOT / "tests" / "engines" / "torchvision_names"
STEPS_LOOKED_AT, MOST_CPU_SECONDS = 30, 25  # seconds with all imports, of all ranks together


def kept_aside(entry_id: str) -> bool:
    """The third of the entries that the probe was never built on."""
    return int(hashlib.sha256(entry_id.encode()).hexdigest(), 16) % 3 == 0


PAIRS = sorted(
    path.parent for path in PROGRAMS.glob("*/failing.py") if kept_aside(path.parent.name)
)
HEALTHY = sorted(PROGRAMS.glob("healthy/*.py"))
ALL = [*(pair / f"{kind}.py" for pair in PAIRS for kind in ("failing", "healthy")), *HEALTHY]


def name_of(program: Path) -> str:
    return str(program.relative_to(PROGRAMS))


def text_hash(program: Path) -> str:
    return hashlib.sha256(program.read_bytes()).hexdigest()[:16]


def launcher(program: Path) -> list[str]:
    """What stands before the program: Python, or the torchrun that its first line names."""
    told = re.match(r"# run: torchrun (.*)", program.read_text(encoding="utf-8"))
    if not told:
        return [sys.executable]
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    return run + told[1].split()


def ran(program: Path, folder: Path) -> dict:
    """Exit code, optimizer steps of a rank, and the last line that the program printed itself."""
    folder.mkdir(parents=True)
    paths = [str(NAMES), os.environ.get("PYTHONPATH")]
    extra = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "DS_ACCELERATOR": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    done = subprocess.run(
        [*launcher(program), str(COUNTED), str(program)],
        cwd=folder,
        env=os.environ | extra,
        capture_output=True,
        text=True,
        timeout=300,
    )
    steps = [int(n) for n in re.findall(r"^optimizer steps: (\d+)$", done.stdout, re.M)]
    told = re.sub(r"\n*optimizer steps: \d+\n", "\n", done.stdout)
    lines = [line for line in told.splitlines() if line.strip()]
    assert done.returncode == 0, f"{program}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return {
        "exit": done.returncode,
        "steps": min(steps, default=0),
        "left": sorted(path.name for path in folder.iterdir()),
        "last": lines[-1] if lines else "",
        "text": text_hash(program),
    }


@pytest.mark.timeout(3600)
def test_every_program_runs_to_its_end(tmp_path, campaign):
    conftest.module("torch", "pip install '.[proofs]'")
    told = campaign("probe_programs")
    programs = told.live(ALL)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda program: ran(program, tmp_path / name_of(program)), programs)
        live = dict(zip(map(name_of, programs), found, strict=True))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert spent < MOST_CPU_SECONDS * len(programs)
    told.recorded(live)
    short = {name: live[name]["steps"] for name in live if live[name]["steps"] < STEPS_LOOKED_AT}
    assert not short


def test_the_record_is_of_these_programs_and_each_made_its_steps(campaign):
    recorded = campaign("probe_programs").recorded()
    assert {name: result["text"] for name, result in recorded.items()} == {
        name_of(program): text_hash(program) for program in ALL
    }
    for name, result in recorded.items():
        assert (result["exit"], result["left"]) == (0, []), name
        assert result["steps"] >= STEPS_LOOKED_AT, name


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_two_programs_of_a_pair_differ_by_a_few_lines(pair):
    failing, healthy = (
        (pair / f"{kind}.py").read_text(encoding="utf-8").splitlines()
        for kind in ("failing", "healthy")
    )
    changed = [
        line
        for line in difflib.ndiff(failing, healthy)
        if line.startswith(("- ", "+ ")) and line[2:].strip()
    ]
    docstrings = 2
    assert 0 < len(changed) - docstrings <= 16, changed
    assert failing[0].startswith("# run: ") == healthy[0].startswith("# run: ")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_pair_ends_with_other_words(pair, campaign):
    """The failure shows in what the program says at its end: a loss, a score, a count, a time."""
    recorded = campaign("probe_programs").recorded()
    failing, healthy = (
        recorded[f"{pair.name}/{kind}.py"]["last"] for kind in ("failing", "healthy")
    )
    assert failing and failing != healthy


@pytest.mark.parametrize("program", ALL, ids=name_of)
def test_a_program_says_in_its_first_words_what_it_is(program):
    said = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8")))
    assert said and len(said.splitlines()[0]) > 20
