"""U2: bash goes on reading its script while it runs."""

import shutil
import subprocess
import time

import pytest

QUEUE = "echo one >> log\nsleep 0.6\necho two >> log\necho three >> log\n"
INSERTED = (
    "echo zero >> log".ljust(25) + "\n" + QUEUE
)  # 26 bytes, as far as bash has read when it sleeps


def run_and_change(folder, change) -> tuple[list[str], str]:
    """Steps that ran, and what bash said, when `change` happens in the first sleep."""
    script, new = folder / "queue.sh", folder / "new.sh"
    script.write_text(QUEUE)
    new.write_text(INSERTED)
    process = subprocess.Popen(["bash", script.name], cwd=folder, stderr=subprocess.PIPE, text=True)
    while not (folder / "log").exists():
        time.sleep(0.02)
    change(new, script)
    said = process.communicate(timeout=10)[1]
    return (folder / "log").read_text().split(), said


def test_a_line_inserted_by_copying_over_makes_a_step_run_twice(tmp_path):
    steps, _ = run_and_change(tmp_path, shutil.copyfile)
    assert steps == ["one", "one", "two", "three"]


def test_a_new_file_under_the_same_name_changes_nothing(tmp_path):
    steps, said = run_and_change(tmp_path, lambda new, script: new.replace(script))
    assert (steps, said) == (["one", "two", "three"], "")


@pytest.mark.parametrize("wrapped", ["main() {{\n{}}}\nmain; exit\n", "{{\n{}exit\n}}\n"])
def test_a_script_that_ends_within_what_was_read_is_safe(tmp_path, monkeypatch, wrapped):
    assert steps_of(wrapped, tmp_path, monkeypatch) == ["one", "two", "three"]


def test_an_exit_on_the_next_line_comes_too_late(tmp_path, monkeypatch):
    assert steps_of("main() {{\n{}}}\nmain\nexit\n", tmp_path, monkeypatch) != [
        "one",
        "two",
        "three",
    ]


def steps_of(wrapped: str, folder, monkeypatch) -> list[str]:
    """Steps of the same queue inside `wrapped`, copied over while it runs."""
    monkeypatch.setitem(globals(), "QUEUE", wrapped.format(QUEUE))
    monkeypatch.setitem(globals(), "INSERTED", wrapped.format(INSERTED))
    return run_and_change(folder, shutil.copyfile)[0]
