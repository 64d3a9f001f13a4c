"""Copies to the durable place: each looked at there, none of them able to stop or hold up the run."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.runner_box import Box, undisturbed

pytest_plugins = ["tests.runner_box", "tests.engines.sshd"]


def rows(box: Box) -> list[dict]:
    path = box.run_dir / "synced.tsv"
    names = ("t", "mode", "result", "item", "to", "seconds", "detail")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in path.read_text().splitlines()] if path.exists() else []


def durable(box: Box, **more) -> dict:
    return {"RGT_DURABLE": str(box.folder / "durable"), "RGT_SYNC": [str(box.checkpoints), "final.bin"], "RGT_SYNC_MINUTES": "0.02"} | more


def test_checkpoints_are_copied_while_it_runs_and_checked_whole_at_the_end(box: Box):
    box.make(**durable(box))
    box.start()
    box.until(lambda: any(row["mode"] == "quick" and row["result"] == "ok" for row in rows(box)))
    assert box.wait()["phase"] == "done"
    last = {row["item"]: row for row in rows(box) if row["mode"] == "full"}
    assert {row["result"] for row in last.values()} == {"ok"} and len(last) == 2
    assert (box.folder / "durable/final.bin").read_bytes() == undisturbed()
    assert box.status()["last_sync"] | {"t": 0} == {"t": 0, "ok": True, "to": str(box.folder / "durable")}


def test_a_copy_that_was_changed_at_the_destination_is_noticed_and_mended(box: Box):
    box.make("--sleep", 0, **durable(box))
    assert box.verb("run").returncode == 0
    copy = box.folder / "durable/ckpt/step-40.pt"
    right, when = copy.read_bytes(), copy.stat().st_mtime_ns
    copy.write_bytes(right[:-9] + b"!" + right[-8:])
    os.utime(copy, ns=(when, when))
    bad = box.verb("sync")
    assert bad.returncode == 1 and "differs at the destination: step-40.pt" in bad.stderr
    assert box.verb("sync").returncode == 0
    assert copy.read_bytes() == right


def test_a_network_that_is_cut_during_a_copy_is_waited_for(box: Box):
    tools = box.folder / "bin"
    tools.mkdir()
    real = shutil.which("rsync")
    (tools / "rsync").write_text(f'#!/bin/bash\n[[ -e {box.folder}/cut ]] && echo "connection unexpectedly closed" >&2 && exit 12\nexec {real} "$@"\n')
    (tools / "rsync").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    cut = box.folder / "cut"
    box.make(**durable(box))
    box.start()
    box.until(lambda: any(row["result"] == "ok" for row in rows(box)))
    cut.touch()
    box.until(lambda: any("connection unexpectedly closed" in row["detail"] for row in rows(box)))
    box.until(lambda: box.status()["phase"] == "syncing", timeout=30)
    box.until(lambda: box.events("sync-failed"))
    cut.unlink()
    assert box.wait()["phase"] == "done"
    assert box.status()["last_sync"]["ok"] is True
    assert (box.folder / "durable/final.bin").read_bytes() == undisturbed()


def test_a_destination_that_never_answers_does_not_fail_the_run(box: Box):
    (box.folder / "durable").mkdir()
    (box.folder / "durable/ckpt").write_text("in the way")
    box.make("--sleep", 0, **durable(box, RGT_SYNC_TRIES=2))
    assert box.verb("run").returncode == 0
    assert box.marker("done")["exit"] == 0
    assert box.status()["last_sync"]["ok"] is False


def test_what_was_never_there_is_not_called_verified_after_a_good_end(box: Box):
    box.make("--sleep", 0, **durable(box, RGT_SYNC=[str(box.checkpoints), "resluts"]))
    assert box.verb("run").returncode == 0
    assert box.status()["last_sync"]["ok"] is False and len(box.events("sync-failed")) == 1
    last = {row["item"]: row for row in rows(box) if row["mode"] == "full"}
    assert last[str(box.checkpoints)]["result"] == "ok" and last["resluts"]["result"] == "failed"
    again = box.verb("sync")
    assert again.returncode == 1 and "resluts after the run's end, expected what durable.what names" in again.stderr
    (box.run_dir / "resluts").write_text("x")
    assert box.verb("sync").returncode == 0 and box.status()["last_sync"]["ok"] is True


def test_what_a_failed_run_never_wrote_is_absent_and_no_fault(box: Box):
    box.make("--sleep", 0, "--fail-at", 3, **durable(box, RGT_SYNC=[str(box.checkpoints), "final.bin"]))
    box.verb("run")
    assert box.marker("failed") and box.status()["last_sync"]["ok"] is True
    assert rows(box)[-1]["result"] == "absent"


def test_copies_go_over_ssh_and_are_checked_there(box: Box, sshd):
    tools = box.folder / "bin"
    tools.mkdir()
    (tools / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {sshd.ssh_config} "$@"\n')
    (tools / "ssh").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    box.make("--sleep", 0, **durable(box, RGT_DURABLE="gpu:~/kept/it's here"))
    assert box.verb("run").returncode == 0, box.log()
    assert {row["result"] for row in rows(box)} == {"ok"}, rows(box)
    assert (Path(sshd.home) / "kept/it's here/final.bin").read_bytes() == undisturbed()


def test_without_rsync_a_local_copy_is_made_by_cp(box: Box):
    tools = box.folder / "bin"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin", "/usr/sbin"):
        for program in Path(folder).iterdir():
            if program.name != "rsync" and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    box.env["PATH"] = str(tools)
    box.make("--sleep", 0, **durable(box))
    assert box.verb("run").returncode == 0, box.log()
    assert {row["result"] for row in rows(box) if row["mode"] == "full"} == {"ok"}
    assert (box.folder / "durable/final.bin").read_bytes() == undisturbed()


def test_a_new_box_takes_the_checkpoints_from_the_durable_place(box: Box):
    box.make(**durable(box))
    box.start()
    box.at_step(17)
    box.verb("stop")
    shutil.rmtree(box.run_dir)
    shutil.rmtree(box.checkpoints)
    box.start()
    assert box.wait()["phase"] == "done"
    assert box.events("restored")
    assert box.steps()[0][1] > 15
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()


def test_data_are_staged_before_the_program_starts(box: Box):
    source = box.folder / "data"
    source.mkdir()
    (source / "a b.txt").write_text("numbers")
    box.make(RGT_COMMAND=["cat", "data here/a b.txt"], RGT_EXPECT=[], RGT_STAGE=[str(source), "data here"])
    assert box.verb("run").returncode == 0, box.log()
    assert box.output() == b"numbers"
    box.make(RGT_COMMAND=["true"], RGT_EXPECT=[], RGT_STAGE=[str(box.folder / "nowhere"), "x"])
    assert box.verb("resume").returncode == 0
    assert "staging" in box.wait("failed")["reason"]


def test_no_item_leaves_the_durable_place_or_covers_another(box: Box):
    for name in ("common", "one/out", "two/out", "work"):
        (box.folder / name).mkdir(parents=True)
        (box.folder / name / "a file").write_text(name)
    items = ["../common", str(box.folder / "one/out"), str(box.folder / "two/out/")]
    box.make("--sleep", 0, RGT_WORK_DIR=str(box.folder / "work"), RGT_DURABLE=str(box.folder / "durable/run"), RGT_SYNC=items, RGT_EXPECT=[])
    assert box.verb("run").returncode == 0
    assert sorted(path.read_text() for path in (box.folder / "durable/run").rglob("a file")) == ["common", "one/out", "two/out"]
    assert [path.name for path in (box.folder / "durable").iterdir()] == ["run"]


def test_a_stop_while_data_are_staged_leaves_no_copy_running(box: Box):
    (box.folder / "data").mkdir()
    tools = box.folder / "bin"
    tools.mkdir()
    (tools / "rsync").write_text("#!/bin/sh\nsleep 300\n")
    (tools / "rsync").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    box.make(RGT_COMMAND=["true"], RGT_EXPECT=[], RGT_STAGE=[str(box.folder / "data"), "x"])
    box.popen("run")
    box.wait("staging")
    box.until(lambda: [p for p in box.processes() if b"rsync" in Path(f"/proc/{p}/cmdline").read_bytes()])
    box.verb("stop")
    box.until(lambda: not box.processes(), timeout=10)


def test_checkpoints_inside_a_copied_folder_come_back_too(box: Box):
    box.checkpoints = box.folder / "out/ckpt"
    box.make(**durable(box, RGT_SYNC=[str(box.folder / "out")]))
    box.start()
    box.at_step(17)
    box.verb("stop")
    shutil.rmtree(box.run_dir)
    shutil.rmtree(box.folder / "out")
    box.start()
    assert box.wait()["phase"] == "done"
    assert box.steps()[0][1] > 15


def test_a_durable_place_that_does_not_answer_is_no_reason_to_begin_again(box: Box):
    tools = box.folder / "bin"
    tools.mkdir()
    (tools / "ssh").write_text("#!/bin/sh\nexit 255\n")
    (tools / "ssh").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    box.make("--sleep", 0, **durable(box, RGT_DURABLE="gpu:/kept"))
    assert box.verb("run").returncode == 1
    marker = box.marker("failed")
    assert marker["class"] == "network" and "can't be looked for" in marker["reason"]
    assert not box.steps()


def test_a_copy_started_by_hand_does_not_cost_its_login_when_the_run_ends(box: Box):
    tools = box.folder / "bin"
    tools.mkdir()
    (tools / "rsync").write_text(f'#!/bin/bash\nsleep 3\nexec {shutil.which("rsync")} "$@"\n')
    (tools / "rsync").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    box.make("--steps", 4000, **durable(box, RGT_SYNC_MINUTES=60))
    box.start()
    box.at_step(6)
    with subprocess.Popen(["bash", "-c", f"bash {box.script} sync; sleep 60; true"], env=box.env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as login:
        box.until(lambda: (box.run_dir / "sync.pid").exists())
        assert box.verb("stop", timeout=100).returncode == 0
        assert login.poll() is None
        os.killpg(login.pid, 9)
