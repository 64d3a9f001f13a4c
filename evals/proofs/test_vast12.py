"""VAST12: the machine of the volume differs from the instance's only where it can't be attached."""

import pytest
from vast_instance import instance


@pytest.mark.parametrize(("machine", "elsewhere"), [(4321, True), (1234, False)])
def test_two_numbers_mean_another_machine(provider, shell_of, machine, elsewhere):
    volume = {"id": 77, "machine_id": 1234, "disk_space": 100, "status": "available"}
    provider.printing(
        "vastai",
        {
            "show volumes --raw": [volume],
            "show instance ID --raw": instance(machine_id=machine),
        },
    )
    lines = provider.run(shell_of("VAST12", "machine_id")).splitlines()
    numbers = [line.split(":")[1].strip(" ,") for line in lines]
    assert (len(set(numbers)) == 2) == elsewhere and len(numbers) == 2
