"""VAST6: a declared port has its number outside, in the instance's JSON and in the environment; another port hasn't."""

import pytest
from vast_instance import instance


@pytest.mark.parametrize(
    ("ports", "shown"),
    [
        ({"6006/tcp": [{"HostIp": "0.0.0.0", "HostPort": "41207"}]}, ["6006/tcp", "41207"]),
        ({"22/tcp": [{"HostIp": "0.0.0.0", "HostPort": "41200"}]}, ["22/tcp", "41200"]),
        (None, []),  # a stopped instance
    ],
)
def test_the_json_names_each_declared_port_with_its_number_outside(
    provider, shell_of, ports, shown
):
    provider.printing("vastai", {"show instance ID --raw": instance(ports=ports)})
    told = provider.run(shell_of("VAST6", "show instance ID"))
    assert all(part in told for part in shown)
    assert ("6006" in told) is bool(ports and "6006/tcp" in ports)


def test_only_a_declared_port_has_a_number_outside(provider, shell_of):
    line = shell_of("VAST6", "VAST_TCP_PORT")
    assert provider.run(line, VAST_TCP_PORT_6006="41207") == "VAST_TCP_PORT_6006=41207"
    assert provider.run(line, PUBLIC_IPADDR="203.0.113.5") == ""
