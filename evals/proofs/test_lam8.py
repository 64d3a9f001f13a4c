"""LAM8: the environment's own file says whether it shows the system's packages."""

import venv

import pytest


@pytest.mark.parametrize("shared", [True, False])
def test_only_an_environment_with_the_flag_says_true(provider, shell_of, shared):
    place = provider.place / "env"
    venv.create(place, system_site_packages=shared, symlinks=True)
    shown = provider.run(shell_of("LAM8", "include-system"), VIRTUAL_ENV=str(place))
    assert shown.endswith("= true") == shared
