"""Preflight: what it refuses, with the entry and the reason, and what it lets pass."""

import json
import os
import sys
import time

import pytest
from remote_gpu_trainer.runner import procs, spec, verbs
from remote_gpu_trainer.runner.context import Run

from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

SMI = """#!/bin/bash
case "$*" in
  *query-compute-apps*) printf '%s' "$APPS" ;;
  *query-gpu=index*) printf '%s\\n' "${CARDS-0, GPU-aa, 10, 80000}" ;;
  *) echo "0, 60, 700, 10, NVIDIA H100" ;;
esac
"""
FAKE_TORCH = """
__version__ = "2.13.0"
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
def ones(n, device):
    raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
"""


def tool(box: Box, name: str, text: str) -> None:
    folder = box.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    box.env["PATH"] = f"{folder}:{os.environ['PATH']}"


def plain(box: Box, spec: dict | None = None, **fields) -> Box:
    """A box of no platform that has entries of its own."""
    usual = {"command": ["true"], "results": [], "python": "/usr/bin/python3", "target": "ssh"}
    return box.make(**{**usual, **fields}, spec={"profile": "", **(spec or {})})


def refusals(box: Box, *words: str) -> list[str]:
    done = box.verb("preflight", *words)
    assert (done.returncode == 0) == (not done.stdout), done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_healthy_box_is_refused_nothing(box: Box):
    assert refusals(plain(box), "--sent-at", str(int(time.time()) - 20)) == []


def test_too_little_room_is_refused_in_numbers(box: Box):
    said = refusals(plain(box, spec={"min_free_mb": 10**9, "profile": "vastai"}))
    assert (
        len(said) == 2
        and said[0].startswith(f"refused VAST10 the run folder {box.run_dir} has ")
        and said[0].endswith("MB free, expected 1000000000 MB")
    )


def test_too_few_inodes_are_refused(box: Box):
    said = refusals(plain(box, spec={"min_free_inodes": 10**12, "profile": "autodl"}))
    assert said[0].startswith("refused AD4 ") and "inodes free" in said[0]


@pytest.mark.parametrize(("floor", "entry"), [("free_gb", "U6"), ("free_inodes", "U7")])
def test_a_platform_without_an_entry_of_its_own_gets_the_one_for_all(box: Box, floor, entry):
    said = refusals(plain(box, floors={floor: 10**9}))
    assert said and all(line.startswith(f"refused {entry} ") for line in said)


def test_a_folder_that_cannot_be_written_is_refused(box: Box):
    (box.folder / "file").write_text("")
    said = refusals(plain(box, checkpoint={"folder": str(box.folder / "file/ckpt")}))
    assert said == [f"refused U47 the checkpoint folder {box.folder}/file/ckpt is not writable"]


def test_windows_line_ends_are_refused_where_a_shell_would_read_them(box: Box):
    (box.folder / "train.sh").write_bytes(b"#!/bin/bash\r\necho hi\r\n")
    (box.folder / "data.csv").write_bytes(b"a,b\r\n")
    said = refusals(
        plain(box, command=["bash", str(box.folder / "train.sh"), str(box.folder / "data.csv")])
    )
    assert (
        len(said) == 1
        and said[0].startswith("refused GEN4 ")
        and "train.sh has Windows line ends" in said[0]
    )


def test_a_clock_that_is_far_off_is_refused(box: Box):
    said = refusals(plain(box), "--sent-at", str(int(time.time()) + 4000))
    assert len(said) == 1 and said[0].startswith(
        "refused U46 the clock differs from the sender's by -"
    )


