"""D21: a collective that only one rank reaches. Each case has a group of its own, which it may break."""

import re
from functools import cache

import pytest
from check_code import span
from launch import run_ranks

CASES = """
    import datetime, os, time, torch, torch.distributed as dist
    os.environ.update({variables})
    dist.set_debug_level_from_env()                      # as at the first import
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    rank, behind_the_check = dist.get_rank(), {behind_the_check}

    def everywhere_or_on_rank_0(call):
        if rank == 0 or not behind_the_check:
            return call()

    def metric(group):
        value = torch.tensor(float(rank))
        everywhere_or_on_rank_0(lambda: dist.all_reduce(value, group=group))
        assert rank != 0 or value.item() == 1

    def barrier(group):
        everywhere_or_on_rank_0(lambda: dist.barrier(group=group))
        dist.all_reduce(torch.ones(4), group=group)

    def full_weights(group):
        model = torch.nn.Linear(4, 4)
        fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu"))
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = everywhere_or_on_rank_0(lambda: get_model_state_dict(model, options=options))
        assert rank != 0 or len(state) == 2

    def evaluation(group):
        model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)), process_group=group)
        train = lambda: model.train()(torch.randn(4, 4)).sum().backward()
        train()
        net = model if behind_the_check else model.module
        if rank == 0:
            with torch.no_grad():
                net.eval()(torch.randn(4, 4))
        train()

    for case in ({cases}):
        group = dist.new_group(timeout=datetime.timedelta(seconds=3))
        try:
            case(group)
            print(case.__name__, "passed", flush=True)
        except RuntimeError as error:
            print(case.__name__, "stopped:", str(error).replace("\\n", " "), flush=True)
"""
ALL = "metric, barrier, full_weights, evaluation"


def outputs(behind_the_check, cases=ALL, **variables):
    script = CASES.replace("{behind_the_check}", str(behind_the_check)).replace(
        "{cases}", cases + ","
    )
    return run_ranks(script.replace("{variables}", repr(variables)), timeout=90).ranks


@pytest.mark.parametrize("case", ["metric", "barrier", "full_weights", "evaluation"])
@pytest.mark.parametrize("behind_the_check", [True, False])
def test_a_call_behind_the_rank_check_stops_rank_0_and_the_same_call_on_all_ranks_passes(
    runs, case, behind_the_check
):
    rank_0 = runs[behind_the_check]
    assert (f"{case} passed" in rank_0) is (not behind_the_check)


@pytest.fixture(scope="module")
def runs():
    """What rank 0 said; the last case, a DDP forward on one rank, may end the process."""
    return {behind: outputs(behind)[0] for behind in (True, False)}


@cache
def under_detail(behind_the_check):
    """What both ranks said with the variable of the entry's Check."""
    name, value = span("D21", "TORCH_DISTRIBUTED_DEBUG").split("=")
    return outputs(behind_the_check, "barrier", **{name: value})


def test_the_variable_of_the_check_prints_two_calls_or_none():
    def calls(behind_the_check):
        return set(re.findall(r"OpType=(\w+)", "".join(under_detail(behind_the_check))))

    assert calls(True) >= {"BARRIER", "ALLREDUCE"}
    assert calls(False) == set()


def test_under_detail_each_rank_is_right_about_itself_and_wrong_about_the_other_where_one_stands_in_a_barrier():
    first, second = under_detail(True)
    assert "Detected mismatch" in first and "OpType=BARRIER" in first and "ALLREDUCE" not in first
    assert (
        "Detected mismatch" in second and "OpType=ALLREDUCE" in second and "BARRIER" not in second
    )
