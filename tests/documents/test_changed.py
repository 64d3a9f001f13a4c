"""`--changed` runs the proofs of what a change touched, and a seventh of the others."""

import subprocess

import pytest

from tests.changed import Changed

PAGE = "# A\n\n### O1 — one\n\nfix a\n\n### O2 — two\n\nfix b\n"
PINS = 'proofs = [\n    "torch==1",\n]\n'


@pytest.fixture
def clone(tmp_path):
    def git(*words):
        user = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *user, *words], check=True, capture_output=True)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / {"page": "references/a.md", "pins": "pyproject.toml"}.get(
                name,
                f"evals/probe/{name[5:]}.py" if name[:5] == "pair " else f"evals/proofs/{name}.py",
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Changed(tmp_path)

    git("init", "-q", "-b", "main")
    write(page=PAGE, pins=PINS, test_o1="1", test_o2="2", test_o3="3", conftest="4")
    git("add", ".")
    git("commit", "-qm", "one")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    return write


def kept(changed: Changed) -> set[str]:
    names = {f"evals/proofs/test_o{n}.py" for n in (1, 2, 3)}
    return {name[-4] for name in names if changed.keeps(name)}


@pytest.mark.parametrize(
    ("change", "runs"),
    [
        ({}, set()),
        ({"page": PAGE.replace("fix b", "fix c")}, {"2"}),
        ({"test_o3": "other"}, {"3"}),
        ({"pins": PINS.replace("==1", "==2")}, {"1", "2", "3"}),
        ({"pins": PINS + "other = 1\n"}, set()),
        ({"conftest": "other"}, {"1", "2", "3"}),
    ],
)
def test_a_proof_runs_when_its_entry_its_file_or_its_pins_changed(clone, monkeypatch, change, runs):
    monkeypatch.setattr(Changed, "is_drawn", lambda self, name: False)
    assert kept(clone(**change)) == runs


@pytest.mark.parametrize(
    ("change", "runs"),
    [
        ({}, set()),
        ({"page": PAGE.replace("fix b", "fix c")}, {"O2"}),
        ({"pair O1/failing": "other"}, {"O1"}),
        ({"pair healthy/ddp": "other"}, {"ddp"}),
        ({"pins": PINS.replace("==1", "==2")}, {"O1", "O2", "O3", "ddp"}),
        ({"test_o3": "other"}, set()),
    ],
)
def test_a_pair_runs_when_its_entry_its_files_or_its_pins_changed(clone, monkeypatch, change, runs):
    monkeypatch.setattr(Changed, "is_drawn", lambda self, name: False)
    changed = clone(**change)
    assert {name for name in ("O1", "O2", "O3", "ddp") if changed.keeps_pair(name)} == runs


def test_about_a_seventh_of_the_others_is_drawn_and_the_same_one_for_a_commit(clone):
    names = [f"evals/proofs/test_x{n}.py" for n in range(700)]
    first, again = clone(), clone()
    drawn = [name for name in names if first.is_drawn(name)]
    assert 60 < len(drawn) < 140 and drawn == [name for name in names if again.is_drawn(name)]


def test_without_a_clone_only_the_seventh_runs(tmp_path):
    assert Changed(tmp_path).files == set() and not Changed(tmp_path).all_proofs
