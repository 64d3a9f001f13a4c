"""VAST7: the status says whether the host is out of reach, and the log line has the entry's signature."""

import pytest
from vast_instance import instance

SHOW = "show instance ID --raw"


@pytest.mark.parametrize("status", ["offline", "unknown", "running", "stopped"])
def test_only_a_host_out_of_reach_shows_offline_or_unknown(provider, shell_of, says, status):
    provider.printing("vastai", {SHOW: instance(actual_status=status)})
    shown = provider.run(shell_of("VAST7", "show instance ID"))
    assert f'"actual_status": "{status}"' in shown and "intended_status" not in shown
    if status in ("offline", "unknown"):
        says("VAST7", shown)
    else:
        with pytest.raises(AssertionError):
            says("VAST7", shown)
