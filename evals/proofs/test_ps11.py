"""PS11: only a wheel of a higher major number is too new for the template's driver."""

import pytest
from driver_and_wheel import CASES, cudas, majors


@pytest.mark.parametrize(("driver", "cuda", "wheel", "too_old"), CASES)
def test_the_number_before_the_dot_tells_a_driver_that_is_too_old(
    provider, shell_of, driver, cuda, wheel, too_old
):
    host, torch = majors(cudas(provider, shell_of("PS11", "torch.version"), driver, cuda, wheel))
    assert (torch > host) == too_old
