"""MN2: which card carries the traffic, and which one leads to the other machine. Two network namespaces with two links between them."""

import os
import re
import shutil
import subprocess

import pytest
from check_code import span
from remote_gpu_trainer.catalogue import bundle

APART = ["unshare", "--net", *(["--map-root-user"] if os.getuid() else [])]
MACHINES = """
unshare --net sleep 20 & other=$!
trap "kill $other" EXIT
while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
number=1
for card in slow fast; do
  ip link add $card type veth peer name $card netns $other
  ip addr add 10.9.$number.2/24 dev $card
  ip link set $card up
  nsenter --net --target $other ip addr add 10.9.$number.3/24 dev $card
  nsenter --net --target $other ip link set $card up
  number=$((number + 1))
done
"""
SLOW, FAST = "10.9.1.3", "10.9.2.3"  # the other machine's addresses


def on_the_first(script):
    if (
        not all(map(shutil.which, ("unshare", "nsenter", "ip")))
        or subprocess.run([*APART, "true"], capture_output=True).returncode
    ):
        pytest.skip("unshare --net or ip is not there or not allowed")
    return subprocess.run(
        [*APART, "bash", "-c", MACHINES + script], capture_output=True, text=True, timeout=20
    ).stdout


@pytest.mark.parametrize("address, used", [(SLOW, "slow"), (FAST, "fast")])
def test_the_command_of_the_check_shows_bytes_growing_on_the_card_in_use(address, used):
    look = span("MN2", "ip -s link")
    looks = "\n".join(look.replace("eno1", card) for card in ("slow", "fast"))
    send = f"for i in {{1..40}}; do printf %01000d 0 2>&- > /dev/udp/{address}/9; done"
    output = on_the_first(f"{looks}\n{send} 2>/dev/null\n{looks}\n")
    sent = [int(number) for number in re.findall(r"TX:.*\n\s*(\d+)", output)]
    grown = {"slow": sent[2] - sent[0], "fast": sent[3] - sent[1]}
    assert grown[used] > 20_000 and sum(grown.values()) - grown[used] < 5_000


@pytest.mark.parametrize("address, card", [(SLOW, "slow"), (FAST, "fast")])
def test_the_line_of_the_fix_names_the_card_that_leads_to_the_address(address, card):
    fix = bundle.load().get("MN2").fix
    line = re.search(r"`(export NCCL_SOCKET_IFNAME=[^`]*)`", fix)[1].replace("OTHER_IP", address)
    assert on_the_first(f"{line}\necho $NCCL_SOCKET_IFNAME\n") == f"={card}\n"
