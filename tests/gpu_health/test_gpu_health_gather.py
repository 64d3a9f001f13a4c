"""Gathering, with a fake nvidia-smi on the PATH: one call after another, each once, none for ever."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.gpu_health.gpu_faults import CAPTURES
from tests.gpu_health.script import SCRIPT, gpu_health
from tests.gpu_health.test_gpu_health_hostile import FILES

FAILED = {"text": "", "rc": 1, "seconds": 0, "timed_out": False, "cut": False}  # of any command

FAKE = """#!/bin/sh
# Answers from a capture; keeps a list of its calls, and says when two run at once.
echo "$*" >> {log}
[ -e {log}.busy ] && echo TWICE >> {log}
: > {log}.busy
{before}
case "$*" in
  --help-query-gpu) cat {here}/help.txt ;;
  *=*memory.total*) awk '/^index/{{b++}} b==1' {data}/nvidia-smi.csv ;;
  *=*ecc.mode.current*) awk '/^index/{{b++}} b==2' {data}/nvidia-smi.csv ;;
  --query-gpu=*) awk '/^index/{{b++}} /^gpu_bus_id/{{exit}} b==3' {data}/nvidia-smi.csv ;;
  --query-remapped-rows=*) sed -n '/^gpu_bus_id/,$p' {data}/nvidia-smi.csv ;;
  -L) cat {data}/nvidia-smi-list.txt ;;
  "-q -x") cat {data}/nvidia-smi-q.xml ;;
  "nvlink -s") cat {data}/nvlink.txt ;;
  "topo -m") cat {data}/topo.txt ;;
  --query-compute-apps=*) cat {data}/apps.csv ;;
  *) echo "unknown: $*"; rm -f {log}.busy; exit 2 ;;
