"""Proofs run the failure that an entry describes, and its fix. `says` ties the text they see to the entry."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys

import pytest
import torchvision_operators
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import Pattern

try:
    import torch

    torch.set_num_threads(1)  # small tensors: a pool of threads only waits for itself on a busy box
    exec(torchvision_operators.CODE, OPERATORS := {})
except ImportError:
    if os.environ.get("REQUIRE_ENGINES"):
        raise
    collect_ignore_glob = ["test_*.py"]
    print("evals/proofs: skipped, torch is not installed: pip install '.[proofs]'")


@pytest.fixture
def says():
    """says("O3", text): the text holds one of the signatures of O3."""

    def check(entry_id: str, text: str) -> None:
        entry = bundle.load().get(entry_id)
        lines = text.splitlines()
        assert any(Pattern(s).matches(line) for s in entry.signatures for line in lines), (
            f"none of the signatures of {entry_id} in: {text[:400]!r}"
        )

    return check


@pytest.fixture
def printed():
    """printed("C14", optimizer=…): what the first line of code with a print under Check prints, given these names."""

    def run(entry_id: str, **names: object) -> str:
        code = re.search(r"`([^`]*\bprint\([^`]*)`", bundle.load().get(entry_id).check)[1]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, names)
        return out.getvalue().strip()

    return run


@pytest.fixture
def value_of():
    """value_of("R5", "1 - (returns", returns=…): what the code under Check that begins so is worth, given these names."""

    def run(entry_id: str, start: str, **names: object) -> object:
        code = re.search(rf"`({re.escape(start)}[^`]*)`", bundle.load().get(entry_id).check)[1]
        return eval(" ".join(code.split()), names)

    return run


@pytest.fixture
def shell_of():
    """shell_of("U47", "findmnt"): the first code under Check that holds this word, for bash."""

    def code(entry_id: str, word: str) -> str:
        spans = re.findall(r"`([^`]+)`", bundle.load().get(entry_id).check)
        return " ".join(next(span for span in spans if word in span).split())

    return code


@pytest.fixture
def provider(tmp_path):
    """A provider's answers on loopback, for an entry's own shell lines: see provider_api."""
    from provider_api import Provider

    missing = [name for name in ("curl", "jq") if not shutil.which(name)]
    if missing:
        pytest.skip(f"apt-get install {' '.join(missing)}")
    it = Provider(tmp_path)
    yield it
    it.close()


@pytest.fixture
def small_llama():
    """The configuration of a Llama of one layer that knows eight tokens."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=8,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )


@pytest.fixture
def run_apart(tmp_path):
    """run_apart(code, *arguments): the code in a Python of its own, offline, in the test's folder; what lies there is imported first."""

    def run(code: str, *arguments: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def _no_skip(report):
    """Where engines are required, a test that skips is a test that fails."""
    if os.environ.get("REQUIRE_ENGINES") and report.skipped:
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _no_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _no_skip((yield))
