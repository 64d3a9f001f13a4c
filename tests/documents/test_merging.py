"""Two branches that each add an entry: of two families git merges them, of one the second renumbers and runs one command."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ENTRY, ROOT

# What `rgt dev docs` reads or writes.
PARTS = (
    "references",
    "profiles",
    "server",
    "scripts",
    "tools",
    "docs",
    "examples",
    "hooks",
    "README.md",
    "README.zh-CN.md",
)
FILES = (
    ".gitattributes",
    "SKILL.md",
    "evals/RESULTS.md",
    "evals/INPUT.md",
    "evals/FIT.md",
    "evals/BENCHMARK.md",
    "evals/benchmark/night/README.md",
    "evals/PROBE.md",
    "evals/probe/projects_probe_alone.json",
    "evals/probe/projects/README.md",
    "evals/sets/sealed_opened.json",
    "tests/records/bit_flips.json",
    "tests/records/sound_products.json",
    "tests/records/gpu_campaign_h100.json",
    "tests/runs/launch_scripts.yaml",
)
VECTORS = "server/remote_gpu_trainer/retrieval/vectors.txt"
LIST = "## Which of these is it?\n\n"
LISTS = (VECTORS, "hooks/signatures.txt")  # hold a line of each entry


class Clone:
    """A repository with this tree as its first commit, on the branch `main`."""

    def __init__(self, root):
        self.root = root
        for name in (*PARTS, *FILES):
            source, target = ROOT / name, root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.is_file():
                shutil.copy(source, target)
        self.git("init", "-q", "-b", "main")
        self.commit("The tree as it is")

    def git(self, *arguments, ok=True) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *identity, "-c", "core.autocrlf=false", *arguments],
            cwd=self.root,
            capture_output=True,
            text=True,
        )
        assert (done.returncode == 0) == ok, done.stdout + done.stderr
        return done.stdout

    def rgt(self, *arguments):
        """Run a command of the clone's own package."""
        env = {**os.environ, "PYTHONPATH": str(self.root / "server")}
        return subprocess.run(
            [sys.executable, "-m", "remote_gpu_trainer", *arguments],
            cwd=self.root,
            env={**env, "XDG_CACHE_HOME": str(self.root / ".git/cache")},
            capture_output=True,
            text=True,
        )

    def commit(self, subject):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)

    def path(self, family):
        """The page of a family."""
        return self.root / bundle.load().families[family][0].path

    def new_entry(self, family, number, text):
        """Put an entry at the end of its family's page, as `rgt dev new-entry` does, and its id
        into the list at the head.
        """
        page = self.path(family).read_text(encoding="utf-8").rstrip("\n")
        page = page.replace(LIST, f"{LIST}Rattles: [{family}{number}].\n\n", 1)
        entry = text.replace("### O3 ", f"### {family}{number} ")
        self.path(family).write_text(f"{page}\n\n{entry}", encoding="utf-8", newline="\n")

    def branch_with_entry(self, name, family, number, text) -> set[str]:
        """A branch from main with a new entry, as CONTRIBUTING says; returns the changed files."""
        self.git("checkout", "-q", "main")
        self.git("checkout", "-q", "-b", name)
        self.new_entry(family, number, text)
        done = self.rgt("dev", "docs", "--write")
        assert done.returncode == 0, done.stderr
        self.commit(f"Add {family}{number}")
        return set(self.git("diff", "--name-only", "main").split())

    def is_right(self):
        """Assert that the generated documents and the catalogue are as they should be."""
        docs, lint = self.rgt("dev", "docs"), self.rgt("dev", "lint")
        assert (docs.returncode, docs.stdout) == (0, ""), docs.stdout + docs.stderr
        assert (lint.returncode, lint.stdout) == (0, ""), lint.stdout + lint.stderr


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return Clone(tmp_path_factory.mktemp("clone"))


def made_up(what: str) -> str:
    """The text of an entry about something that no other entry is about."""
    return (
        ENTRY.replace("the loss has no way back to the weights of the model", f"the {what} rattles")
        .replace("`element 0 of tensors does not require grad`", f"`{what} rattled at step 1`")
        .replace("backward fails", f"my {what} rattles")
    )


def next_number(family: str) -> int:
    """The number of the next new entry of a family."""
    known = bundle.load()
    taken = [*known.by_id, *known.successors]
    return 1 + max(int(m[1]) for id in taken if (m := re.fullmatch(rf"{family}(\d+)[a-z]?", id)))


# O and P are neighbours in the file of vectors, and so are the last of one and the first of the other.
def test_entries_of_two_families_merge_without_a_conflict(clone):
    o, p = next_number("O"), next_number("P")
    one = clone.branch_with_entry("one", "O", o, made_up("flux capacitor of the trainer"))
    two = clone.branch_with_entry("two", "P", p, made_up("tachyon filter of the loader"))
    page_of = {f: clone.path(f).relative_to(clone.root).as_posix() for f in "OP"}
    assert one == {page_of["O"], *LISTS} and two == {page_of["P"], *LISTS}
    clone.git("merge", "-q", "--no-edit", "one")
    clone.is_right()
    vectors = (clone.root / VECTORS).read_text(encoding="ascii")
    assert re.search(rf"\nO{o} \w+ \S+\n# P\n", vectors) and f"\nP{p} " in vectors


def test_of_two_entries_of_one_family_the_second_is_renumbered_and_one_command_does_the_rest(clone):
    o = next_number("O")
    first, second = made_up("warp coil of the sampler"), made_up("ion drive of the scheduler")
    clone.branch_with_entry("first", "O", o, first)
    clone.branch_with_entry("second", "O", o, second)
    clone.git("merge", "-q", "--no-edit", "first", ok=False)
    page = clone.path("O").relative_to(clone.root).as_posix()
    assert set(clone.git("diff", "--name-only", "--diff-filter=U").split()) == {page, VECTORS}
    clone.git("checkout", "-q", "--theirs", page)  # the first entry; then the second again
    clone.new_entry("O", o + 1, second)
    assert "<<<<<<<" in (clone.root / VECTORS).read_text(encoding="ascii")
    assert clone.rgt("lookup", "the warp coil rattles").returncode == 2
    assert clone.rgt("dev", "docs", "--write").returncode == 0
    clone.is_right()
    clone.commit("Merge the first")
    changed = [
        line for line in clone.git("diff", "-U0", "main", VECTORS).splitlines() if line[:2] != "@@"
    ]
    assert [line.split(" ")[0] for line in changed[4:]] == [f"+O{o}", f"+O{o + 1}"]
