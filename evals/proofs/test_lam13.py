"""LAM13: an ARM machine whose torch has no CUDA differs from one with the CUDA build and from a PC with the CPU build."""

import pytest
from driver_and_wheel import cudas


@pytest.mark.parametrize(
    ("machine", "wheel", "confirmed"),
    [("aarch64", None, True), ("aarch64", "13.0", False), ("x86_64", None, False)],
)
def test_machine_and_wheel_together_confirm_it(provider, shell_of, machine, wheel, confirmed):
    provider.printing("uname", {"-m": f"{machine}\n"})
    line = shell_of("LAM13", "uname -m")
    first, second = cudas(provider, line, "550.54.15", "12.4", wheel)
    assert (first == "aarch64" and second.split()[-1] == "None") == confirmed
