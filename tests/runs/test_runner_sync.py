"""Copies to the durable place: each looked at there, none of them able to stop or hold up the run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.runs.runner_box import Box, undisturbed

pytest_plugins = ["tests.runs.runner_box", "tests.engines.sshd"]


def rows(box: Box) -> list[dict]:
    path = box.run_dir / "synced.tsv"
    names = ("t", "mode", "result", "item", "to", "seconds", "detail")
    return (
        [dict(zip(names, line.split("\t"), strict=True)) for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )


def durable(box: Box, **more) -> dict:
    return {
        "RGT_DURABLE": str(box.folder / "durable"),
        "RGT_SYNC": [str(box.checkpoints), "final.bin"],
        "RGT_SYNC_MINUTES": "0.02",
    } | more


def test_checkpoints_are_copied_while_it_runs_and_checked_whole_at_the_end(box: Box):
    box.make(**durable(box))
    box.start()
    box.until(lambda: any(row["mode"] == "quick" and row["result"] == "ok" for row in rows(box)))
    assert box.wait()["phase"] == "done"
    last = {row["item"]: row for row in rows(box) if row["mode"] == "full"}
    assert {row["result"] for row in last.values()} == {"ok"} and len(last) == 2
    assert (box.folder / "durable/final.bin").read_bytes() == undisturbed()
    assert box.status()["last_sync"] | {"t": 0} == {
        "t": 0,
        "ok": True,
        "to": str(box.folder / "durable"),
    }


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
    (tools / "rsync").write_text(
        f'#!/bin/bash\n[[ -e {box.folder}/cut ]] && echo "connection unexpectedly closed" >&2 && exit 12\nexec {real} "$@"\n'
    )
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


def test_a_destination_that_never_answers_leaves_the_run_unsaved_and_not_failed(box: Box):
    (box.folder / "durable").mkdir()
    (box.folder / "durable/ckpt").write_text("in the way")
    box.make("--sleep", 0, **durable(box, RGT_SYNC_TRIES=2))
    assert box.verb("run").returncode == 74
    assert box.marker("unsaved")["exit"] == 0
    assert box.status()["last_sync"]["ok"] is False


def test_what_was_never_there_is_not_called_verified_after_a_good_end(box: Box):
    box.make("--sleep", 0, **durable(box, RGT_SYNC=[str(box.checkpoints), "resluts"]))
    assert box.verb("run").returncode == 74
    assert box.status()["last_sync"]["ok"] is False and len(box.events("sync-failed")) == 1
    last = {row["item"]: row for row in rows(box) if row["mode"] == "full"}
    assert last[str(box.checkpoints)]["result"] == "ok" and last["resluts"]["result"] == "failed"
    again = box.verb("sync")
    assert (
        again.returncode == 1
        and "resluts after the run's end, although durable.what names it" in again.stderr
    )
    (box.run_dir / "resluts").write_text("x")
    assert box.verb("sync").returncode == 0 and box.status()["last_sync"]["ok"] is True


def test_what_a_failed_run_never_wrote_is_absent_and_no_fault(box: Box):
    box.make(
        "--sleep", 0, "--fail-at", 3, **durable(box, RGT_SYNC=[str(box.checkpoints), "final.bin"])
    )
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
    box.make(
        RGT_COMMAND=["cat", "data here/a b.txt"],
        RGT_EXPECT=[],
        RGT_STAGE=[str(source), "data here"],
    )
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
    box.make(
        "--sleep",
        0,
        RGT_WORK_DIR=str(box.folder / "work"),
        RGT_DURABLE=str(box.folder / "durable/run"),
        RGT_SYNC=items,
        RGT_EXPECT=[],
    )
    assert box.verb("run").returncode == 0
    assert sorted(path.read_text() for path in (box.folder / "durable/run").rglob("a file")) == [
        "common",
        "one/out",
        "two/out",
    ]
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
    box.until(
        lambda: [p for p in box.processes() if b"rsync" in Path(f"/proc/{p}/cmdline").read_bytes()]
    )
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
    with subprocess.Popen(
        ["bash", "-c", f"bash {box.script} sync; sleep 60; true"],
        env=box.env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as login:
        box.until(lambda: (box.run_dir / "sync.pid").exists())
        assert box.verb("stop", timeout=100).returncode == 0
        assert login.poll() is None
        os.killpg(login.pid, 9)


def without_rsync(box: Box) -> None:
    tools = box.folder / "bin"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin", "/usr/sbin"):
        for program in Path(folder).iterdir():
            if program.name != "rsync" and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    box.env["PATH"] = str(tools)


@pytest.mark.parametrize("tool", ["rsync", "cp"])
def test_what_a_link_leads_to_elsewhere_is_copied_and_links_within_stay(box: Box, tool):
    if tool == "cp":
        without_rsync(box)
    scratch, out, copy = box.folder / "scratch", box.folder / "out", box.folder / "durable/out"
    for folder in (scratch / "deep", out / "sub", copy):
        folder.mkdir(parents=True)
    (scratch / "best.pt").write_text("the weights")
    (scratch / "deep/shard.pt").write_text("a shard")
    (out / "step-1.pt").write_text("one")
    (out / "best.pt").symlink_to(scratch / "best.pt")
    (out / "sub/far.pt").symlink_to("../../scratch/best.pt")
    (out / "folder").symlink_to(scratch / "deep")
    (out / "latest.pt").symlink_to("step-1.pt")
    (box.folder / "final.pt").symlink_to(scratch / "best.pt")
    # As the runner used to leave it.
    (copy / "best.pt").symlink_to(scratch / "best.pt")
    (box.folder / "durable/final.pt").symlink_to(scratch / "best.pt")
    box.make(
        RGT_COMMAND=["true"],
        RGT_EXPECT=[],
        RGT_WORK_DIR=str(box.folder),
        **durable(box, RGT_SYNC=["out", "final.pt"]),
    )
    assert box.verb("run").returncode == 0, box.log()
    shutil.rmtree(scratch)
    for name, text in {
        "out/best.pt": "the weights",
        "out/sub/far.pt": "the weights",
        "out/folder/shard.pt": "a shard",
        "final.pt": "the weights",
    }.items():
        path = box.folder / "durable" / name
        assert not path.is_symlink() and path.read_text() == text, name
    assert (copy / "latest.pt").read_text() == "one" and (
        tool == "cp" or os.readlink(copy / "latest.pt") == "step-1.pt"
    )
    assert {row["result"] for row in rows(box)} == {"ok"} and box.status()["last_sync"][
        "ok"
    ] is True


@pytest.mark.parametrize("tool", ["rsync", "cp"])
def test_a_link_that_leads_nowhere_is_not_verified(box: Box, tool):
    if tool == "cp":
        without_rsync(box)
    box.checkpoints.mkdir()
    (box.checkpoints / "best.pt").symlink_to(box.folder / "gone/best.pt")
    (box.folder / "final.pt").symlink_to(box.folder / "gone/final.pt")
    box.make(
        "--sleep",
        0,
        RGT_WORK_DIR=str(box.folder),
        RGT_EXPECT=[],
        **durable(box, RGT_SYNC=["ckpt", "final.pt"], RGT_SYNC_TRIES=1),
    )
    assert box.verb("run").returncode == 74
    assert {row["result"] for row in rows(box)} == {"failed"} and not (
        box.run_dir / "final-sync"
    ).exists()
    assert "a link to nothing: " in rows(box)[-1]["detail"]
    assert (box.folder / "durable/ckpt/step-40.pt").exists(), "the others are copied"


def test_a_link_back_to_its_own_folder_fills_no_disk(box: Box):
    box.checkpoints.mkdir()
    (box.checkpoints / "self").symlink_to(box.folder)
    box.make("--sleep", 0, **durable(box, RGT_SYNC_TRIES=1))
    assert box.verb("run").returncode == 74
    assert "leads back to" in next(row["detail"] for row in rows(box) if row["result"] == "failed")
    assert (box.folder / "durable/ckpt/step-40.pt").exists() and (
        box.folder / "durable/ckpt/self"
    ).is_symlink()


def test_a_bucket_gets_what_links_lead_to(box: Box):
    tools = box.folder / "bin"
    tools.mkdir()
    (tools / "rclone").write_text(
        f'#!/bin/sh\nprintf "%s " "$@" >>{box.folder}/calls; echo >>{box.folder}/calls\n'
    )
    (tools / "rclone").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    box.make(
        "--sleep",
        0,
        **durable(
            box, RGT_DURABLE="rclone:b:x", RGT_SYNC=[str(box.checkpoints)], RGT_RESUME="none"
        ),
    )
    assert box.verb("sync").returncode == 0
    box.checkpoints.mkdir()
    assert box.verb("sync").returncode == 0
    (box.checkpoints / "best.pt").symlink_to("/etc/hostname")
    assert box.verb("sync").returncode == 0
    calls = [
        line
        for line in (box.folder / "calls").read_text().splitlines()
        if str(box.checkpoints) in line
    ]
    assert ["--copy-links" in line for line in calls] == [False, False, True, True]


def test_a_mistyped_name_is_not_verified_where_a_failed_run_has_saved_something(box: Box):
    box.make("--sleep", 0, "--fail-at", 7, **durable(box, RGT_SYNC=["resluts", "fianl.bin"]))
    box.verb("run")
    sync = box.status()["last_sync"]
    assert (
        box.marker("failed")
        and sync["ok"] is False
        and (sync["copied"], sync["absent"]) == (0, ["resluts", "fianl.bin"])
    )
    assert not (box.run_dir / "final-sync").exists() and len(box.events("sync-failed")) == 1


def test_a_run_that_failed_before_it_wrote_anything_has_nothing_to_verify(box: Box):
    box.make(RGT_COMMAND=["false"], **durable(box, RGT_SYNC=["final.bin"]))
    box.verb("run")
    assert (box.run_dir / "final-sync").exists() and box.status()["last_sync"] | {
        "t": 0,
        "to": "",
    } == {"t": 0, "to": "", "ok": True, "copied": 0, "absent": ["final.bin"]}


@pytest.mark.parametrize("items", [["events.jsonl", "log"], ["."], ["log/tb"]], ids=" ".join)
def test_the_runner_s_own_files_do_not_cover_the_user_s(box: Box, items):
    work = box.folder / "work"
    (work / "log/tb").mkdir(parents=True)
    for name in ("events.jsonl", "log/runner.log", "log/tb/events"):
        (work / name).write_text("the user's")
    box.make("--sleep", 0, RGT_WORK_DIR=str(work), RGT_EXPECT=[], **durable(box, RGT_SYNC=items))
    assert box.verb("run").returncode == 0
    copy = box.folder / "durable"
    assert (copy / "log/tb/events").read_text() == "the user's" and (
        copy / "runner/log/runner.log"
    ).exists()
    if items != ["log/tb"]:
        assert (
            (copy / "events.jsonl").read_text()
            == (copy / "log/runner.log").read_text()
            == "the user's"
        )