esac
rm -f {log}.busy
"""


@pytest.fixture
def fake(tmp_path):
    """fake(capture, before) puts a nvidia-smi into a folder; -> (environment, function that gives its calls)."""

    def make(capture="h100x8", before="", hidden=(), dmesg=True):
        here = tmp_path / "bin"
        here.mkdir(exist_ok=True)
        header = [
            line
            for line in (CAPTURES / capture / "nvidia-smi.csv").read_text().splitlines()
            if line.startswith("index")
        ]
        names = {cell.split(" [")[0] for line in header for cell in line.split(", ")} - set(hidden)
        names |= {
            name.replace("event_reasons.", "throttle_reasons.")
            for name in names
            if "counters" not in name
        }
        (here / "help.txt").write_text(
            'List of valid properties to query for the switch "--query-gpu=":\n\n'
            + "".join(f'"{name}"\nwhat it is\n\n' for name in sorted(names))
        )
        values = {"log": here / "calls", "here": here, "data": CAPTURES / capture, "before": before}
        (here / "nvidia-smi").write_text(FAKE.format(**values))
        (here / "nvidia-smi").chmod(0o755)
        if dmesg:
            (here / "dmesg").write_text("#!/bin/sh\ncat %s\n" % (CAPTURES / capture / "dmesg.txt"))
            (here / "dmesg").chmod(0o755)

        def calls():
            return (here / "calls").read_text().splitlines() if (here / "calls").exists() else []

        return dict(os.environ, PATH=f"{here}:{os.environ['PATH']}"), calls

    return make


def probe(environment, *arguments, **more):
    return subprocess.run(
        [sys.executable, SCRIPT, "--json", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=90,
        **more,
    )


def answer(done):
    assert done.stderr == ""
    return json.loads(done.stdout)


def gpu_findings(found):
    """Without those of the machine that the test runs on."""
    return [
        one
        for one in found["findings"]
        if not re.search(
            r"dev/shm|MiB free|inodes|^memory:|is listed|kernel module|processor |EDAC",
            one["evidence"],
        )
    ]


def test_each_command_runs_once_one_after_another(fake):
    environment, calls = fake()
    found = answer(probe(environment))
    assert gpu_findings(found) == []
    assert found["gpus"] == [
        {
            "gpu": list(range(8)),
            "name": "NVIDIA H100 80GB HBM3",
            "memory_mib": 81559,
            "bf16": True,
            "fp8": True,
            "p2p": "nvlink",
            "nvlinks": 18,
        }
    ]
    assert len(calls()) == len(set(calls())) == 9
    assert "TWICE" not in calls()
    assert calls()[0] == "--help-query-gpu"


@pytest.mark.parametrize("capture", ["a100x8", "t4x1", "v100x4", "l40sx4"])
def test_older_drivers_are_asked_for_what_they_know(fake, capture):
    environment, calls = fake(capture)
    found = answer(probe(environment))
    assert gpu_findings(found) == []
    asked = [call for call in calls() if call.startswith("--query-gpu")]
    assert len(asked) == 3
    if capture == "t4x1":
        assert not any("remapped" in call or "recovery" in call for call in asked)
    if capture == "a100x8":
        assert any(call.startswith("--query-remapped-rows") for call in calls())


def test_a_name_that_the_driver_refuses_is_left_out_and_asked_again(fake):
    refuse = 'case "$*" in *fan.speed*) echo "Field \\"fan.speed\\" is not a valid field to query."; rm -f $(dirname $0)/calls.busy; exit 2 ;; esac'
    environment, calls = fake(before=refuse)
    answer(probe(environment))
    asked = [call for call in calls() if "memory.total" in call]
    assert len(asked) == 2 and "fan.speed" in asked[0] and "fan.speed" not in asked[1]


def test_a_hung_nvidia_smi_is_a_finding_and_is_never_called_again(fake, tmp_path):
    environment, calls = fake(before='case "$*" in -L) sleep 300 ;; esac')
    code = (
        f"import sys; sys.argv[1:] = []; exec(compile(open({str(SCRIPT)!r}).read()"
        ".replace('CALL_SECONDS = 25.0', 'CALL_SECONDS = 2.0'), 'x', 'exec'))"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 1
    assert time.monotonic() - began < 12
    assert "verdict: unfit" in done.stdout and "did not end in time" in done.stdout
    assert calls()[-1] == "-L"


def series(monkeypatch, takes, capture="h100x8"):
    """The record of a box of this capture whose n-th call of nvidia-smi takes `takes(n)` seconds of a clock of its own."""
    files = {path.name: path.read_text() for path in (CAPTURES / capture).iterdir()}
    blocks = re.split(r"(?m)^(?=index, |gpu_bus_id)", files["nvidia-smi.csv"])[1:]
    names = {cell.split(" [")[0] for block in blocks for cell in block.split("\n")[0].split(", ")}
    replies = {
        "--help-query-gpu": "".join(
            f'"{name}"\n'
            for name in names
            | {name.replace("event_reasons.", "throttle_reasons.") for name in names}
        ),
        "-L": files["nvidia-smi-list.txt"],
        "-q": files["nvidia-smi-q.xml"],
        "nvlink": files["nvlink.txt"],
        "topo": files["topo.txt"],
    }
    clock, calls = [0.0], []

    def runner(command, seconds):
        calls.append((command[1].split("=")[0], seconds))
        text = replies.get(command[1], files["apps.csv"])
        if command[1].startswith("--query-gpu="):
            text = next(
                block
                for block in blocks
                if ("memory.total" in block, "ecc.mode.current" in block)
                == ("memory.total" in command[1], "ecc.mode.current" in command[1])
            )
        late = takes(len(calls)) > seconds
        clock[0] += min(takes(len(calls)), seconds)
        return {
            "text": "" if late else text,
            "rc": None if late else 0,
            "seconds": min(takes(len(calls)), seconds),
            "timed_out": late,
            "cut": False,
        }

    monkeypatch.setattr(gpu_health, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(gpu_health.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    record = {
        "files": {"dmesg.txt": files["dmesg.txt"]},
        "exit": {"_by": "x", "dmesg.txt": {"rc": 0, "timed_out": False}},
        "proc": json.loads(files["proc.json"]),
        "live": True,
    }
    gpu_health.gather_nvidia(record, runner, gpu_health.CALL_SECONDS)
    return record, calls


@pytest.mark.parametrize("seconds", [5.5, 6, 13, 27, 40])
def test_a_slow_nvidia_smi_is_unknown_and_no_hang(monkeypatch, tmp_path, seconds):
    record, calls = series(monkeypatch, lambda number: 0.1 if number == 1 else seconds)
    assert (
        sum(limit is not None for _, limit in calls) * seconds < gpu_health.SERIES_SECONDS + seconds
    )
    [found] = gpu_health.judge(record)
    assert (
        (found["level"], found["gpu"]) == ("unknown", None)
        and "nvidia-smi is slow" in found["evidence"]
        and "persistence" in found["action"]
    )
    assert "42 s" in found["threshold"]
    gpu_health.save(record, str(tmp_path))
    assert gpu_health.judge(gpu_health.load(str(tmp_path))) == [found]


def test_calls_that_all_fit_into_the_time_are_no_finding(monkeypatch):
    record, calls = series(monkeypatch, lambda number: 4.5)
    assert gpu_health.judge(record) == [] and len(calls) == 9


def test_a_call_that_had_less_than_its_full_time_is_no_hang(monkeypatch):
    record, calls = series(monkeypatch, lambda number: 300 if number == 7 else 5)
    assert calls[-1] == ("nvlink", 12.0)
    assert [(one["level"], "slow" in one["evidence"]) for one in gpu_health.judge(record)] == [
        ("unknown", True)
    ]


@pytest.mark.parametrize(("number", "limit"), [(2, "42 s"), (3, "25 s"), (9, "25 s")])
def test_a_call_that_used_its_full_time_is_a_hang_and_the_last(monkeypatch, number, limit):
    record, calls = series(monkeypatch, lambda n: 300 if n == number else 0.1)
    found = gpu_health.judge(record)[0]
    assert len(calls) == number
    assert (
        found["level"] == "fatal"
        and "did not end in time" in found["evidence"]
        and "within " + limit in found["threshold"]
    )


@pytest.mark.parametrize(
    ("words", "code", "level"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", 18, "fatal"),
        ("No devices were found", 6, "fatal"),
        ("Failed to initialize NVML: Unknown Error", 255, "fatal"),
    ],
)
def test_a_tool_that_cannot_work_is_asked_no_further(fake, words, code, level):
    environment, calls = fake(
        before=f'case "$*" in --help*) ;; *) echo "{words}"; rm -f $(dirname $0)/calls.busy; exit {code} ;; esac'
    )
    found = answer(probe(environment))
    assert [one["level"] for one in gpu_findings(found)] == [level]
    assert len(calls()) == 2


def test_a_reply_without_end_is_cut_and_never_fit(fake):
    environment, calls = fake(
        before='case "$*" in -L) yes "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)" ;; esac'
    )
    done = probe(environment)
    found = answer(done)
    assert done.returncode in (1, 2)
    assert any("was cut" in one["evidence"] for one in found["findings"])


@pytest.mark.alone
def test_a_healthy_box_takes_no_longer_than_its_calls_and_a_few_starts(fake):
    environment, calls = fake(before="sleep 0.1")
    call = str(Path(environment["PATH"].split(":")[0]) / "nvidia-smi")
    spent = []
    for _ in range(6):  # until one is good enough: other people use this machine
        single = min(timed([call, "-L"]) for _ in range(3))
        began = time.monotonic()
        found = answer(probe(environment))
        above = time.monotonic() - began - 9 * single
        assert found["gpus"]
        start = min(timed([sys.executable, SCRIPT, "--help"]) for _ in range(3))
        spent.append(above / start)
        if spent[-1] < 4:
            return
    pytest.fail(f"starts of the program above the sum of its calls: {spent}")


def timed(command):
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def test_it_runs_from_standard_input(fake):
    environment, _ = fake()
    with open(SCRIPT, "rb") as handle:
        done = subprocess.run(
            [sys.executable, "-", "--json", "--expect", "gpus=8"],
            stdin=handle,
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
        )
    assert gpu_findings(answer(done)) == []


def test_a_recording_gives_the_same_findings_as_the_box(fake, tmp_path):
    environment, _ = fake("v100x4")
    live = answer(probe(environment, "--record", str(tmp_path / "rec")))
    assert {path.name for path in (tmp_path / "rec").iterdir()} >= {*FILES}
    again = answer(probe(environment, "--replay", str(tmp_path / "rec")))
    assert (again["verdict"], again["findings"], again["gpus"]) == (
        live["verdict"],
        live["findings"],
        live["gpus"],
    )


def test_a_box_without_nvidia_smi_is_unknown(tmp_path):
    if list(Path("/sys/bus/pci/devices").glob("*")) and any(
        "0x10de" in (path / "vendor").read_text() for path in Path("/sys/bus/pci/devices").glob("*")
    ):
        pytest.skip("this machine has an NVIDIA card")
    done = probe(dict(os.environ, PATH=str(tmp_path)))
    assert done.returncode == 2
    assert answer(done)["verdict"] == "unknown"


def test_the_jobs_interpreter_is_asked_for_its_torch(fake, tmp_path):
    environment, _ = fake()
    (tmp_path / "torch.py").write_text(
        "class version:\n    cuda = '13.0'\n__version__ = '2.13.0+cu130'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n"
        "def zeros(*a, **k):\n    raise RuntimeError('The NVIDIA driver on your system is too old (found version 12040).')\n"
    )
    found = answer(
        probe(
            dict(environment, PYTHONPATH=str(tmp_path)),
            "--python",
            sys.executable,
            "--expect",
            "torch=cu130",
        )
    )
    assert [(one["level"], one["entry"]) for one in gpu_findings(found)] == [("fatal", "ENV6")]
    found = answer(probe(environment, "--python", str(tmp_path / "none")))
    assert [one["level"] for one in gpu_findings(found)] == ["unknown"]


def test_a_mount_that_never_answers_holds_nothing_up(monkeypatch):
    monkeypatch.setattr(gpu_health.os, "statvfs", lambda path: time.sleep(60))
    monkeypatch.setattr(gpu_health.shutil, "which", lambda name: None)
    began = time.monotonic()
    record = gpu_health.gather(
        runner=lambda command, seconds: {**FAILED},
        paths=["/mnt/dead"],
    )
    assert time.monotonic() - began < 6
    assert record["proc"]["disks"]["/mnt/dead"] is None
    assert any("/mnt/dead does not answer" in one["evidence"] for one in gpu_health.judge(record))


def test_a_path_that_its_user_names_is_one_that_the_job_writes_to(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    def runner(command, seconds):
        return {"text": "", "rc": 127, "seconds": 0.0, "timed_out": False, "cut": False}

    named = gpu_health.gather(runner, paths=[str(tmp_path)])["proc"]["disks"]
    assert named[str(tmp_path)]["asked"] and "asked" not in named["/dev/shm"]
    assert not any("asked" in disk for disk in gpu_health.gather(runner)["proc"]["disks"].values())


def test_a_virtual_function_is_known_by_the_card_that_it_belongs_to(tmp_path):
    card = gpu_health.card_at(str(tmp_path), "0x030200", "0x10de")
    assert "virtual_function" not in card
    (tmp_path / "physfn").symlink_to("..")
    assert gpu_health.card_at(str(tmp_path), "0x030200", "0x10de")["virtual_function"]


def test_it_needs_nothing_but_python_3_8(fake):
    places = [
        shutil.which("python3.8"),
        *map(str, Path.home().glob(".pyenv/versions/3.8.*/bin/python3.8")),
    ]
    old = next(
        (
            place
            for place in places
            if place and subprocess.run([place, "-V"], capture_output=True).returncode == 0
        ),
        None,
    )
    if not old:
        pytest.skip("no Python 3.8 on this machine")
    environment, _ = fake()
    done = subprocess.run(
        [old, "-I", SCRIPT, "--json"], capture_output=True, text=True, env=environment, timeout=60
    )
    assert gpu_findings(answer(done)) == []


def test_a_part_that_fails_is_said_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(gpu_health, "gather_holders", lambda proc: 1 / 0)
    monkeypatch.setattr(gpu_health.shutil, "which", lambda name: None)
    record = gpu_health.gather(runner=lambda command, seconds: {**FAILED})
    assert record["proc"]["platform"]["kernel"]
    assert any(
        "division by zero" in one["evidence"] and one["level"] == "unknown"
        for one in gpu_health.judge(record)
    )


def in_a_place(monkeypatch, **texts):
    """gather_system where these files hold these texts, and no other mark of a container is there."""
    texts = {path.replace("_", "/"): text for path, text in texts.items()}
    read, exists = gpu_health.read_text, os.path.exists
    marks = (
        "/proc/1/cgroup",
        "/proc/1/environ",
        "/proc/1/comm",
        "/proc/self/mountinfo",
        "/run/systemd/container",
    )
    monkeypatch.setattr(
        gpu_health,
        "read_text",
        lambda path, *most: texts.get(path, "") if path in marks else read(path, *most),
    )
    monkeypatch.setattr(
        gpu_health.os.path,
        "exists",
        lambda path: path not in ("/.dockerenv", "/run/.containerenv") and exists(path),
    )
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    proc = {}
    gpu_health.gather_system(proc)
    return proc["platform"]["container"]


OVERLAY = "22 1 0:30 / /proc rw - proc proc rw\n1 0 0:84 / / rw,relatime - overlay overlay rw,lowerdir=%s,upperdir=/x,workdir=/y\n"


@pytest.mark.parametrize(
    ("texts", "container"),
    [
        ({"_proc_1_environ": "PATH=/bin\0KUBERNETES_SERVICE_HOST=10.0.0.1\0"}, "kubernetes"),
        ({"_proc_1_environ": "container=lxc\0"}, "lxc"),
        ({"_run_systemd_container": "systemd-nspawn\n"}, "systemd-nspawn"),
        (
            {
                "_proc_1_comm": "systemd\n",
                "_proc_self_mountinfo": OVERLAY
                % "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/3/fs",
            },
            "container",
        ),
        ({"_proc_1_comm": "sshd\n", "_proc_self_mountinfo": OVERLAY % "/a:/b"}, "container"),
        (
            {"_proc_1_comm": "systemd\n", "_proc_self_mountinfo": OVERLAY % "/run/rootfs/squashfs"},
            "",
        ),  # a host without disks
        (
            {
                "_proc_1_environ": "HOME=/\0TERM=linux\0",
                "_proc_1_comm": "systemd\n",
                "_proc_self_mountinfo": "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n",
            },
            "",
        ),
    ],
)
def test_a_container_without_the_usual_marks_is_recognised(monkeypatch, texts, container):
    assert in_a_place(monkeypatch, _proc_1_cgroup="0::/\n", **texts) == container


def test_which_cards_are_this_jobs_is_gathered(monkeypatch):
    told = {
        "0000:1b:00.0": "Model: \t NVIDIA H100\nDevice Minor: \t 0\nGPU Excluded:\t No\n",
        "0000:2c:00.0": "Device Minor: \t 1\n",
        "0000:3d:00.0": "Device Minor: \t 2\n",
        "0000:4e:00.0": "Device Minor: \t 3\nGPU Excluded:\t Yes\n",
    }
    monkeypatch.setattr(gpu_health, "read_text", lambda path, *most: told.get(path.split("/")[5]))
    monkeypatch.setattr(gpu_health.glob, "glob", lambda pattern: list(told))
    monkeypatch.setattr(gpu_health.os.path, "exists", lambda path: path != "/dev/nvidia2")
    monkeypatch.setattr(gpu_health.os, "access", lambda path, mode: path == "/dev/nvidia0")
    cards = [{"bdf": place, "driver": "nvidia"} for place in [*told, "0000:5f:00.0"]] + [
        {"bdf": "0000:60:00.0", "driver": "vfio-pci"}
    ]
    gpu_health.gather_nodes({"pci": cards})
    assert [(card.get("minor"), card.get("node")) for card in cards] == [
        (0, "open"),
        (1, "denied"),
        (2, "absent"),
        (3, "excluded"),
        (None, "hidden"),
        (None, None),
    ]
    monkeypatch.setattr(gpu_health.glob, "glob", lambda pattern: [])
    untold = [{"bdf": "0000:1b:00.0", "driver": "nvidia"}]
    gpu_health.gather_nodes({"pci": untold})
    assert "node" not in untold[0]


def test_a_device_cgroup_shows_itself_without_opening_the_node(tmp_path):
    group, node = Path(f"/sys/fs/cgroup/devices/gpu-health-{os.getpid()}"), tmp_path / "node"
    try:
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no device cgroup here: {error}")
    try:
        (group / "devices.deny").write_text("c 1:3 rwm")
        ask = (
            f"import os, sys; open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid())); "
            f"print(os.access({str(node)!r}, os.R_OK | os.W_OK))"
        )
        assert os.access(node, os.R_OK | os.W_OK)
        assert (
            subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout
            == "False\n"
        )
    finally:
        group.rmdir()


LATE = "[ 9000.000000] usb 1-1: new device\n[ 9000.500000] usb 1-2: new device\n"
WHOLE = "[    0.000000] host kernel: Linux version 6.8.0-60-generic\n[  500.000000] host kernel: NVRM: Xid (PCI:0000:1b:00): 64, pid=1, Row Remapper\n"


def logged(replies):
    """The log's text and code, where the commands give these replies: (text, code)."""
    record, asked = {"files": {}, "exit": {}}, []

    def runner(command, seconds):
        asked.append(command[0])
        text, code = replies.get(command[0], ("not found", 127))
        return {"text": text, "rc": code, "seconds": 0.1, "timed_out": False, "cut": False}

    gpu_health.gather_log(record, runner, 25.0)
    return record["files"]["dmesg.txt"], record["exit"]["dmesg.txt"]["rc"], asked


