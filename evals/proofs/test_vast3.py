"""VAST3: a restart that waits for its GPUs differs from a running instance and from one that was outbid."""

from vast_instance import instance

SHOW = "show instance ID --raw"


def states(provider, shell_of, **fields):
    provider.printing("vastai", {SHOW: instance(**fields)})
    lines = provider.run(shell_of("VAST3", "show instance ID")).splitlines()
    return {name.strip(' "'): value.strip(' ",') for name, value in (x.split(":") for x in lines)}


def test_a_stuck_start_wants_to_run_on_demand_and_does_not(provider, shell_of):
    stuck = states(provider, shell_of, intended_status="running", actual_status="exited")
    assert float(stuck.pop("end_date")) > 2e9  # not expired
    assert stuck == {"is_bid": "false", "intended_status": "running", "actual_status": "exited"}
    well = states(provider, shell_of, intended_status="running", actual_status="running")
    assert well["intended_status"] == well["actual_status"]
    outbid = states(provider, shell_of, is_bid=True, intended_status="running")
    assert outbid["is_bid"] == "true"
