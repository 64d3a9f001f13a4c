"""Who says `ran` has a proof, on the versions that the tests install."""

import re

from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ROOT


def test_ran_means_that_a_proof_is_there():
    proven = {path.stem.removeprefix("test_") for path in (ROOT / "evals/proofs").glob("test_*.py")}
    entries = bundle.load().entries
    ran = {entry.id.lower() for entry in entries if entry.ran}
    assert ran and ran <= proven


# Of the system or of the environment, not asked for by us: the date says when, the version says which.
SYSTEM = {
    "bash",
    "procps",
    "git",
    "Python",
    "OpenSSL",
    "OpenSSH",
    "make",
    "pip",
    "uv",
    "rsync",
    "Linux",
    "apt",
    "Slurm",
    "tmux",
}


def test_a_proof_ran_on_the_versions_that_the_tests_install():
    pins = (ROOT / "pyproject.toml").read_text()
    for entry in bundle.load().entries:
        versions = {}  # of "torch 2.13.0, accelerate 1.12.0 and 1.15.0"
        for item in re.split(", | and ", entry.ran) if entry.ran else ():
            name, _, version = item.rpartition(" ")
            versions.setdefault(name or next(reversed(versions), item), []).append(version)
        for name, several in versions.items():
            assert name.split()[0] in SYSTEM or any(
                f'"{name}=={version}' in pins for version in several
            ), (entry.id, name, several)
