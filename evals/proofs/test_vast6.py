"""VAST6: a declared port has its number outside in the environment, another port hasn't."""


def test_only_a_declared_port_has_a_number_outside(provider, shell_of):
    line = shell_of("VAST6", "VAST_TCP_PORT")
    assert provider.run(line, VAST_TCP_PORT_6006="41207") == "VAST_TCP_PORT_6006=41207"
    assert provider.run(line, PUBLIC_IPADDR="203.0.113.5") == ""
