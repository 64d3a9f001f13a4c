"""VAST5: only a wheel of a higher major number is too new for the host's driver."""

import pytest
from driver_and_wheel import CASES, cudas, majors


@pytest.mark.parametrize(("driver", "cuda", "wheel", "too_old"), CASES)
def test_the_number_before_the_dot_tells_a_driver_that_is_too_old(
    provider, shell_of, driver, cuda, wheel, too_old
):
    line = f"{shell_of('VAST5', 'nvidia-smi')}; {shell_of('VAST5', 'torch.version')}"
    host, torch = majors(cudas(provider, line, driver, cuda, wheel))
    assert (host < torch) == too_old


def test_the_log_of_a_container_that_cannot_start_names_the_entry(says):
    says("VAST5", "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8")
