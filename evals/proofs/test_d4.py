"""D4: two jobs on one machine ask for one port."""

import os
import shutil
import socket
import subprocess

import pytest
from check_code import span
from launch import free_port, run_commands, torchrun

SAYS_WHO_IT_IS = """\
import os, pathlib, sys, time, torch.distributed as dist
dist.init_process_group("gloo")
print(f"rank {dist.get_rank()} of {dist.get_world_size()}\\n", end="")
mine, awaited = map(pathlib.Path, sys.argv[1:])
mine.touch()
while not awaited.exists():
    time.sleep(0.1)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SAYS_WHO_IT_IS)
    return str(path)


@pytest.fixture
def taken_port():
    with socket.socket() as server:
        server.bind(("", 0))
        server.listen()
        yield server.getsockname()[1]


def job(script, name, *flags, ends_after=None, starts_after=None):
    """A launcher whose job marks its start with the file `name`, and waits for the one called `ends_after`."""
    marks = [f"{script}.{mark}" for mark in (name, ends_after or name)]
    launcher = [*torchrun(*flags, script), *marks]
    if starts_after:
        launcher = [
            "bash",
            "-c",
            f'until [ -e "{script}.{starts_after}" ]; do sleep 0.1; done; exec "$@"',
            "-",
            *launcher,
        ]
    return launcher


def who(finished):
    return finished.lines("rank ")


def test_a_fixed_port_that_another_process_holds_stops_the_second_job(script, taken_port, says):
    [finished] = run_commands([job(script, "only", f"--master-port={taken_port}")])
    assert finished.returncode == 1
    says("D4", finished.output)


def test_standalone_takes_a_free_port_and_ignores_the_fixed_one(script, taken_port):
    [finished] = run_commands([job(script, "only", "--standalone", f"--master-port={taken_port}")])
    assert who(finished) == ["rank 0 of 1"]


def test_two_default_launches_run_side_by_side_since_torch_2_12(script):
    finished = run_commands(
        [job(script, "one", ends_after="two"), job(script, "two", ends_after="one")]
    )
    assert list(map(who, finished)) == [["rank 0 of 1"]] * 2


def test_two_jobs_on_one_rendezvous_endpoint_do_not_collide_but_the_second_dies_with_the_first(
    script,
):
    shared = ("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}")
    host, guest = run_commands(
        [
            job(script, "host", *shared, "--rdzv-id=one", ends_after="guest"),
            job(script, "guest", *shared, "--rdzv-id=two", starts_after="host", ends_after="never"),
        ]
    )
    assert host.returncode == 0
    assert who(guest) == ["rank 0 of 1"] and guest.returncode == 1
    assert "The connection to the C10d store has failed" in guest.output


@pytest.mark.skipif(not shutil.which("ss"), reason="no ss here: apt-get install iproute2")
def test_the_line_of_the_check_names_the_process_that_holds_the_port(taken_port):
    def listed(port):
        line = span("D4", "ss ").replace("29500", str(port))
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True).stdout

    assert f"pid={os.getpid()}," in listed(taken_port)
    assert listed(free_port()) == ""
