"""D30: Gloo dials an address at which no peer answers, or is told a network card that doesn't exist."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from check_code import span

SINGLE = """
import sys
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
print("made")
"""

PAIR = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist
path, rank, address = sys.argv[1], int(sys.argv[2]), sys.argv[3]
options = dist.ProcessGroupGloo._Options()
options._timeout = timedelta(seconds=float(sys.argv[4]))
options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
group = dist.ProcessGroupGloo(dist.FileStore(path, 2), rank, 2, options)
value = torch.ones(1)
group.allreduce([value]).wait()
print("sum", int(value))
"""


def start(script: str, *arguments: str, **variables: str) -> subprocess.Popen:
    names = {name: value for name, value in os.environ.items() if not name.startswith("GLOO_")}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(
        command,
        env={**names, **variables},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.parametrize("card", ["^lo,docker", "nope0"])
def test_a_card_that_does_not_exist(tmp_path, says, card):
    run = start(SINGLE, str(tmp_path / "store"), GLOO_SOCKET_IFNAME=card)
    output = run.communicate(timeout=60)[0]
    assert run.returncode != 0
    says("D30", output)


def test_a_card_that_exists(tmp_path):
    run = start(SINGLE, str(tmp_path / "store"), GLOO_SOCKET_IFNAME="lo")
    assert "made" in run.communicate(timeout=60)[0]


def test_a_peer_that_gave_an_address_where_nobody_answers(tmp_path, says):
    """As with 127.0.1.1 from another machine: the peer told its address, and at that address nothing listens."""
    path = tmp_path / "store"
    peer = start(PAIR, str(path), "1", "127.0.0.2", "30")
    end = time.monotonic() + 60
    while not (path.exists() and bytes([127, 0, 0, 2]) in path.read_bytes()):
        assert peer.poll() is None and time.monotonic() < end, "the peer never told its address"
        time.sleep(0.05)
    peer.kill()
    peer.communicate()
    run = start(PAIR, str(path), "0", "127.0.0.3", "4")
    output = run.communicate(timeout=60)[0]
    assert run.returncode != 0
    assert "connectFullMesh failed" in output
    says("D30", output)


def test_peers_that_reach_each_other(tmp_path):
    path = str(tmp_path / "store")
    runs = [start(PAIR, path, "1", "127.0.0.2", "30"), start(PAIR, path, "0", "127.0.0.3", "30")]
    assert all("sum 2" in run.communicate(timeout=60)[0] for run in runs)


APART = ["unshare", "--mount", "--uts", *(["--map-root-user"] if os.getuid() else [])]


@pytest.mark.parametrize("address", ["127.0.1.1", "10.0.0.5"])
def test_the_command_of_the_check_shows_the_address_of_the_host_name_first(tmp_path, address):
    """In namespaces of its own, where the host is called box and has this line in /etc/hosts."""
    if not shutil.which("unshare") or subprocess.run([*APART, "true"]).returncode:
        pytest.skip("unshare isn't there or not allowed")
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{address} box\n")
    script = f'hostname box; mount --bind "$1" /etc/hosts; {span("D30", "getent")}'
    shown = subprocess.run(
        [*APART, "bash", "-c", script, "-", str(hosts)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split()[0] == address
