"""Checks before the start: what they refuse, with the entry and the reason, and what they let pass."""

import io
import os
import time

import pytest
from remote_gpu_trainer.runner import durable, preflight, procs
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of, secrets_of

SMI = """#!/bin/sh
case "$*" in
  *query-compute-apps*) printf '%s' "$APPS" ;;
  *query-gpu=index*) printf '%s\\n' "${CARDS-0, GPU-aa, 10, 80000}" ;;
esac
"""


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A run on this box; `tools` are programs in front of all others."""
    for name in ("CUDA_VISIBLE_DEVICES", "APPS", "CARDS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(durable, "check", lambda run, beat: [])

    def make(tools: dict[str, str] | None = None, **fields) -> Run:
        for name, text in (tools or {}).items():
            (tmp_path / "bin" / name).write_text(text)
            (tmp_path / "bin" / name).chmod(0o755)
        given = {"rendered": {"run_dir": str(tmp_path / "run"), "work_dir": str(tmp_path), "target": "ssh"}, "command": ["true"], "python": "/usr/bin/python3", "timings": {"tick": 0.01}}  # fmt: skip
        return Run(job_of(given, fields), clock=Clock())

    return make


def refusals(run: Run, **more) -> list[str]:
    return [f"{entry or '-'} {reason}" for _, entry, reason in preflight.check(run, **more)]


def test_a_healthy_box_is_refused_nothing(make):
    assert refusals(make(checkpoint={"folder": "ckpt"}), sent_at="1799999980") == []


@pytest.mark.parametrize(("field", "profile", "entry", "words"), [
    ("free_gb", "vastai", "VAST10", "MB free, expected 1000000000000000 MB"),
    ("free_gb", "", "U6", "MB free"),
    ("free_inodes", "autodl", "AD4", "inodes free, expected 1000000000000"),
    ("free_inodes", "", "U7", "inodes free"),
])  # fmt: skip
def test_too_little_room_is_refused_in_numbers(make, tmp_path, field, profile, entry, words):
    run = make(rendered={"profile": profile}, checkpoint={"folder": "ckpt"}, floors={field: 10**12})
    said = refusals(run)
    assert said[0].startswith(f"{entry} the run folder {run.folder.path} has ")
    assert said[1].startswith(f"{entry} the checkpoint folder {tmp_path}/ckpt has ")
    assert len(said) == 2 and words in said[0]


def test_a_folder_that_cannot_be_written_is_refused(make, tmp_path):
    (tmp_path / "file").write_text("")
    assert refusals(make(checkpoint={"folder": "file/ckpt"})) == [
        f"U47 the checkpoint folder {tmp_path}/file/ckpt is not writable"
    ]


@pytest.mark.parametrize(("answer", "refused"), [
    ((False, 0, 5), ["disk"]), ((False, None, None), ["unwritable"]), ((False, 7, None), ["unwritable"]),
    ((True, 0, 9), []), ((True, None, None), []),
])  # fmt: skip
def test_a_full_disk_is_told_as_one(make, monkeypatch, answer, refused):
    monkeypatch.setattr(preflight, "_try_folder", lambda folder: answer)
    assert [refusal.kind for refusal in preflight._folder(make(), "it", "/x", None)] == refused


def test_a_mount_that_hangs_is_refused_in_seconds(make, monkeypatch):
    monkeypatch.setattr(preflight, "FOLDER_LIMIT", 0.1)
    monkeypatch.setattr(preflight, "_try_folder", lambda folder: time.sleep(60))
    beats = []
    run = make()
    [said] = preflight._folder(run, "the run folder", "/x", lambda: bool(beats.append(1)))
    assert said.reason == "the run folder /x can't be looked at: no answer within 0.1 s" and beats


def test_a_missing_work_folder_or_command_is_refused(make, tmp_path):
    run = make(rendered={"work_dir": "gone"}, command=[])
    run.work = "/no/such"
    assert refusals(run) == [
        "- the job has no command; set `command`",
        "- the work folder /no/such is missing",
    ]


@pytest.mark.parametrize("command", [["bash", "train.sh", "data.csv"], "bash train.sh data.csv"])
def test_windows_line_ends_are_refused_where_a_shell_would_read_them(make, tmp_path, command):
    (tmp_path / "train.sh").write_bytes(b"echo hi\r\n")
    (tmp_path / "data.csv").write_bytes(b"a,b\r\n")
    assert refusals(make(command=command)) == [
        "GEN4 train.sh has Windows line ends: sed -i 's/\\r$//' train.sh"
    ]


def test_a_clock_that_is_far_off_is_refused(make):
    assert refusals(make(), sent_at="1800004000")[0] == (
        "U46 the clock differs from the sender's by -4000 s, more than 300"
    )
    assert refusals(make(), sent_at="nonsense") == []
    run = make()
    run.clock.time = 1000.0
    assert refusals(run) == ["U46 the clock says 1000, before 2026"]


def test_missing_tools_and_secrets_are_refused_by_name(make):
    run = make(
        rendered={"profile": "runpod"},
        launcher="torchrun",
        python="/no/python",
        secrets=secrets_of({"A": "/no/such"}, {"B": "NOT_SET_HERE"}),
    )
    assert refusals(run) == [
        "- /no/python is missing on this box",
        "- the secret A has no readable file /no/such",
        "RP12 the secret NOT_SET_HERE is not set in this environment",
    ]


def test_several_nodes_need_the_name_of_the_first(make):
    several = {"launcher": "torchrun", "nodes": 2}
    assert refusals(make(**several)) == [
        "- the address of the first node is unknown; set `rendezvous` in the job"
    ]
    assert refusals(make(rendezvous="localhost:29400", **several)) == []


def test_a_name_is_waited_for(make, monkeypatch):
    run = make(launcher="torchrun", nodes=2, rendezvous="first:29400")
    begin = run.clock.time

    def resolve(host):
        if run.clock.time < begin + 60:
            raise OSError("not yet")

    monkeypatch.setattr(preflight, "_resolve", resolve)
    assert refusals(run) == [] and run.clock.time >= begin + 60
    begin = run.clock.time + 10**6
    assert refusals(run) == ["- can't resolve the first node's name, first"]
    run.clock.on_nap = lambda: setattr(run, "asked", "stop")
    before = run.clock.time
    assert refusals(run)[0].endswith("first") and run.clock.time < before + 5


OFFER = "; for a run without a GPU set `gpus: 0` in the job"


def test_a_missing_gpu_is_refused_and_a_run_without_one_offered(make, monkeypatch):
    broken = {"nvidia-smi": "#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n"}
    said = f"U31 nvidia-smi failed or hung: NVIDIA-SMI has failed{OFFER}"
    assert refusals(make(broken, gpus=1)) == [said]
    monkeypatch.setenv("CARDS", "")
    run = make({"nvidia-smi": SMI}, gpus=1)
    assert refusals(run) == [f"U31 found 0 GPUs, expected 1{OFFER}"]
    monkeypatch.delenv("CARDS")
    run = make({"nvidia-smi": SMI}, gpus=2, rendered={"target": "kubernetes"})
    assert refusals(run) == ["K8S6 found 1 GPUs, expected 2"]
    monkeypatch.setenv("PATH", "/no/such")
    assert refusals(make(gpus=1)) == [f"U31 nvidia-smi is missing, expected 1 GPUs{OFFER}"]


def test_a_driver_that_hangs_is_given_up(make, monkeypatch):
    monkeypatch.setattr(preflight, "CARD_LIMIT", 0.1)
    [said] = refusals(make({"nvidia-smi": "#!/bin/sh\nsleep 60\n"}, gpus=1))
    assert said.startswith("U31 nvidia-smi failed or hung: ")


@pytest.mark.parametrize(("apps", "cards", "busy"), [
    ("GPU-aa, 4242, 30000\n", "0, GPU-aa, 30010, 80000", "GEN7 GPU 0 is used by process 4242 (30000 MB)"),
    ("GPU-aa, 4242, [N/A]\n", "0, GPU-aa, 30010, 80000", "GEN7 GPU 0 is used by process 4242 ([N/A] MB)"),
    ("", "0, GPU-aa, 30010, 80000", "U11 GPU 0 has 30010 of 80000 MB in use by a process that is not listed"),
    ("GPU-aa, 4242, 12\n", "0, GPU-aa, 400, 80000", ""),
    ("", "0, GPU-aa, [N/A], [N/A]", ""),
    ("GPU-bb, 4242, 30000\n", "0, GPU-aa, 10, 80000\n1, GPU-bb, 30010, 80000", ""),
])  # fmt: skip
def test_a_gpu_that_others_use_is_refused(make, monkeypatch, apps, cards, busy):
    monkeypatch.setenv("APPS", apps)
    monkeypatch.setenv("CARDS", cards)
    assert refusals(make({"nvidia-smi": SMI}, gpus=1)) == ([busy] if busy else [])


@pytest.mark.parametrize("by", ["1", "GPU-bb"])
@pytest.mark.parametrize("where", ["box", "job"])
def test_only_the_gpus_that_the_program_may_see_are_looked_at(make, monkeypatch, by, where):
    monkeypatch.setenv("APPS", "GPU-bb, 4242, 30000\n")
    monkeypatch.setenv("CARDS", "0, GPU-aa, 10, 80000\n1, GPU-bb, 30010, 80000")
    if where == "box":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", by)
    variables = {"CUDA_VISIBLE_DEVICES": by} if where == "job" else {}
    [said] = refusals(make({"nvidia-smi": SMI}, gpus=1, variables=variables))
    assert "GPU 1 is used by process 4242" in said


TORCH = """
__version__ = "2.13.0"
class cuda:
    is_available = staticmethod(lambda: {})
    device_count = staticmethod(lambda: 1)
