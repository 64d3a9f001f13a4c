"""The watch: a line a sample, findings when they change, cheap enough to run beside a job for days."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.gpu_health.script import SCRIPT, gpu_health

# index, bus, util, mem_util, used, total, power, limit, temp, sm, max_sm, mask, gen, pstate
CALM = "{0}, 00000000:{0}B:00.0, 98, 40, 61000, 81559, 640.00, 700.00, 61, 1900, 1980, 0x0000000000000004, 5, P0"
FAKE = """#!{python}
import sys, time
arguments = " ".join(sys.argv[1:])
if "--help" in arguments:
    print("".join('"%s"\\n' % name for name in {names!r}))
    raise SystemExit
for sample in {samples!r}:
    for line in sample:
        print(line, flush=True)
    time.sleep({gap})
{after}
"""


@pytest.fixture
def watched(tmp_path):
    """watched(samples) runs the watch over them -> (exit code, lines as objects)."""

    def run(samples, after="raise SystemExit(0)", gap=0.35, arguments=(), stop_after=None):
        (tmp_path / "nvidia-smi").write_text(
            FAKE.format(
                python=sys.executable,
                names=[name for names in gpu_health.WATCH_FIELDS for name in names.split("|")],
                samples=samples,
                after=after,
                gap=gap,
            )
        )
        (tmp_path / "nvidia-smi").chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, SCRIPT, "--watch", "0.3", *arguments],
            env=dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if stop_after:
            time.sleep(stop_after)
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert err == "", err
        return process.returncode, [json.loads(line) for line in out.splitlines()]

    return run


def samples_of(lines):
    return [line for line in lines if "gpus" in line]


def test_a_line_a_sample_and_no_finding_for_a_job_at_its_power_cap(watched):
    code, lines = watched(
        [[CALM.format(0), CALM.format(1)]] * 4, after="time.sleep(60)", stop_after=2.5
    )
    got = samples_of(lines)
    assert code == 0 and len(got) == 4
    assert lines[0]["start"]["interval_s"] == 0.3 and lines[-1]["end"].startswith("signal")
    assert got[0]["gpus"][1] == {
        "gpu": 1,
        "throttle": ["sw_power_cap"],
        "util": 98,
        "mem_util": 40,
        "mem_mib": 61000,
        "mem_total_mib": 81559,
        "power_w": 640.0,
        "limit_w": 700.0,
        "temp_c": 61,
        "sm_mhz": 1900,
        "pcie_gen": 5,
    }
    assert not any("findings" in line or "over" in line for line in got)


def test_a_finding_is_told_when_it_comes_and_when_it_is_over(watched):
    hot = CALM.format(1).replace("0x0000000000000004", "0x0000000000000048").replace(" 61,", " 92,")
    samples = (
        [[CALM.format(0), CALM.format(1)]] * 2
        + [[CALM.format(0), hot]] * 3
        + [[CALM.format(0), CALM.format(1)]] * 2
    )
    code, lines = watched(samples)
    got = samples_of(lines)
    assert code == 1
    assert [index for index, line in enumerate(got) if "findings" in line] == [2]
    assert [index for index, line in enumerate(got) if "over" in line] == [5]
    assert (got[2]["findings"][0]["gpu"], got[2]["findings"][0]["level"]) == (1, "degraded")


@pytest.mark.parametrize(
    "util, mem_util, power, quiet",
    [
        (95, 5, 209.9, True),
        (94, 5, 209.9, False),
        (95, 6, 209.9, False),
        (95, 5, 210.0, False),  # 0.3 of the limit
        (100, None, 1.0, True),
        (None, 0, 1.0, False),
        (100, 0, None, False),
    ],
)
def test_a_gpu_is_quiet_at_these_bounds(util, mem_util, power, quiet):
    row = {"util": util, "mem_util": mem_util, "power_w": power, "limit_w": 700.0}
    assert bool(gpu_health.is_quiet(row)) is quiet


def test_two_samples_without_a_gpu_are_its_loss_and_one_is_not():
    both, streaks = [gpu_health.watch_row({"index": str(index)}) for index in (0, 1)], {}
    rows = [both, both[:1], both, both[:1], both[:1], both[:1]]
    assert [gpu_health.gone_gpus(row, streaks) for row in rows] == [[], [], [], [], [1], [1]]


def test_a_gpu_that_is_busy_at_idle_power_is_a_stuck_collective(watched):
    stuck = CALM.format(0).replace("98, 40", "100, 0").replace("640.00", "120.00")
    code, lines = watched([[stuck]] * 4)
    got = samples_of(lines)
    assert code == 1
    assert [index for index, line in enumerate(got) if "findings" in line] == [2]
    assert got[2]["findings"][0]["entry"] == "D20" and "collective" in got[2]["why"]["0"]


def test_an_idle_gpu_gets_a_reason(watched):
    idle = CALM.format(0).replace("98, 40", "0, 0")
    code, lines = watched([[idle]] * 4, after="time.sleep(60)", stop_after=8)
    got = samples_of(lines)
    assert code == 0
    assert [line.get("why") for line in got] == [None, None] + [
        {"0": "no process of this container holds it"}
    ] * 2


def test_a_lost_gpu_is_fatal(watched):
    code, lines = watched(
        [[CALM.format(0)], [CALM.format(0).replace("98, 40", "[GPU is lost], 40")]]
    )
    assert code == 1
    assert samples_of(lines)[1]["findings"][0]["level"] == "fatal"


@pytest.mark.parametrize(
    ("words", "gpu"),
    [
        ("GPU0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU", 1),
        ("GPU1: 0000:1B:00.0: Unknown Error", 1),
        ("GPU1: Unknown Error", 1),
    ],
)
def test_last_words_of_a_lost_gpu_are_a_finding(watched, words, gpu):
    end = f"print('Unable to determine the device handle for {words}', flush=True); raise SystemExit(15)"
    code, lines = watched([[CALM.format(0), CALM.format(1)]] * 2, after=end)
    assert code == 1 and len(samples_of(lines)) == 2
    assert [(one["gpu"], one["level"], one["entry"]) for one in lines[-2]["findings"]] == [
        (gpu, "fatal", "HW1")
    ]
    assert lines[-1]["end"].startswith(
        "nvidia-smi ended with 15: Unable to determine the device handle"
    )


def test_a_code_alone_tells_a_lost_gpu_and_other_ends_tell_none(watched):
    code, lines = watched([[CALM.format(0)]] * 2, after="raise SystemExit(15)")
    assert code == 1 and lines[-2]["findings"][0]["level"] == "fatal"
    code, lines = watched([[CALM.format(0)]] * 2, after="raise SystemExit(3)")
    assert code == 2 and not any("findings" in line for line in lines)


def test_a_gpu_that_is_in_no_sample_any_more_is_fatal(watched):
    code, lines = watched(
        [[CALM.format(0), CALM.format(1)]] * 2
        + [[CALM.format(0)]] * 4
        + [[CALM.format(0), CALM.format(1)]]
    )
    got = samples_of(lines)
    assert code == 1
    assert [index for index, line in enumerate(got) if "findings" in line] == [3] and [
        index for index, line in enumerate(got) if "over" in line
    ] == [6]
    assert [(one["gpu"], one["level"]) for one in got[3]["findings"]] == [(1, "fatal")]


def test_rows_that_come_one_by_one_lose_no_gpu():
    streaks = {}
    for turn in range(30):
        add, _ = gpu_health.judge_sample(
            [gpu_health.watch_row({"index": str(turn % 3)})], streaks, lambda gpu: ""
        )
        assert add.list == []


def test_a_line_that_is_no_row_harms_none(watched):
    stray = "WARNING: infoROM is corrupted at gpu 0000:1B:00.0"
    code, lines = watched([[CALM.format(0), CALM.format(1), stray]] * 4)
    assert code == 2, "no finding, and nvidia-smi ended by itself"
    assert [[one["gpu"] for one in line["gpus"]] for line in samples_of(lines)] == [[0, 1]] * 4
    assert "infoROM" in lines[-1]["end"]


def test_it_ends_with_the_job(watched):
    job = subprocess.Popen(["sleep", "0.8"])
    import threading

    threading.Thread(target=job.wait, daemon=True).start()
    code, lines = watched([[CALM.format(0)]] * 50, arguments=("--pid", str(job.pid)))
    assert code == 0
    assert lines[-1]["end"] == f"process {job.pid} ended"
    assert len(samples_of(lines)) < 10


def test_a_tool_that_ends_at_once_cannot_be_watched(watched):
    code, lines = watched(
        [], after="print('Failed to initialize NVML: Unknown Error'); raise SystemExit(255)"
    )
    assert code == 2
    assert "Unknown Error" in lines[-1]["end"]


@pytest.mark.parametrize(
    "end", ["raise SystemExit(0)", "import os; os.kill(os.getpid(), 9)"], ids=["ended", "killed"]
)
def test_a_watch_whose_tool_ended_before_the_job_did_not_watch_it(watched, end):
    code, lines = watched([[CALM.format(0)]] * 2, after=end, arguments=("--pid", str(os.getpid())))
    assert code == 2 and len(samples_of(lines)) == 2
    assert lines[-1]["end"].startswith("nvidia-smi ended with")


def test_a_finding_is_still_the_code_when_the_tool_ends_afterwards(watched):
    lost = CALM.format(0).replace("98, 40", "[GPU is lost], 40")
    assert watched([[CALM.format(0)], [lost]], after="raise SystemExit(3)")[0] == 1


def test_a_tool_that_falls_silent_is_told_in_the_exit_code(tmp_path):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n[ $1 != --help-query-gpu ] && exec sleep 60\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    program = (
        "import sys; from tests.gpu_health.script import gpu_health; gpu_health.CALL_SECONDS = 0.5; "
        "sys.exit(gpu_health.watch(0.1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["end"] == "nvidia-smi hangs"


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        ({"state": "D"}, "disk"),
        ({"state": "R"}, "on the CPU"),
        ({"state": "S"}, "sleeps"),
        ({"state": "Z"}, "dead"),
        (None, "no process"),
    ],
)
def test_why_a_gpu_is_idle_comes_from_the_process_that_holds_it(monkeypatch, holder, words):
    monkeypatch.setattr(
        gpu_health,
        "gather_holders",
        lambda proc: proc.update(
            holders=[dict(holder, pid=os.getpid(), devices=["/dev/nvidia3"])] if holder else []
        ),
    )
    assert words in gpu_health.Holders(clock=lambda: 0.0)(3)


def test_the_process_that_holds_a_gpu_is_found_by_the_minor_number(monkeypatch):
    monkeypatch.setattr(
        gpu_health,
        "gather_holders",
        lambda proc: proc.update(
            holders=[{"state": "D", "pid": os.getpid(), "devices": ["/dev/nvidia3"]}]
        ),
    )
    holders = gpu_health.Holders(clock=lambda: 0.0)
    assert "no process" in holders(0)
    holders.nodes[0] = 3
    assert "disk" in holders(0)
    monkeypatch.setattr(
        gpu_health,
        "read_text",
        lambda path: (
            "Device Minor: \t 3\n"
            if path == "/proc/driver/nvidia/gpus/0000:1b:00.0/information"
            else None
        ),
    )
    assert gpu_health.minor_of("0000:1b:00.0") == (3, False) and gpu_health.minor_of(
        "0000:2b:00.0"
    ) == (None, False)


def test_it_takes_less_than_a_hundredth_of_a_core_and_30_mb(tmp_path):
    """Eight GPUs, ten samples a second for six seconds: ten times as often as anyone asks."""
    (tmp_path / "nvidia-smi").write_text(
        f'#!/bin/sh\ncase "$*" in --help*) exit 0 ;; esac\nwhile :; do cat {tmp_path}/lines; sleep 1; done\n'
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    (tmp_path / "lines").write_text("".join(CALM.format(index) + "\n" for index in range(8)))
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "--watch", "1"],
        env=dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}"),
        stdout=subprocess.DEVNULL,
    )

    def spent():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    try:
        time.sleep(1.5)
        before, began = spent(), time.monotonic()
        time.sleep(8)
        share = (spent() - before) / (time.monotonic() - began)
        status = Path(f"/proc/{process.pid}/status").read_text()
        memory = int(re.search(r"^VmHWM:\s*(\d+)", status, re.M)[1]) / 1024
    finally:
        process.terminate()
        process.wait(10)
    assert share < 0.01, share
    assert memory < 30, memory
