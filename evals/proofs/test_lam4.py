"""LAM4: a service bound to 127.0.0.1 can't be reached from outside, whatever the firewall says."""

import shutil
import socket

import pytest


@pytest.mark.parametrize(("address", "reached"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_the_check_shows_to_which_address_the_service_is_bound(
    provider, shell_of, address, reached
):
    if not shutil.which("ss"):
        pytest.skip("apt-get install iproute2")
    with socket.create_server((address, 0)) as service:
        port = service.getsockname()[1]
        rows = [row.split()[3] for row in provider.run(shell_of("LAM4", "ss -")).splitlines()]
    assert (f"127.0.0.1:{port}" not in rows) == reached
    assert (f"0.0.0.0:{port}" in rows) == reached


def test_the_check_lists_the_rules_that_hold_for_this_instance_alone(provider, shell_of):
    api = "cloud.lambda.ai/api/v1/firewall-rulesets"
    ssh = {"protocol": "tcp", "port_range": [22, 22], "source_network": "0.0.0.0/0"}
    ping = {"protocol": "icmp", "source_network": "0.0.0.0/0"}
    board = {"protocol": "tcp", "port_range": [6000, 6010], "source_network": "198.51.100.7/32"}
    provider.answers[f"{api}/global"] = {"data": {"id": "global", "rules": [ssh, ping]}}
    provider.answers[api] = {
        "data": [
            {"id": "a", "instance_ids": ["other"], "rules": [board]},
            {"id": "b", "instance_ids": ["ID", "x"], "rules": []},
        ]
    }
    provider.program("sleep", "#!/bin/sh\n")
    line = shell_of("LAM4", "firewall-rulesets")
    held = [["global", "tcp", "22-22", "0.0.0.0/0"], ["global", "icmp", "", "0.0.0.0/0"]]
    assert [row.split("\t") for row in provider.run(line).splitlines()] == held
    provider.answers[api]["data"][1]["rules"] = [board]
    shown = [row.split("\t") for row in provider.run(line).splitlines()]
    assert shown == [["b", "tcp", "6000-6010", "198.51.100.7/32"], *held]
