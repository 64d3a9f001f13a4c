"""VAST9: the check shows the traffic prices of the rented machine, which a search without -n leaves out."""

OFFER = {"id": 1, "machine_id": "M", "dph_total": 0.3, "inet_up_cost": 0.02, "inet_down_cost": 0.01}


def test_the_prices_of_a_rented_machine_are_shown(provider, shell_of):
    found = {"search offers -n machine_id=M --raw": [OFFER], "search offers machine_id=M --raw": []}
    provider.printing("vastai", found)
    line = shell_of("VAST9", "search offers")
    assert provider.run(line).split() == ['"inet_up_cost":', "0.02,", '"inet_down_cost":', "0.01"]
    assert provider.run(line.replace(" -n ", " ")) == ""
