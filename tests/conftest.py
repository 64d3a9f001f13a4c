"""What several tests share: a small catalogue in a folder, and what to do when an engine is missing."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
import yaml

from tests.sharing import Shared

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))  # the generators of documents

ENTRY = """\
### O3 — the loss has no way back to the weights of the model

**Symptom:** It stops with `element 0 of tensors does not require grad`.

**Check:** `print(loss.grad_fn)` is `None`.

**Fix:** Take the cut out.

**Root cause:** The loss was cut off.

**Signatures:** `element 0 of tensors does not require grad`

**Reported as:** backward fails · no gradient · loss has no grad · 没有梯度 · 反向传播报错

**Domain:** code

**Retry:** pointless

**Severity:** blocks

**Verified:** 2026-11-20, read

**Sources:** [PyTorch notes](https://docs.pytorch.org/docs/stable/notes/autograd.html)
"""


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory):
    """Keep the ledger and the settings of whoever runs the tests out of them, and theirs out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture
def page():
    """The text of one good entry, with replacements: page(Severity='blocks')."""

    def make(*swaps: tuple[str, str]) -> str:
        text = ENTRY
        for old, new in swaps:
            assert old in text
            text = text.replace(old, new)
        return text

    return make


@pytest.fixture
def bundle(tmp_path):
    """Write pages into a folder that the catalogue can read: bundle({'a.md': text})."""

    def write(pages: dict[str, str]) -> Path:
        for name, text in pages.items():
            path = tmp_path / "references" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def read_yaml(text: str) -> list:
    """The documents of a rendered text, by libyaml where PyYAML has it: the scripts in it are long."""
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def engine(name: str, install: str, *places: str) -> str:
    """The path of a program. Missing: the test is skipped and says how to install it, or fails under REQUIRE_ENGINES=1."""
    for place in (*places, os.environ.get("CLIENTS", "")):
        if place and (Path(place) / name).is_file():
            return str(Path(place) / name)
    found = shutil.which(name)
    if found:
        return found
    if os.environ.get("REQUIRE_ENGINES"):
        pytest.fail(f"{name} is not installed: {install}")
    pytest.skip(f"{name} is not installed: {install}")


def module(name: str, install: str) -> None:
    """A Python module. Missing: skipped, or failed under REQUIRE_ENGINES=1, as engine() does."""
    if importlib.util.find_spec(name):
        return
    if os.environ.get("REQUIRE_ENGINES"):
        pytest.fail(f"{name} is not installed: {install}")
    pytest.skip(f"{name} is not installed: {install}")


def older_python() -> str:
    """The Python with the libraries of a year ago (evals/proofs/older.txt)."""
    python = os.environ.get("OLDER_PYTHON", "")
    if not python:
        how = "see `.venv-older` in .ci/run, then OLDER_PYTHON=.venv-older/bin/python"
        absent = pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip
        absent(f"OLDER_PYTHON is not set: {how}")
    return python


def pytest_addoption(parser):
    parser.addoption(
        "--update",
        action="store_true",
        help="rewrite the golden files; read the difference before you commit it",
    )
    parser.addoption(
        "--record",
        action="store_true",
        help="run long campaigns whole and write tests/records; otherwise those are replayed",
    )


class Campaign:
    """A long test that is run whole now and then, and replayed from its record in between.

    `live` picks what runs this time: everything under --record, else every tenth. A record holds
    the commit and the day of the run beside its results.
    """

    def __init__(self, name: str, recording: bool):
        self.place = ROOT / "tests" / "records" / f"{name}.json"
        self.recording = recording

    def live(self, all_of_it: list) -> list:
        """What is run for real this time."""
        return all_of_it if self.recording else all_of_it[::10]

    def recorded(self, results: object = None) -> object:
        """The results of the whole campaign: these, written down, under --record; else as read."""
        if self.recording and results is not None:
            git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
            commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
            told = {"commit": commit, "date": str(date.today()), "results": results}
            self.place.parent.mkdir(exist_ok=True)
            text = json.dumps(told, ensure_ascii=False, indent=1)
            self.place.write_text(text + "\n", encoding="utf-8")
        return json.loads(self.place.read_text(encoding="utf-8"))["results"]


@pytest.fixture(scope="session")
def some(request):
    """some(items, 4): each fourth of them; some(items, kind): one of each kind. All of them under --all or --record."""
    whole = request.config.option.all or request.config.option.record

    def choose(items, share):
        if whole or not callable(share):
            return list(items)[:: 1 if whole else share]
        kinds: dict[object, list] = {}
        for one in items:
            kinds.setdefault(share(one), []).append(one)
        # The first of the first kind, the second of the next: all sorts of circumstances.
        return [held[at % len(held)] for at, held in enumerate(kinds.values())]

    return choose


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """What one worker makes for all: shared.folder('site', build)."""
    base = tmp_path_factory.getbasetemp()
    # Without workers the folder above holds the earlier runs as well.
    place = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    (place / "shared").mkdir(exist_ok=True)
    return Shared(place / "shared")


@pytest.fixture(scope="module")
def shared_answers(request, shared):
    """In the module that asks for it, a text is looked up by one worker (evals/grading/shared.py)."""
    folder = Path(request.config.option.shared_answers or shared.place / "answers")
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHARED_ANSWERS", str(folder))
        yield


@pytest.fixture
def campaign(request):
    """Give a campaign by its name: campaign('forty_runs')."""
    return lambda name: Campaign(name, request.config.getoption("--record"))


@pytest.fixture
def golden(request):
    """Compare a whole text with tests/runs/golden/NAME, or write it with --update: golden('a.txt', text)."""

    def compare(name: str, text: str) -> None:
        path = ROOT / "tests" / "runs" / "golden" / name
        if request.config.getoption("--update"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text == expected, (
            f"{name} differs from its golden file; if that is right: pytest --update {request.node.path.name}"
        )

    return compare


def valid_skill(folder: Path) -> None:
    """Fails unless skills-ref finds the skill in a folder valid. Skips on Python 3.10, for which there is no skills-ref."""
    if sys.version_info < (3, 11):
        pytest.skip("skills-ref needs Python 3.11")
    done = subprocess.run(
        [sys.executable, "-m", "skills_ref.cli", "validate", str(folder)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
