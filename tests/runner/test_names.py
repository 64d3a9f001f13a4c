"""What a run leaves in its folder is in the table of names."""

import os
import re

from remote_gpu_trainer.runner import names, procs
from remote_gpu_trainer.runner.folder import Folder
from remote_gpu_trainer.runner.locks import try_lock
from remote_gpu_trainer.text.proc import NOTED

from tests.conftest import ROOT
from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

ROOMS = ("runner", "runs", "snapshot")


def test_a_run_leaves_no_name_that_is_not_in_the_table(box: Box):
    to = {"to": str(box.folder / "durable"), "what": [str(box.checkpoints)], "every_minutes": 0}
    box.make("--sleep", 0.05, durable=to)
    box.start()
    seen: set[str] = set()
    while box.status()["alive"]:
        seen |= names_in(box)
    assert box.wait()["phase"] == "done"
    seen |= names_in(box)
    ours = {name for name in seen if names.find_name(name)}
    assert seen - ours == {"final.bin", "steps.log"}, "of the program itself"
    shown = {name for name in ours if name[0] != "." and "/" not in name}
    assert len(shown) <= 13, "a dozen that somebody sees who lists the folder"
    assert len(ours) > 20


def names_in(box: Box) -> set[str]:
    inside = (path.name for path in box.run_dir.iterdir())
    return {*inside, *(f"own/{path.name}" for path in (box.run_dir / "own").glob("*"))}


def test_the_table_names_each_thing_once_and_nothing_that_is_gone():
    text = "".join(
        path.read_text(encoding="utf-8")
        for room in ROOMS
        for path in (ROOT / "server/remote_gpu_trainer" / room).rglob("*")
        if path.suffix in (".py", ".sh") and path.name != "names.py"
    )
    for row in names.TABLE:
        assert names.find_name(row.name) is row
        bare = row.name.strip(".*").rstrip("-")
        assert re.search(rf"[\"/.]{re.escape(bare)}\b", text), row.name


def test_a_file_that_is_just_written_belongs_to_its_name():
    assert names.find_name("state.json.tmp.7.8") is names.find_name("state.json")
    assert names.find_name("node-3") and not names.find_name("model.pt")


def test_a_process_that_an_older_version_started_is_seen_to_live(tmp_path):
    folder, me = Folder(str(tmp_path)), os.getpid()
    folder.make()
    folder.write("attempt.json", '{"attempt": 3, "log_first": 0, "checkpoint": "", "anew": true}\n')
    told = procs.stat(me)
    assert told is not None
    folder.write("train.pid", f"{me} {told.start}\n")
    assert procs.alive(folder, "train") == me
    procs.note_program(folder, 1)
    assert procs.alive(folder, "train") == 1 and folder.attempt() == 3
    for name in ("runner", "supervisor", "sync"):
        folder.touch(NOTED[name])  # a lock, which was empty then
        folder.write(f"{name}.pid", f"{me} {told.start}\n")
        assert procs.alive(folder, name) == me
        procs.note_pid(folder, name, 1)
        assert procs.alive(folder, name) == 1


def test_a_pid_is_noted_in_the_lock_itself_and_forgotten_there(tmp_path):
    folder = Folder(str(tmp_path))
    lock = try_lock(folder.at("lock"))
    assert lock is not None
    procs.note_pid(folder, "runner", os.getpid(), "more" * 9)
    procs.note_pid(folder, "runner", os.getpid())
    assert os.path.samestat(os.fstat(lock), os.stat(folder.at("lock")))
    assert folder.read("lock").split()[0] == str(os.getpid()) and "more" not in folder.read("lock")
    assert try_lock(folder.at("lock")) is None
    procs.forget_pid(folder, "runner")
    assert not procs.noted(folder, "runner")[0] and not folder.read("lock").strip()
    os.close(lock)
