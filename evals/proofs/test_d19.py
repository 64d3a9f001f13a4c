"""D19: which rank got out of step, and in which call."""
import pytest
from launch import run_ranks

OUT_OF_STEP = """
    import datetime, pickle, time, torch, torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    rank = dist.get_rank()
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    try:
        {fourth}
    except RuntimeError as error:
        print(error)
    last = pickle.loads(_dump_fr_trace())["entries"][-1]
    line = next(frame["line"] for frame in last["frames"] if frame["name"] == "<module>")
    print("last", last["collective_seq_id"], last["profiling_name"], "line", line)
"""
ANOTHER_CALL = "dist.barrier() if rank == 0 else dist.all_gather_single(torch.ones(8), torch.ones(4))"
ANOTHER_SIZE = "dist.all_reduce(torch.ones(4 + 2 * rank))"
ABSENT = "dist.all_reduce(torch.ones(4)) if rank == 0 else time.sleep(6)"
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}


def outputs(fourth, env=None):
    return run_ranks(OUT_OF_STEP.format(fourth=fourth), env=env).ranks


def test_without_the_debug_level_a_mismatch_is_only_a_timeout_that_names_nobody():
    for output in outputs(ANOTHER_CALL):
        assert "Timed out waiting" in output and "mismatch" not in output


def test_detail_names_both_calls_on_every_rank(says):
    for output in outputs(ANOTHER_CALL, DETAIL):
        says("D19", output)
        assert "OpType=BARRIER" in output and "OpType=_ALLGATHER_BASE" in output


def test_detail_names_the_shapes_where_only_the_size_differs(says):
    for output in outputs(ANOTHER_SIZE, DETAIL):
        says("D19", output)
        assert "TensorShape=[4]" in output and "TensorShape=[6]" in output


def test_gloo_itself_notices_a_different_size(says):
    says("D19", outputs(ANOTHER_SIZE)[0])


def test_detail_names_the_rank_that_never_came(says):
    waiting, _ = outputs(ABSENT, DETAIL)
    says("D19", waiting)
    assert "Ranks 1 failed to pass monitoredBarrier" in waiting


@pytest.mark.parametrize("fourth, last", [(ANOTHER_CALL, ["last 4 gloo:barrier", "last 4 gloo:"]),
                                          (ABSENT, ["last 4 gloo:all_reduce", "last 3 gloo:all_reduce"])])
def test_the_flight_recorder_shows_the_last_call_of_each_rank_without_any_setting(fourth, last):
    for output, expected in zip(outputs(fourth), last, strict=True):
        assert expected in output


def test_the_same_call_on_both_ranks_prints_none_of_it():
    for output in outputs("dist.all_reduce(torch.ones(4))", DETAIL):
        assert output.startswith("last 4 gloo:all_reduce")
