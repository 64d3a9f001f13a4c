"""VAST12: the machine beside the volume's id differs from the instance's only where it can't be attached."""

import re

import pytest
from vast_instance import instance


@pytest.mark.parametrize(("machine", "elsewhere"), [(4321, True), (1234, False)])
def test_the_volumes_machine_stands_beside_its_id(provider, shell_of, machine, elsewhere):
    volumes = [
        {"id": number, "machine_id": place, "disk_space": 100, "status": "available"}
        for number, place in ((76, 999), (77, 1234))
    ]
    provider.printing(
        "vastai",
        {
            "show volumes --raw": volumes,
            "show instance ID --raw": instance(machine_id=machine),
        },
    )
    shown = provider.run(shell_of("VAST12", "machine_id"))
    of_volume = re.search(r"^77 (\d+)$", shown, re.M)[1]
    of_instance = re.search(r'"machine_id": (\d+)', shown)[1]
    assert (of_volume != of_instance) == elsewhere
