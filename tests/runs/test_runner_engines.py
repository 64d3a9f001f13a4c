"""The run script with what may stand on a box: py-spy, rclone, the buckets' own tools, a login over ssh, and no network at all."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import engine
from tests.runs.runner_box import Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runs.runner_box", "tests.engines.sshd"]


def tool(box: Box, name: str, text: str) -> None:
    """A program on the run's PATH."""
    folder = box.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)
    box.env["PATH"] = f"{folder}:{box.env['PATH']}".replace(f"{folder}:{folder}:", f"{folder}:")


def rows(box: Box, mode: str = "full") -> list[list[str]]:
    """mode, result, item, to, seconds, detail of each copy."""
    path = box.run_dir / "synced.tsv"
    return [
        row
        for row in (line.split("\t")[1:] for line in path.read_text().splitlines())
        if row[0] == mode
    ]


def calls(box: Box) -> list[list[str]]:
    path = box.folder / "calls"
    return (
        [line.split("\x1f")[:-1] for line in path.read_text().splitlines()] if path.exists() else []
    )


RECORD = 'printf "%s\\x1f" "${{0##*/}}" "$@" >> {0}/calls; echo >> {0}/calls'


def test_py_spy_takes_the_stacks_before_anything_is_killed(box: Box):
    real = engine("py-spy", "pip install py-spy")
    tool(box, "py-spy", f'[[ -d /proc/$3 ]] && echo "$3" >> {box.folder}/living; exec {real} "$@"')
    box.make("--hang-at", 12, "--fail-times", 1, RGT_STALL_LOG_SECONDS=3)
    box.start()
    assert box.wait(timeout=90)["phase"] == "done"
    took = box.events("stacks")[0]
    assert took["how"] == "py-spy", "".join(
        path.read_text() for path in (box.run_dir / "stacks").iterdir()
    )
    kept = list((box.run_dir / "stacks").glob("attempt-1-pid-*.txt"))
    assert [path.stem.rpartition("-")[2] for path in kept] == (
        box.folder / "living"
    ).read_text().split()
    assert "knobs" in kept[0].read_text() and "MainThread" in kept[0].read_text()
    assert b"Aborted" not in box.output() and b"Fatal Python error" not in box.output()
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)


def test_rclone_copies_are_checked_at_the_destination_and_mended(box: Box):
    engine("rclone", "apt-get install -y --no-install-recommends rclone")
    there = box.folder / "there"
    config = box.folder / "rclone.conf"
    config.write_text(f"[keep]\ntype = alias\nremote = {there}\n")
    box.env["RCLONE_CONFIG"] = str(config)
    name = "it's [1] {a,b} *.bin"
    values = {
        "RGT_DURABLE": "rclone:keep:runs/a b",
        "RGT_SYNC": [str(box.checkpoints), name],
        "RGT_SYNC_MINUTES": "0.02",
        "RGT_EXPECT": [name],
    }
    box.make("--final", name, **values)
    (box.folder / "run").mkdir()
    (box.folder / "run/it's [1] {a,b} other.bin").write_text("not asked for")
    assert box.verb("run").returncode == 0, box.log()
    assert {row[1] for row in rows(box)} == {"ok"}, rows(box)
    assert (there / "runs/a b" / name).read_bytes() == undisturbed()
    assert not (there / "runs/a b/it's [1] {a,b} other.bin").exists()
    assert list((there / "runs/a b/log").iterdir())
    copy = there / "runs/a b/ckpt/step-40.pt"
    right, when = copy.read_bytes(), copy.stat().st_mtime_ns
    copy.write_bytes(right[:-9] + b"!" + right[-8:])
    os.utime(copy, ns=(when, when))
    bad = box.verb("sync")
    assert bad.returncode == 1 and "step-40.pt" in bad.stderr + rows(box)[-2][5], (
        bad.stderr,
        rows(box),
    )
    assert box.verb("sync").returncode == 0
    assert copy.read_bytes() == right
    shutil.rmtree(box.run_dir)
    shutil.rmtree(box.checkpoints)
    box.make("--final", name, **values)
    assert box.verb("run").returncode == 0
    assert box.events("restored") and not box.steps(), "the last checkpoint came back whole"
    config.write_text(config.read_text().replace("alias", "nothing"))
    assert box.verb("sync").returncode == 1