def ones(n, device):
    raise RuntimeError("CUDA error: {}")
"""


@pytest.mark.parametrize(("fields", "sees", "error", "said"), [
    ({"rendered": {"profile": "autodl"}}, True, "no kernel image is available", "AD9 no CUDA kernel runs in {}: RuntimeError: CUDA error: no kernel image is available"),
    ({}, True, "no kernel image is available", "ENV1 no CUDA kernel runs in"),
    ({}, False, "", "ENV1 no CUDA kernel runs in {}: torch 2.13.0 sees 1 GPUs, expected 1"),
])  # fmt: skip
def test_a_kernel_that_does_not_launch_is_refused(make, tmp_path, fields, sees, error, said):
    (tmp_path / "torch.py").write_text(TORCH.format(sees, error))
    run = make({"nvidia-smi": SMI}, gpus=1, variables={"PYTHONPATH": str(tmp_path)}, **fields)
    [found] = refusals(run)
    assert found.startswith(said.format("/usr/bin/python3"))


def test_the_beat_goes_on_while_a_card_wakes_up(make):
    beats = []
    run = make({"nvidia-smi": SMI.replace("case", "sleep 0.3\ncase", 1)}, gpus=1)
    assert refusals(run, beat=lambda: bool(beats.append(1))) == [] and len(beats) > 5


@pytest.mark.parametrize("uptime, started, age", [(500.0, 100, 499.0), (500.0, 90_000_00, 500.0)])
def test_the_age_of_a_box_is_that_of_its_first_process(monkeypatch, uptime, started, age):
    # LXC tells the uptime of the container, and the start of its first process on the host's clock.
    first = procs.Stat("init", "S", 0, 1, started, 0, 0)
    monkeypatch.setattr(procs, "stat", lambda pid: first)
    monkeypatch.setattr(procs.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(procs, "open", lambda path: io.StringIO(f"{uptime} 9.0"), raising=False)
    assert procs.seconds_up() == age


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["surely-not-there", "train.yaml"], "surely-not-there"),
        ("surely-not-there train config.yaml", "surely-not-there"),
        ("cd src && surely-not-there", ""),
        ("A=1 surely-not-there", ""),
        ("./train.sh", ""),
        ("echo done", ""),
    ],
)
def test_a_program_that_is_not_in_path_is_refused_before_the_start(make, command, missing):
    found = refusals(make(command=command, rendered={"profile": "autodl"}))
    assert [line for line in found if "is not in PATH" in line] == found
    assert bool(found) == bool(missing)
    if missing:
        assert found[0].startswith(f"AD6 the command's {missing} is not in PATH here (")
