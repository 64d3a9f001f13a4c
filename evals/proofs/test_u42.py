"""U42: a copy that is behind, how hashes show it, and a folder for each commit."""

import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(
    not shutil.which("git") or not shutil.which("sha256sum"), reason="needs git and sha256sum"
)
COMPARE = "git ls-files -z | xargs -0 sha256sum | (cd ../box && sha256sum -c --quiet)"
DEPLOY = 'sha=$(git rev-parse --short HEAD); git archive "$sha" | (mkdir -p "../runs/$sha" && tar xf - -C "../runs/$sha"); echo "$sha"'


@pytest.fixture
def bash(tmp_path):
    """Two checkouts, `here` and `box`, of one repository. `here` is a commit ahead, and has pushed it."""
    who = {
        f"GIT_{role}_{what}": "proof@example.com"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    env = {
        **os.environ,
        **who,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "LC_ALL": "C",
    }

    def run(script, folder="here"):
        return subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path / folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=20,
        )

    setup = """
        git init -q --bare hub.git && git clone -q hub.git here && cd here
        echo 'RATE = 1' > model.py && git add . && git commit -qm one && git push -q origin HEAD
        cd .. && git clone -q hub.git box && cd here
        echo 'RATE = 2' > model.py && git commit -qam two && git push -q origin HEAD"""
    assert run(setup, ".").returncode == 0
    return run


def test_hashes_name_the_file_that_is_old_on_the_box_and_nothing_after_a_pull(bash):
    behind = bash(COMPARE)
    assert (behind.returncode, behind.stdout) == (1, "model.py: FAILED\n")
    assert bash("git pull -q", "box").returncode == 0
    same = bash(COMPARE)
    assert (same.returncode, same.stdout) == (0, "")


def test_a_pull_that_an_edit_on_the_box_blocks_leaves_the_old_code_there(bash):
    blocked = bash("echo 'RATE = 9' > model.py; git pull; echo started >&2", "box")
    assert blocked.returncode == 0
    assert "started" in blocked.stderr
    assert bash("cat model.py", "box").stdout == "RATE = 9\n"


def test_each_commit_gets_a_folder_of_its_own(bash):
    first = bash(DEPLOY).stdout.strip()
    assert bash("echo 'RATE = 3' > model.py && git commit -qam three").returncode == 0
    second = bash(DEPLOY).stdout.strip()
    assert bash("cat model.py", f"runs/{first}").stdout == "RATE = 2\n"
    assert bash("cat model.py", f"runs/{second}").stdout == "RATE = 3\n"


def test_status_sees_a_new_file_that_an_archive_would_leave_out_and_diff_does_not(bash):
    assert bash("echo > new.py; git diff --quiet HEAD").returncode == 0
    assert bash("git status --porcelain").stdout == "?? new.py\n"


def test_a_process_keeps_the_code_that_it_began_with(bash):
    code = "import model, time; open('up', 'w').close(); time.sleep(1); import model; print(model.RATE)"
    script = f'python3 -c "{code}" & while [ ! -e up ]; do sleep 0.05; done; echo "RATE = 7" > model.py; wait'
    assert bash(script).stdout == "2\n"


def test_the_comparison_is_that_of_the_entry(shell_of):
    assert shell_of("U42", "ls-files") == COMPARE.replace("(cd ../box", "ssh gpu 'cd proj").replace(
        "--quiet)", "--quiet'"
    )
