"""scripts/mem_monitor.sh: readings as TSV; what can't be read is a dash, never a zero."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPT = ROOT / "scripts/mem_monitor.sh"
MB = 1048576


def run(*args, path=None, timeout=20, **env):
    kept = {name: value for name, value in os.environ.items() if name != "TRAIN_PROC"}
    kept.update({name: str(value) for name, value in env.items()})
    if path is not None:
        kept["PATH"] = str(path)
    done = subprocess.run(
        ["/bin/bash", str(SCRIPT), *map(str, args)],
        capture_output=True,
        text=True,
        env=kept,
        timeout=timeout,
    )
    return done.returncode, done.stdout, done.stderr


def once(**kw):
    code, out, err = run("--once", **kw)
    assert (code, err) == (0, "")
    head, line = out.splitlines()
    return dict(zip(head.split("\t"), line.split("\t"), strict=True))


def own_group(mount, controller=None):
    """Where this process's group lies below a mount, as the script will look for it."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.rstrip("\n").split(":", 2)
        if names.split(",") == ([controller] if controller else [""]) or (
            controller and controller in names.split(",")
        ):
            return mount / path.lstrip("/")
    return mount


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture
def bin_without(tmp_path):
    """A PATH with the few programs that the script asks for, and what the test adds."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("sleep", "getconf", "timeout"):
        (place / name).symlink_to(
            f"/usr/bin/{name}" if os.path.exists(f"/usr/bin/{name}") else f"/bin/{name}"
        )
    return place


def test_cgroup_v2_readings_come_from_the_own_group(tmp_path):
    folder = own_group(tmp_path / "cg")
    write(
        folder,
        {
            "memory.current": f"{300 * MB}\n",
            "memory.stat": f"anon {100 * MB}\nfile {200 * MB}\n",
            "memory.max": "max\n",
            "memory.events": "oom 3\noom_kill 2\n",
        },
    )
    write(tmp_path / "cg", {"memory.max": f"{500 * MB}\n"})
    write(folder, {"cpu.stat": "usage_usec 1000\n"})
    row = once(CGROUP_ROOT=tmp_path / "cg")
    assert [
        row[name] for name in ("cgroup", "cg_used_mb", "cg_cache_mb", "cg_oom_kills", "cg_cpu_pct")
    ] == ["v2", "300", "200", "2", "0"]
    assert row["cg_limit_mb"] == "500"  # the smallest on the way up


def test_cgroup_v1_readings_and_a_limit_that_is_none(tmp_path):
    folder = own_group(tmp_path / "cg/memory", "memory")
    stat = f"cache 1\ntotal_cache {20 * MB}\nhierarchical_memory_limit 9223372036854771712\n"
    write(tmp_path / "cg/memory", {"memory.usage_in_bytes": f"{7 * MB}\n"})
    write(
        folder,
        {
            "memory.usage_in_bytes": f"{30 * MB}\n",
            "memory.stat": stat,
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
        },
    )
    row = once(CGROUP_ROOT=tmp_path / "cg")
    assert [
        row[name] for name in ("cgroup", "cg_used_mb", "cg_cache_mb", "cg_limit_mb", "cg_oom_kills")
    ] == ["v1", "30", "20", "max", "4"]
    (folder / "memory.stat").write_text(f"hierarchical_memory_limit {64 * MB}\n")
    row = once(CGROUP_ROOT=tmp_path / "cg")
    assert (row["cg_limit_mb"], row["cg_cache_mb"]) == ("64", "-")


def test_without_a_cgroup_a_gpu_and_df_there_are_dashes_and_no_zeros(tmp_path, bin_without):
    row = once(CGROUP_ROOT=tmp_path / "none", path=bin_without)
    missing = (
        "cgroup",
        "cg_used_mb",
        "cg_cache_mb",
        "cg_limit_mb",
        "cg_oom_kills",
        "cg_cpu_pct",
        "main_pid",
        "main_rss_mb",
        "shm_used_mb",
        "gpu_used_mb",
        "gpu_util_pct",
    )
    assert [row[name] for name in missing] == ["-"] * len(missing)


def smi(place, text):
    (place / "nvidia-smi").write_text(f"#!/bin/bash\n{text}\n")
    (place / "nvidia-smi").chmod(0o755)


@pytest.mark.parametrize(
    ("text", "used", "busy"),
    [
        ("echo '40321, 98'; echo '512, 7'", "40833", "98"),
        ("echo '0, 0'", "0", "0"),
        ("echo '[N/A], [Not Supported]'", "-", "-"),
        ("echo 'No devices were found'; exit 6", "-", "-"),
    ],
    ids=["two GPUs", "an idle one", "no readings", "no device"],
)
def test_the_gpu_columns_tell_zero_from_unknown(bin_without, tmp_path, text, used, busy):
    smi(bin_without, text)
    row = once(CGROUP_ROOT=tmp_path / "none", path=bin_without)
    assert (row["gpu_used_mb"], row["gpu_util_pct"]) == (used, busy)


def test_the_training_process_is_found_by_pattern_and_not_the_monitor_itself(tmp_path):
    name = f"train_{os.getpid()}.py"
    (tmp_path / name).write_text("import time\nx = bytearray(60_000_000)\ntime.sleep(30)\n")
    child = subprocess.Popen([sys.executable, str(tmp_path / name), "--lr", "1"])
    try:
        time.sleep(0.6)
        row = once(TRAIN_PROC=f"train_{os.getpid()}*--lr 1")
        assert (row["main_pid"], int(row["main_rss_mb"]) >= 57) == (str(child.pid), True)
        assert int(row["python_n"]) >= 1
    finally:
        child.kill()
        child.wait()
    row = once(TRAIN_PROC=f"train_{os.getpid()}*--lr 1")
    assert (row["main_pid"], row["main_rss_mb"]) == ("-", "-")


def test_it_ends_when_the_process_has_ended():
    child = subprocess.Popen(["sleep", "1.5"])
    monitor = subprocess.Popen(
        ["bash", str(SCRIPT), "--pid", str(child.pid), "--interval", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child.wait()
    out, err = monitor.communicate(timeout=10)
    assert monitor.returncode == 0
    assert len(out.splitlines()) >= 2
    assert err == f"mem_monitor: process {child.pid} has ended\n"


def test_it_stops_at_a_signal():
    monitor = subprocess.Popen(
        ["bash", str(SCRIPT), "--interval", "1"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for _ in range(3):
        monitor.stdout.readline()
    os.killpg(monitor.pid, signal.SIGTERM)
    assert monitor.wait(5) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("--interval 0", "--interval needs a whole number above 0, not 0"),
        ("--interval fast", "--interval needs a whole number above 0, not fast"),
        ("--pid", "--pid needs a whole number above 0, not nothing"),
        ("--pid 4194999", "--pid: no process 4194999"),
        ("--all", "unknown argument --all"),
    ],
)
def test_usage_errors_exit_2(args, text):
    code, out, err = run(*args.split())
    assert (code, out, err) == (2, "", f"mem_monitor: {text}; see --help\n")


def test_help_names_each_column():
    code, out, _ = run("--help")
    assert code == 0
    _, table, _ = run("--once")
    for column in table.splitlines()[0].split("\t"):
        assert f"\n  {column} " in out
