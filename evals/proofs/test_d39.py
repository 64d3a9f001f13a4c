"""D39: who ended the process of a Ray actor. What Ray 2.60.0 wrote when an actor was killed, ran out of the memory that Ray allows, and crashed."""

import os
import subprocess

import pytest
from check_code import span

PID = 28183
DIED = f"""\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
	class_name: Holder
	actor_id: d8ae7ad5473733bccb173c7101000000
	pid: {PID}
	namespace: a547f352-b1aa-4f36-a827-9697f9914acc
	ip: 10.0.0.5
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker \
unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed \
by the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the worker crashed unexpectedly due \
to SIGSEGV or another unexpected error."""
STARTED = ":job_id:01000000\n:actor_name:Holder\n"
CRASHED = """\
*** SIGSEGV received at time=1795612382 on cpu 0 ***
PC: @     0x7f34a9385ad8  (unknown)  (unknown)
    @     0x7f34a925a050  (unknown)  (unknown)
Fatal Python error: Segmentation fault
"""
RAYLET = f"""\
[2026-11-25 13:13:01,214 I 28082 28082] (raylet) node_manager.cc:1477: Disconnecting worker, graceful=false, disconnect_type=0
[2026-11-25 13:13:01,214 W 28082 28082] (raylet) node_manager.cc:129: DisconnectClient: failed to send SIGTERM to process group {PID}: No such process, errno=3
"""
RAY_KILLED = "OOM kill reason: Memory usage 5608505344B exceeded threshold of 505530016B (2.0% of 25276502016B limit)\n"
KERNEL = "[Wed Nov 25 13:12:40 2026] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready\n"
KERNEL_KILLED = (
    f"[Wed Nov 25 13:13:01 2026] Out of memory: Killed process {PID} (ray::Holder) total-vm:41216184kB, "
    "anon-rss:30162104kB, file-rss:0kB, shmem-rss:4kB, UID:0 pgtables:60120kB oom_score_adj:1000\n"
)


@pytest.fixture
def told(tmp_path):
    """told(kernel, raylet, err): what the commands of the Check print where these are the logs."""
    logs, tools = tmp_path / "logs", tmp_path / "bin"
    logs.mkdir()
    tools.mkdir()
    for name, script in (("sudo", 'exec "$@"'), ("dmesg", f"cat {tmp_path}/kernel")):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)

    def run(kernel: str, raylet: str, err: str) -> str:
        (tmp_path / "kernel").write_text(kernel)
        (logs / "raylet.out").write_text(raylet)
        (logs / f"worker-901592c680326b23-ffffffff-{PID}.err").write_text(err)
        (logs / f"worker-182fd4b8675295ad-ffffffff-{PID - 1}.err").write_text("of another actor\n")
        commands = span("D39", "dmesg").replace("/tmp/ray/session_latest/logs", str(logs))
        return subprocess.run(
            ["bash", "-c", commands.replace("PID", str(PID))],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def test_the_error_of_the_driver_is_the_same_for_all_of_them(says):
    says("D39", DIED)
    says("D39", DIED.splitlines()[-1])


@pytest.mark.parametrize(
    "kernel, raylet, err, cause",
    [
        (KERNEL + KERNEL_KILLED, RAYLET, STARTED, KERNEL_KILLED),
        (KERNEL, RAYLET + RAY_KILLED, STARTED, RAY_KILLED),
        (KERNEL, RAYLET, STARTED + CRASHED, CRASHED),
    ],
    ids=["the kernel", "Ray's monitor", "a crash"],
)
def test_the_commands_of_the_check_print_the_cause(told, kernel, raylet, err, cause):
    printed = told(kernel, raylet, err)
    assert cause in printed
    assert printed.replace(cause, "") == STARTED


def test_they_print_none_where_the_actor_lives_or_was_stopped_from_outside(told):
    assert told(KERNEL, RAYLET, STARTED) == STARTED
