"""MN4: both ends have jumbo frames, the port of the switch to the second has not, and drops without a word. Two network namespaces and a bridge, removed with their processes."""

import os
import shutil
import subprocess
import sys
import time

import pytest

NEW = ["unshare", "--net"] if not os.getuid() else ["unshare", "--net", "--map-root-user"]
ENTER = (
    ["nsenter", "--net"]
    if not os.getuid()
    else ["nsenter", "--user", "--preserve-credentials", "--net"]
)

SERVER = """
import socket, threading

def answer(peer):
    left = int.from_bytes(peer.recv(8, socket.MSG_WAITALL), "big")
    while left and (got := len(peer.recv(min(left, 65536)))):
        left -= got
    peer.sendall(b"k")
    peer.close()

server = socket.create_server(("10.9.1.3", 5000))
print("ready", flush=True)
while True:
    threading.Thread(target=answer, args=server.accept()[:1], daemon=True).start()
"""

CLIENT = """
import socket, sys
for size in map(int, sys.argv[2:]):
    peer = socket.create_connection(("10.9.1.3", 5000), timeout=float(sys.argv[1]))
    peer.sendall(size.to_bytes(8, "big"))
    try:
        peer.sendall(bytes(size))
        print(size, "arrived" if peer.recv(1) == b"k" else "lost")
    except TimeoutError:
        print(size, "hangs")
"""


@pytest.fixture
def network():
    """network(MTU of end A, of the switch, of end B): what a namespace is called, to run commands in it."""
    if (
        not all(map(shutil.which, ("unshare", "nsenter", "ip")))
        or subprocess.run([*NEW, "true"], capture_output=True).returncode
    ):
        pytest.skip("unshare --net or ip is not there or not allowed")
    processes = []

    def make(end_a: int, switch: int, end_b: int, probing: int = 0):
        spaces = {name: subprocess.Popen([*NEW, "sleep", "60"]) for name in ("a", "switch", "b")}
        processes.extend(spaces.values())
        mine = os.readlink("/proc/self/ns/net")
        for space in spaces.values():
            while os.readlink(f"/proc/{space.pid}/ns/net") == mine:
                time.sleep(0.02)

        def within(name: str, *command: str, **options) -> subprocess.CompletedProcess:
            return subprocess.run(
                [*ENTER, "--target", str(spaces[name].pid), *command],
                check=True,
                text=True,
                capture_output=True,
                timeout=15,
                **options,
            )

        within("switch", *"ip link add br0 type bridge".split())
        within("switch", *"ip link set br0 up".split())
        for name, mtu, address in (("a", end_a, "10.9.1.2/24"), ("b", end_b, "10.9.1.3/24")):
            within(
                "switch",
                *f"ip link add port{name} type veth peer name eth0 netns {spaces[name].pid}".split(),
            )
            within(
                "switch",
                *f"ip link set port{name} mtu {end_a if name == 'a' else switch} master br0 up".split(),
            )
            within(
                name, *f"ip link set eth0 mtu {mtu} gso_max_segs 1 up".split()
            )  # one packet at a time, as on a wire
            within(name, *f"ip addr add {address} dev eth0".split())
            within(
                name,
                sys.executable,
                "-c",
                f"open('/proc/sys/net/ipv4/tcp_mtu_probing', 'w').write('{probing}')",
            )
        server = subprocess.Popen(
            [*ENTER, "--target", str(spaces["b"].pid), sys.executable, "-c", SERVER],
            stdout=subprocess.PIPE,
        )
        processes.append(server)
        assert server.stdout.readline() == b"ready\n"
        return within

    yield make
    for process in processes:
        process.kill()
        process.wait()


def sent(within, *sizes: int, timeout: float = 1.5) -> list[str]:
    return [
        line.split()[1]
        for line in within(
            "a", sys.executable, "-c", CLIENT, str(timeout), *map(str, sizes)
        ).stdout.splitlines()
    ]


def test_small_messages_pass_and_a_large_one_hangs(network):
    within = network(9000, 1500, 9000)
    assert sent(within, 100, 1000, 100_000) == ["arrived", "arrived", "hangs"]


def test_the_smaller_mtu_on_one_end_is_enough_for_new_connections(network):
    within = network(9000, 1500, 9000)
    assert sent(within, 100_000) == ["hangs"]
    within("a", *"ip link set dev eth0 mtu 1400".split())
    assert sent(within, 100, 100_000, 5_000_000) == ["arrived"] * 3


def test_the_smaller_mtu_on_the_other_end_is_enough_too(network):
    assert sent(network(9000, 1500, 1500), 100, 100_000, 5_000_000) == ["arrived"] * 3


def test_probing_from_the_start_finds_the_size_without_touching_a_link(network):
    assert sent(network(9000, 1500, 9000, probing=2), 100, 100_000, 5_000_000) == ["arrived"] * 3


def test_probing_after_losses_is_late_but_gets_there(network):
    within = network(9000, 1500, 9000, probing=1)
    within(
        "a", sys.executable, "-c", "open('/proc/sys/net/ipv4/tcp_retries1', 'w').write('1')"
    )  # sooner than by default
    assert sent(within, 100_000, timeout=0.3) == ["hangs"]
    assert sent(within, 100_000, timeout=8) == ["arrived"]
