"""U2: bash goes on reading its script while it runs."""

import os
import shutil
import subprocess
import time
from datetime import datetime, timedelta

import pytest
from check_code import span

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


def copied_over(new, script):
    time.sleep(2.2)  # the start is told in whole seconds, and the system's clock of it is coarse
    shutil.copyfile(new, script)
    os.utime(script, (time.time() - 60,) * 2)  # as `scp -p` and WinSCP do


def has_opened(script, group: int) -> bool:
    """Whether a bash of this process group reads the script already."""
    found = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True)
    opened = [f"/proc/{number}/fd/255" for number in found.stdout.split()]
    return any(os.path.exists(at) and os.readlink(at) == str(script) for at in opened)


@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in a shell"])
@pytest.mark.parametrize(("change", "renamed", "younger"), [
    (copied_over, False, True),
    (lambda new, script: new.replace(script), True, False),
    (lambda new, script: None, False, False),
])  # fmt: skip
def test_the_check_tells_a_file_written_over_from_a_renamed_and_from_an_old_one(
    tmp_path, change, renamed, younger, wrapped
):
    name = f"queue_{os.getpid()}.sh"  # others may run the same test
    script, new = tmp_path / name, tmp_path / "new.sh"
    for path in (script, new):
        path.write_text("sleep 20\ntrue\n")
        os.utime(path, (time.time() - 60,) * 2)
    line = f"{'sleep 0.01; ' * wrapped}bash {script}; true"  # a shell around it, as ssh makes one
    command = ["bash", "-c", line] if wrapped else ["bash", str(script)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        while not has_opened(script, process.pid):
            time.sleep(0.02)
        change(new, script)
        code = span("U2", "pgrep").replace("run_queue\\.sh", name).replace("run_queue.sh", name)
        told = subprocess.run(
            ["bash", "-c", code], cwd=tmp_path, env={**os.environ, "LC_ALL": "C"},
            capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    assert told[0].endswith("(deleted)") is renamed
    started = datetime.strptime(told[1].strip(), "%a %b %d %H:%M:%S %Y")
    changed = datetime.strptime(told[2].split(".")[0], "%Y-%m-%d %H:%M:%S")
    assert (changed - started >= timedelta(seconds=2) and not renamed) is younger
