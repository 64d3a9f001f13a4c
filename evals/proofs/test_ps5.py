"""PS5: the check shows the region of each machine, from both forms that the CLI's JSON has had."""

import pytest

MACHINES = [{"name": "train", "region": "AMS1"}, {"name": "dev", "region": "East Coast (NY2)"}]


@pytest.mark.parametrize("form", [{"items": MACHINES, "hasMore": False}, MACHINES])
def test_each_machine_is_shown_with_its_region(provider, shell_of, form):
    provider.printing("pspace", {"machine list -j": form})
    assert provider.run(shell_of("PS5", "machine list")).splitlines() == [
        "train\tAMS1",
        "dev\tEast Coast (NY2)",
    ]
