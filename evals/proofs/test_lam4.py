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


def test_the_check_names_the_rulesets_of_the_instance(provider, shell_of):
    line = shell_of("LAM4", "firewall_rulesets")
    provider.answers["cloud.lambda.ai/api/v1/instances/ID"] = {
        "data": {"id": "ID", "firewall_rulesets": [{"id": "c4d291f4"}]}
    }
    assert "c4d291f4" in provider.run(line)
    provider.answers["cloud.lambda.ai/api/v1/instances/ID"] = {"data": {"firewall_rulesets": []}}
    assert provider.run(line) == "[]"
