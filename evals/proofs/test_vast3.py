"""VAST3: a restart that waits for its GPUs differs from instances that run, were outbid, load or ended."""

import pytest
from vast_instance import instance

SHOW = "show instance ID --raw"


def states(provider, shell_of, **fields):
    provider.printing("vastai", {SHOW: instance(**fields)})
    lines = provider.run(shell_of("VAST3", "show instance ID")).splitlines()
    return {name.strip(' "'): value.strip(' ",') for name, value in (x.split(":") for x in lines)}


def test_a_stuck_start_wants_to_run_on_demand_and_has_no_hardware(provider, shell_of):
    waits = {"intended_status": "running", "actual_status": "exited", "cur_state": "stopped"}
    stuck = states(provider, shell_of, **waits)
    assert float(stuck.pop("end_date")) > 2e9  # not expired
    assert stuck == {"is_bid": "false", **waits}
    well = states(provider, shell_of, intended_status="running", actual_status="running")
    assert well["intended_status"] == well["actual_status"]
    outbid = states(provider, shell_of, is_bid=True, intended_status="running")
    assert outbid["is_bid"] == "true"
    ended = states(provider, shell_of, **waits | {"cur_state": "running"})
    assert ended["cur_state"] == "running"


@pytest.mark.parametrize("status", ["loading", "offline", "unknown"])  # VAST13, VAST7
def test_a_new_instance_and_a_lost_machine_show_another_status(provider, shell_of, status):
    shown = states(provider, shell_of, intended_status="running", actual_status=status)
    assert shown["actual_status"] not in ("stopped", "exited")
