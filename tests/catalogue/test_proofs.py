"""Who says `ran` has a proof, and who has a proof says `ran`."""

from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ROOT


def test_ran_means_that_a_proof_is_there():
    proven = {path.stem.removeprefix("test_") for path in (ROOT / "evals/proofs").glob("test_*.py")}
    entries = bundle.load().entries
    ran = {entry.id.lower() for entry in entries if entry.ran}
    in_part = {
        entry.id.lower() for entry in entries if entry.needs
    }  # the rest of it needs what a CPU lacks
    assert ran <= proven and proven - ran <= in_part


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
}


def test_a_proof_ran_on_the_versions_that_the_tests_install():
    pins = (ROOT / "pyproject.toml").read_text()
    for entry in bundle.load().entries:
        for item in entry.ran.split(", ") if entry.ran else ():
            assert item.split()[0] in SYSTEM or f'"{item.replace(" ", "==")}' in pins, (
                entry.id,
                item,
            )