def test_a_missing_gpu_is_refused(box: Box):
    tool(box, "nvidia-smi", SMI)
    assert refusals(plain(box, gpus=2, target="kubernetes")) == [
        "refused K8S6 found 1 GPUs, expected 2"
    ]
    tool(box, "nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    said = refusals(plain(box, gpus=1))[0]
    assert said.startswith("refused U31 ") and "NVIDIA-SMI has failed" in said


@pytest.mark.parametrize(("apps", "cards", "busy"), [
    ("GPU-aa, 4242, 30000\n", "0, GPU-aa, 30010, 80000", "GPU 0 is used by process 4242 (30000 MB)"),
    ("GPU-aa, 4242, [N/A]\n", "0, GPU-aa, 30010, 80000", "GPU 0 is used by process 4242 ([N/A] MB)"),
    ("", "0, GPU-aa, 30010, 80000", "GPU 0 has 30010 of 80000 MB in use by a process that is not listed"),
    ("GPU-aa, 4242, 12\n", "0, GPU-aa, 400, 80000", ""),
    ("GPU-bb, 4242, 30000\n", "0, GPU-aa, 10, 80000\n1, GPU-bb, 30010, 80000", ""),
])  # fmt: skip
def test_a_gpu_that_others_use_is_refused(box: Box, apps, cards, busy):
    tool(box, "nvidia-smi", SMI)
    box.env |= {"APPS": apps, "CARDS": cards}
    said = refusals(plain(box, gpus=1))
    assert said == ([f"refused {'U11' if 'not listed' in busy else 'GEN7'} {busy}"] if busy else [])


def test_only_the_gpus_that_the_program_may_see_are_looked_at(box: Box):
    tool(box, "nvidia-smi", SMI)
    box.env |= {
        "APPS": "GPU-bb, 4242, 30000\n",
        "CARDS": "0, GPU-aa, 10, 80000\n1, GPU-bb, 30010, 80000",
        "CUDA_VISIBLE_DEVICES": "1",
    }
    assert "GPU 1 is used by process 4242" in refusals(plain(box, gpus=1))[0]


def test_a_kernel_that_does_not_launch_is_refused_in_the_program_s_own_interpreter(box: Box):
    tool(box, "nvidia-smi", SMI)
    (box.folder / "torch.py").write_text(FAKE_TORCH)
    box.env["PYTHONPATH"] = str(box.folder)
    said = refusals(plain(box, gpus=1, python=sys.executable, spec={"profile": "autodl"}))
    assert len(said) == 1 and said[0].startswith("refused AD9 ") and "no kernel image" in said[0]
    [said] = refusals(plain(box, gpus=1, python=sys.executable))
    assert said.startswith("refused ENV1 ")


def test_a_refused_start_says_why_and_leaves_a_failed_marker(box: Box):
    plain(box, spec={"min_free_mb": 10**9, "profile": "autodl"})
    done = box.verb("start")
    assert done.returncode == 78 and done.stderr.startswith("refused AD5 the run folder")
    marker = box.marker("failed")
    assert (marker["class"], marker["entry"], marker["exit"]) == ("disk", "AD5", None)
    assert not box.events("attempt")


def test_a_refusal_is_told_where_no_file_can_hold_it(box: Box):
    plain(box, spec={"min_free_mb": 10**9})
    (box.run_dir / "log").mkdir(parents=True)
    (box.run_dir / "log/runner.log").symlink_to("/dev/full")
    done = box.verb("start")
    assert done.returncode == 78 and done.stderr.startswith("refused U6 the run folder")
    assert "has less room than floors.free_gb: " in done.stderr


@pytest.mark.parametrize(("phase", "is_past"), [
    ("failed", False),  # an earlier start's, where a full disk keeps the old state
    ("preflight", False),
    ("staging", True),
    ("running", True),
])  # fmt: skip
def test_a_start_waits_until_its_own_checks_are_over(tmp_path, phase, is_past):
    run = Run(spec.of({"run_dir": str(tmp_path)}))
    procs.note(run.folder, "runner", os.getpid())
    run.folder.write("state.json", json.dumps({"phase": phase}))
    assert verbs._is_past_checks(run) is is_past
    run.folder.touch(".failed")
    assert verbs._is_past_checks(run)


def test_a_start_whose_run_folder_says_nothing_tells_what_the_runner_said(box: Box):
    plain(box, spec={"deadline": "at:1"})
    (box.run_dir / "log").mkdir(parents=True)
    (box.run_dir / "log/runner.log").symlink_to("/dev/full")
    (box.run_dir / "start.refused").mkdir()  # as on a full disk: it can't be written
    done = box.verb("start")
    assert done.returncode == 78 and "the deadline of toy passed" in done.stderr


@pytest.mark.parametrize("platform", ["generic-ssh", "runpod"])
def test_a_refused_start_leaves_no_process_on_a_billed_box(box: Box, platform):
    plain(box, platform=platform, floors={"free_gb": 10**6})
    assert box.verb("start").returncode == 78
    box.until(lambda: not box.processes(), timeout=15, what="somebody lives on")


def test_a_refused_start_says_that_the_box_is_ended_at_its_deadline(box: Box):
    end = {"do": "run", "command": "true", "keeps_disk": True}
    plain(box, platform="generic-ssh", floors={"free_gb": 10**6}, at_end=end)
    done = box.verb("start")
    assert "the end command still runs at the deadline; bash " in done.stderr
    assert box.processes()
    assert "its alarm and its end command are off" in box.verb("stop").stdout
    box.until(lambda: not box.processes(), timeout=15, what="somebody lives on")


def test_an_environment_is_installed_once_and_its_failure_ends_the_start(box: Box):
    plain(box, spec={"install": ["bash", "-c", f"echo installed >> {box.folder}/setup"]})
    assert box.verb("run").returncode == 0
    box.start("resume")
    box.wait("done")
    assert (box.folder / "setup").read_text() == "installed\n"
    plain(
        box, spec={"install": ["bash", "-c", "echo 'Temporary failure in name resolution'; exit 3"]}
    )
    box.verb("resume")
    marker = (box.wait("failed"), box.marker("failed"))[1]
    assert (
        marker["class"] == "network"
        and marker["reason"].startswith("environment: ")
        and marker["exit"] == 3
    )


def test_several_nodes_need_the_name_of_the_first(box: Box):

    def said(rendezvous: str | None) -> list[str]:
        return refusals(
            plain(
                box,
                launcher="torchrun",
                nodes=2,
                rendezvous=rendezvous,
                timings={"name_wait": 1},
            )
        )

    [unknown] = said(None)
    assert "address of the first node is unknown" in unknown
    [unresolved] = said("no-such-host.invalid")
    assert "can't resolve the first node's name, no-such-host.invalid" in unresolved
    assert said("localhost") == []