@pytest.mark.parametrize("kind", ["s3", "gcloud", "gsutil"])
def test_a_bucket_is_written_by_its_own_tool_and_looked_at(box: Box, kind):
    name = "a [1], it's.bin"
    where = "s3://bucket/runs/a b" if kind == "s3" else "gs://bucket/runs/a b"
    record = RECORD.format(box.folder)
    says = {
        "s3": "[[ $* == *--dryrun* ]] && cat {0}/says; exit 0",
        "gcloud": "[[ $* == *--dry-run* ]] && cat {0}/says; exit 0",
        "gsutil": '[[ $* == *" -n "* ]] && cat {0}/says; exit 0',
    }[kind]
    tool(box, {"s3": "aws"}.get(kind, kind), f"{record}\n{says.format(box.folder)}")
    (box.folder / "says").write_text("")
    if kind == "gsutil":  # everything of this PATH but gcloud
        for program in (
            program
            for place in os.environ["PATH"].split(":")
            if Path(place).is_dir()
            for program in Path(place).iterdir()
        ):
            if program.name != "gcloud" and not (box.folder / "bin" / program.name).exists():
                (box.folder / "bin" / program.name).symlink_to(program)
        box.env["PATH"] = str(box.folder / "bin")
    box.make(
        "--sleep",
        0,
        "--final",
        name,
        RGT_DURABLE=where,
        RGT_SYNC=[str(box.checkpoints), name],
        RGT_EXPECT=[name],
        RGT_SYNC_TRIES=1,
        RGT_RESUME="none",
    )
    assert box.verb("run").returncode == 0, box.log()
    assert {row[1] for row in rows(box)} == {"ok"}, rows(box)
    folder, run = str(box.checkpoints), str(box.run_dir)
    regex = "(?!a \\[1\\]\\x2c it's\\.bin$).*"
    expected = {
        "s3": [
            ["aws", "s3", "sync", folder, f"{where}/ckpt", "--only-show-errors"],
            ["aws", "s3", "sync", folder, f"{where}/ckpt", "--dryrun"],
            [
                "aws",
                "s3",
                "sync",
                run,
                where,
                "--only-show-errors",
                "--exclude",
                "*",
                "--include",
                "a [[]1], it's.bin",
            ],
            [
                "aws",
                "s3",
                "sync",
                run,
                where,
                "--dryrun",
                "--exclude",
                "*",
                "--include",
                "a [[]1], it's.bin",
            ],
        ],
        "gcloud": [
            ["gcloud", "storage", "rsync", "-r", folder, f"{where}/ckpt"],
            [
                "gcloud",
                "storage",
                "rsync",
                "--dry-run",
                "--checksums-only",
                "-r",
                folder,
                f"{where}/ckpt",
            ],
            ["gcloud", "storage", "rsync", f"--exclude=^{regex}", run, where],
            [
                "gcloud",
                "storage",
                "rsync",
                "--dry-run",
                "--checksums-only",
                f"--exclude=^{regex}",
                run,
                where,
            ],
        ],
        "gsutil": [
            ["gsutil", "-m", "rsync", "-r", folder, f"{where}/ckpt"],
            ["gsutil", "-m", "rsync", "-n", "-c", "-r", folder, f"{where}/ckpt"],
            ["gsutil", "-m", "rsync", "-x", f"^{regex}", run, where],
            ["gsutil", "-m", "rsync", "-n", "-c", "-x", f"^{regex}", run, where],
        ],
    }[kind]
    assert calls(box)[:4] == expected
    (box.folder / "says").write_text(
        "(dryrun) upload: x to s3://y\n" if kind == "s3" else "Would copy file://x to gs://y\n"
    )
    assert box.verb("sync").returncode == 1, "a file that would be copied again is not there"
    (box.folder / "says").unlink()
    tool(
        box,
        {"s3": "aws"}.get(kind, kind),
        "[[ $* == *dryrun* || $* == *--dry-run* || $* == *' -n '* ]] && echo 'no credentials' >&2 && exit 1; exit 0",
    )
    assert box.verb("sync").returncode == 1, "an answer that did not come is no verification"
    assert "no credentials" in rows(box)[-2][5]
    tool(box, {"s3": "aws"}.get(kind, kind), "exit 0")
    box.make(
        RGT_COMMAND=["true"],
        RGT_EXPECT=[],
        RGT_STAGE=[f"{where}/data.tar", "data"],
        RGT_RESUME="none",
    )
    box.verb("resume")
    assert "no file came" in box.wait("failed")["reason"], box.log()


