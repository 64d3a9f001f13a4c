"""U44: a script without the guard runs again in every worker that is a fresh Python."""

import subprocess
import sys

import pytest
from check_code import span
from stub_box import Box

UNGUARDED = """
import multiprocessing
print("banner", flush=True)
multiprocessing.set_start_method({method!r}, force=True)
worker = multiprocessing.Process(target=print, args=("working",))
worker.start()
worker.join()
"""
GUARDED = """
import multiprocessing
def main():
    print("banner", flush=True)
    worker = multiprocessing.get_context({method!r}).Process(target=print, args=("working",))
    worker.start()
    worker.join()
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def trained(tmp_path):
    """trained(text): what a script file prints, and its errors."""

    def run(text: str) -> tuple[str, str]:
        (tmp_path / "train.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        return done.stdout, done.stderr

    return run


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_without_the_guard_the_worker_begins_the_script_anew(trained, says, method):
    printed, errors = trained(UNGUARDED.format(method=method))
    assert printed.count("banner") == 2 and "working" not in printed
    says("U44", errors)


def test_the_check_tells_a_script_without_the_guard(tmp_path):
    box = Box(tmp_path)

    def found(text: str) -> list[bool]:
        """Whether it sees work at the start of a line, a guard, an import that prints."""
        (tmp_path / "train.py").write_text(text)
        codes = [span("U44", word) for word in ("grep -nE", "grep -n '", "import train")]
        return [bool(box.said(code, PYTHONDONTWRITEBYTECODE="1")) for code in codes]

    bare = "model = None\nprint('banner')\nfor batch in (): ...\n"
    body = bare.replace("\n", "\n    ").rstrip()
    assert found(bare) == [True, False, True]
    whole = f"def main():\n    {body}\nif __name__ == '__main__':\n    main()\n"
    assert found(whole) == [False, True, False]


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_with_the_guard_it_runs_once(trained, method):
    printed, errors = trained(GUARDED.format(method=method))
    assert (printed.split(), errors) == (["banner", "working"], "")


def test_a_forked_worker_never_runs_the_file_again(trained):
    printed, _ = trained(UNGUARDED.format(method="fork"))
    assert printed.split() == ["banner", "working"]
