"""Gathering, with a fake nvidia-smi on the PATH: one call after another, each once, none for ever."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.test_gpu_health_faults import gpu_health

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "gpu_health.py"
CAPTURES = ROOT / "tests" / "gpu_captures"

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
        header = [line for line in (CAPTURES / capture / "nvidia-smi.csv").read_text().splitlines() if line.startswith("index")]
        names = {cell.split(" [")[0] for line in header for cell in line.split(", ")} - set(hidden)
        names |= {name.replace("event_reasons.", "throttle_reasons.") for name in names if "counters" not in name}
        (here / "help.txt").write_text("List of valid properties to query for the switch \"--query-gpu=\":\n\n" + "".join('"%s"\nwhat it is\n\n' % name for name in sorted(names)))
        values = {"log": here / "calls", "here": here, "data": CAPTURES / capture, "before": before}
        (here / "nvidia-smi").write_text(FAKE.format(**values))
        (here / "nvidia-smi").chmod(0o755)
        if dmesg:
            (here / "dmesg").write_text("#!/bin/sh\ncat %s\n" % (CAPTURES / capture / "dmesg.txt"))
            (here / "dmesg").chmod(0o755)

        def calls():
            return (here / "calls").read_text().splitlines() if (here / "calls").exists() else []

        return dict(os.environ, PATH="%s:%s" % (here, os.environ["PATH"])), calls

    return make


def probe(environment, *arguments, **more):
    return subprocess.run([sys.executable, SCRIPT, "--json", *arguments], capture_output=True, text=True, env=environment, timeout=90, **more)


def answer(done):
    assert done.stderr == ""
    return json.loads(done.stdout)


def gpu_findings(found):
    """Without those of the machine that the test runs on."""
    return [one for one in found["findings"] if not re.search(r"dev/shm|MiB free|inodes|^memory:|is listed|kernel module", one["evidence"])]


def test_each_command_runs_once_one_after_another(fake):
    environment, calls = fake()
    found = answer(probe(environment))
    assert gpu_findings(found) == []
    assert found["gpus"] == [{"gpu": list(range(8)), "name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "bf16": True, "fp8": True, "p2p": "nvlink",
        "nvlinks": 18}]
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
    code = "import sys; sys.argv[1:] = []; exec(compile(open(%r).read().replace('CALL_SECONDS, SERIES_SECONDS = 25.0', 'CALL_SECONDS, SERIES_SECONDS = 2.0'), 'x', 'exec'))" % str(SCRIPT)
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 1
    assert time.monotonic() - began < 12
    assert "verdict: unfit" in done.stdout and "did not come back in time" in done.stdout
    assert calls()[-1] == "-L"


@pytest.mark.parametrize(("words", "code", "level"), [("Failed to initialize NVML: Driver/library version mismatch", 18, "fatal"),
    ("No devices were found", 6, "fatal"),
                                                      ("Failed to initialize NVML: Unknown Error", 255, "fatal")])
def test_a_tool_that_cannot_work_is_asked_no_further(fake, words, code, level):
    environment, calls = fake(before='case "$*" in --help*) ;; *) echo "%s"; rm -f $(dirname $0)/calls.busy; exit %d ;; esac' % (words, code))
    found = answer(probe(environment))
    assert [one["level"] for one in gpu_findings(found)] == [level]
    assert len(calls()) == 2


def test_a_reply_without_end_is_cut_and_never_fit(fake):
    environment, calls = fake(before='case "$*" in -L) yes "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)" ;; esac')
    done = probe(environment)
    found = answer(done)
    assert done.returncode in (1, 2)
    assert any("was cut" in one["evidence"] for one in found["findings"])


def test_a_healthy_box_takes_no_longer_than_its_calls_and_a_third_of_a_second(fake):
    environment, calls = fake(before="sleep 0.1")
    call = str(Path(environment["PATH"].split(":")[0]) / "nvidia-smi")
    spent = []
    for _ in range(6):  # until one is good enough: other people use this machine
        single = min(timed([call, "-L"]) for _ in range(3))
        began = time.monotonic()
        found = answer(probe(environment))
        spent.append(time.monotonic() - began - 9 * single)
        assert found["gpus"]
        if spent[-1] < 0.3:
            return
    pytest.fail("seconds above the sum of its calls: %s" % spent)


def timed(command):
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def test_it_runs_from_standard_input(fake):
    environment, _ = fake()
    with open(SCRIPT, "rb") as handle:
        done = subprocess.run([sys.executable, "-", "--json", "--expect", "gpus=8"], stdin=handle, capture_output=True, text=True, env=environment,
            timeout=60)
    assert gpu_findings(answer(done)) == []


def test_a_recording_gives_the_same_findings_as_the_box(fake, tmp_path):
    environment, _ = fake("v100x4")
    live = answer(probe(environment, "--record", str(tmp_path / "rec")))
    assert {path.name for path in (tmp_path / "rec").iterdir()} >= {"nvidia-smi.csv", "nvidia-smi-q.xml", "nvidia-smi-list.txt", "nvlink.txt",
        "topo.txt", "apps.csv", "dmesg.txt", "proc.json", "exit.json"}
    again = answer(probe(environment, "--replay", str(tmp_path / "rec")))
    assert (again["verdict"], again["findings"], again["gpus"]) == (live["verdict"], live["findings"], live["gpus"])


def test_a_box_without_nvidia_smi_is_unknown(tmp_path):
    if list(Path("/sys/bus/pci/devices").glob("*")) and any("0x10de" in (path / "vendor").read_text()
            for path in Path("/sys/bus/pci/devices").glob("*")):
        pytest.skip("this machine has an NVIDIA card")
    done = probe(dict(os.environ, PATH=str(tmp_path)))
    assert done.returncode == 2
    assert answer(done)["verdict"] == "unknown"


def test_the_jobs_interpreter_is_asked_for_its_torch(fake, tmp_path):
    environment, _ = fake()
    (tmp_path / "torch.py").write_text("class version:\n    cuda = '13.0'\n__version__ = '2.13.0+cu130'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n"
                                       "def zeros(*a, **k):\n    raise RuntimeError('The NVIDIA driver on your system is too old (found version 12040).')\n")
    found = answer(probe(dict(environment, PYTHONPATH=str(tmp_path)), "--python", sys.executable, "--expect", "torch=cu130"))
    assert [(one["level"], one["entry"]) for one in gpu_findings(found)] == [("fatal", "ENV6")]
    found = answer(probe(environment, "--python", str(tmp_path / "none")))
    assert [one["level"] for one in gpu_findings(found)] == ["unknown"]


def test_a_mount_that_never_answers_holds_nothing_up(monkeypatch):
    monkeypatch.setattr(gpu_health.os, "statvfs", lambda path: time.sleep(60))
    monkeypatch.setattr(gpu_health.shutil, "which", lambda name: None)
    began = time.monotonic()
    record = gpu_health.gather(runner=lambda command, seconds: {"text": "", "rc": 1, "seconds": 0, "timed_out": False, "cut": False},
        paths=["/mnt/dead"])
    assert time.monotonic() - began < 6
    assert record["proc"]["disks"]["/mnt/dead"] is None
    assert any("/mnt/dead does not answer" in one["evidence"] for one in gpu_health.judge(record))


def test_it_needs_nothing_but_python_3_8(fake):
    places = [shutil.which("python3.8"), *map(str, Path.home().glob(".pyenv/versions/3.8.*/bin/python3.8"))]
    old = next((place for place in places if place and subprocess.run([place, "-V"], capture_output=True).returncode == 0), None)
    if not old:
        pytest.skip("no Python 3.8 on this machine")
    environment, _ = fake()
    done = subprocess.run([old, "-I", SCRIPT, "--json"], capture_output=True, text=True, env=environment, timeout=60)
    assert gpu_findings(answer(done)) == []


def test_a_part_that_fails_is_said_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(gpu_health, "gather_holders", lambda proc: 1 / 0)
    monkeypatch.setattr(gpu_health.shutil, "which", lambda name: None)
    record = gpu_health.gather(runner=lambda command, seconds: {"text": "", "rc": 1, "seconds": 0, "timed_out": False, "cut": False})
    assert record["proc"]["platform"]["kernel"]
    assert any("division by zero" in one["evidence"] and one["level"] == "unknown" for one in gpu_health.judge(record))
