"""VAST4: an outbid instance is a bid that wants to run and is stopped; its neighbours lack one of these."""

import pytest
from vast_instance import instance

SHOW = "show instance ID --raw"
OUTBID = {
    "is_bid": True,
    "intended_status": "running",
    "actual_status": "stopped",
    "cur_state": "stopped",
}


def displaced(provider, shell_of, **fields):
    provider.printing("vastai", {SHOW: instance(**fields)})
    shown = provider.run(shell_of("VAST4", "show instance ID"))
    said = (
        '"is_bid": true' in shown
        and '"intended_status": "running"' in shown
        and '"cur_state": "running"' not in shown
        and any(f'"actual_status": "{word}"' in shown for word in ("stopped", "exited"))
    )
    return said, shown


def test_the_three_fields_and_the_price_to_beat_are_shown(provider, shell_of):
    said, shown = displaced(provider, shell_of, **OUTBID, min_bid=0.31)
    assert said and '"min_bid": 0.31' in shown


@pytest.mark.parametrize(
    "other",
    [
        {"actual_status": "running"},  # it runs
        {"actual_status": "offline"},  # VAST7
        {"is_bid": False},  # VAST3
        {"intended_status": "stopped"},  # stopped by its owner
        {"actual_status": "exited", "cur_state": "running"},  # its own process ended
    ],
)
def test_a_neighbour_is_not_called_outbid(provider, shell_of, other):
    assert not displaced(provider, shell_of, **OUTBID | other)[0]
