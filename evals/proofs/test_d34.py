"""D34: whether the card that NCCL is told exists, and how large /dev/shm is. NCCL itself needs cards; the commands of the Check run in namespaces."""

import os
import shutil
import subprocess

import pytest
from check_code import span

APART = ["unshare", "--net", "--mount", *(["--map-root-user"] if os.getuid() else [])]
BOX = """
ip link add eth0 type veth peer name other
ip addr add 10.9.0.2/24 dev eth0
ip link set eth0 up
ip link set other up
mount -t tmpfs -o size=$2 tmpfs /dev/shm
export NCCL_SOCKET_IFNAME=$1
"""


def told(card, size):
    """On a box with the card eth0: what NCCL is told, the cards with an address, the size of /dev/shm."""
    if (
        not all(map(shutil.which, ("unshare", "ip")))
        or subprocess.run([*APART, "true"], capture_output=True).returncode
    ):
        pytest.skip("unshare --net or ip is not there or not allowed")
    variables = {name: value for name, value in os.environ.items() if "NCCL" not in name}
    lines = subprocess.run(
        [*APART, "bash", "-c", BOX + span("D34", "df -h"), "-", card, size],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    [named] = [line.partition("=")[2] for line in lines if line.startswith("NCCL_")]
    cards = [line.split()[0].partition("@")[0] for line in lines if "10.9.0.2/24" in line]
    [shm] = [line.split()[1] for line in lines if line.endswith("/dev/shm")]
    return named, cards, shm


def test_the_commands_of_the_check_show_a_card_that_is_not_there_and_a_small_shm():
    named, cards, shm = told("ens5", "64m")
    assert named not in cards and cards == ["eth0"] and shm == "64M"


def test_and_a_card_that_is_there_and_a_shm_that_is_large_enough():
    named, cards, shm = told("eth0", "1g")
    assert named in cards and shm == "1.0G"


@pytest.mark.parametrize(
    "text",
    [
        "NCCL WARN Bootstrap : no socket interface found",
        "Error: failed to extend /dev/shm/nccl-TxcFGh to 33030532 bytes",
    ],
)
def test_texts_of_nccl(text, says):
    says("D34", text)