@pytest.mark.parametrize("stop", ["answers", "hangs"])
def test_the_deadline_holds_on_a_box_whose_network_is_gone(box: Box, stop):
    if (
        os.getuid()
        or subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("unshare -n needs root")
    engine("rsync", "apt-get install -y rsync")
    network = engine("ip", "apt-get install -y iproute2", "/usr/sbin")
    line = {
        "answers": f"date +%s >> {box.folder}/stopped",
        "hangs": f"trap '' TERM; echo asked >> {box.folder}/tried; sleep 1000 & wait; sleep 1000",
    }[stop]
    box.make(
        "--steps", 4000, RGT_DURABLE="gpu@10.99.99.2:kept", RGT_SYNC=[str(box.checkpoints)], RGT_SYNC_MINUTES="0.02", RGT_SAVE_SECONDS=3, RGT_DEADLINE=f"at:{int(time.time()) + 16}",
        RGT_AT_END="stop", RGT_SELF_STOP=line, RGT_TARGET="ssh", RGT_NOTIFY=["bash", "-c", f"cat >> {box.folder}/alarms; date +%s >> {box.folder}/alarmed"], RGT_RESUME="none",
    )  # fmt: skip
    # Packets go out and nobody answers, as behind a cable that was pulled.
    inside = f"{network} link set lo up; {network} link add d type dummy && {network} addr add 10.99.99.1/24 dev d && {network} link set d up; exec bash {box.script} start"
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", inside],
        env=box.env,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    end = int((box.run_dir / "deadline").read_text())
    told = box.folder / ("stopped" if stop == "answers" else "alarmed")
    box.until(
        lambda: told.exists() and told.read_text(), timeout=90
    )  # the shell makes the file before `date` writes into it
    assert end <= int(told.read_text().split()[0]) <= end + 60
    assert box.marker("preempted")["class"] == "deadline" and b"leaving" in box.output()
    if stop == "hangs":
        assert "exit status" in (box.folder / "alarms").read_text()
        assert [
            words
            for words in (Path(f"/proc/{pid}/cmdline").read_bytes() for pid in box.processes())
            if b"tried" in words
        ] == []


@pytest.mark.parametrize("verb", ["start", "run"])
def test_a_client_killed_under_a_terminal_takes_nothing_with_it(box: Box, sshd, verb):
    box.make("--sleep", 0.1, "--every", 2)
    client = sshd.popen(
        f"bash {box.script} {verb}",
        tty=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    box.at_step(5)
    os.kill(client.pid, signal.SIGKILL)
    client.wait(90)
    sshd.cut()
    assert box.wait(timeout=60)["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)
    assert not box.events("save-now") and len(box.events("attempt")) == 1


def test_a_notice_after_a_start_over_ssh_saves_and_the_next_start_goes_on(box: Box, sshd):
    box.make("--sleep", 0.1)
    start = f"bash {box.script} start"
    client = sshd.popen(start, tty=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    box.at_step(7)
    client.kill()
    client.wait(90)
    os.kill(
        box.pid("runner"), signal.SIGTERM
    )  # what a provider's notice does, five seconds before the KILL
    box.until(lambda: (box.run_dir / ".preempted").exists(), timeout=20)
    box.kill_everything()
    sshd.start()
    again = sshd.run(start, timeout=60)
    assert again.returncode == 0 and "started toy in " in again.stdout, again.stdout + again.stderr
    assert box.wait(timeout=60)["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert [step for _, step, _ in box.steps()] == list(range(1, 41))