def test_the_journal_tells_what_the_ring_buffer_has_overwritten():
    text, code, asked = logged(
        {
            "dmesg": (LATE, 0),
            "journalctl": (
                WHOLE + "[ 8999.900000] host kernel: x\n[ 9001.000000] host kernel: usb 1-9: new\n",
                0,
            ),
        }
    )
    assert code == 0 and text.startswith(WHOLE) and text.endswith("host kernel: x\n" + LATE)
    found = gpu_health.parse_log(text)
    assert found["boot"] and [event["code"] for event in found["events"]] == [64]


def test_a_ring_buffer_that_reaches_the_boot_is_enough_and_one_without_a_journal_is_kept():
    assert logged({"dmesg": (WHOLE, 0), "journalctl": ("x", 0)}) == (WHOLE, 0, ["dmesg"])
    assert logged(
        {"dmesg": (LATE, 0), "journalctl": ("No journal files were found.\n-- No entries --\n", 0)}
    ) == (LATE, 0, ["dmesg", "journalctl"])
    assert logged({"dmesg": (LATE, 0)})[:2] == (LATE, 0)
    assert logged({"dmesg": ("Operation not permitted", 1), "journalctl": (WHOLE, 0)})[:2] == (
        WHOLE,
        0,
    )


def test_a_journal_over_the_limit_keeps_its_faults_its_begin_and_its_end(tmp_path, monkeypatch):
    plain = "".join(
        f"[{at:5d}.000001] host kernel: [UFW BLOCK] IN=eth0 SRC=10.0.0.{at % 250} DST=10.0.0.1 LEN=40\n"
        for at in range(9, 60000)
    )
    xids = "[60001.000001] host kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"
    (tmp_path / "log").write_text(WHOLE + plain * 2 + xids)
    assert (tmp_path / "log").stat().st_size > 2 * gpu_health.LIMIT
    (tmp_path / "journalctl").write_text(f"#!/bin/sh\nexec cat {tmp_path}/log\n")
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    got = gpu_health.run(["journalctl"], 30.0)
    assert (got["rc"], got["cut"]) == (0, False) and len(got["text"]) <= gpu_health.LIMIT
    found = gpu_health.parse_log(got["text"])
    assert (found["boot"], found["first"], found["odd"]) == (True, 0, 0) and [
        event["code"] for event in found["events"]
    ] == [64, 79]


def test_a_flood_of_faults_keeps_the_last_of_them():
    line = "[%5d.000001] NVRM: Xid (PCI:0000:1b:00): 31, pid=1, name=python3, Ch 00000018, intr 10000000. MMU Fault\n"
    kept = gpu_health.worthy("".join(line % at for at in range(60000)).encode()).decode()
    assert (
        len(kept) <= gpu_health.LIMIT // 2
        and kept.endswith(line % 59999)
        and gpu_health.parse_log(kept)["odd"] == 0
    )
