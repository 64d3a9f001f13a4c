"""The load test: its judgement on what a worker says, and the worker itself on a CPU where torch is there."""

import importlib.util
import json
import sys

import pytest

from tests.gpu_health.gpu_faults import CAPTURES
from tests.gpu_health.script import gpu_health

NAME = "NVIDIA H100 80GB HBM3"


def said(**changes):
    """The worker's lines for eight healthy GPUs; changes: {gpu: {...}} for matmul, copy or all-reduce."""
    lines = [{"stage": "import"}, {"stage": "matmul", "dtype": "torch.bfloat16", "size": 8192}]
    lines += [
        dict(
            {
                "stage": "matmul done",
                "gpu": index,
                "name": NAME,
                "mark": [1, 2],
                "checks": 50,
                "differ": 0,
                "tflops": 680.0 + index,
            },
            **changes.get("matmul", {}).get(index, {}),
        )
        for index in range(8)
    ]
    lines += [
        dict(
            {"stage": "copy done", "gpu": index, "copy_gb_s": 2600.0, "h2d_gb_s": 53.0},
            **changes.get("copy", {}).get(index, {}),
        )
        for index in range(8)
    ]
    lines += [
        dict({"stage": "all-reduce"}),
        dict(
            {"stage": "all-reduce done", "right": [True] * 8, "bus_gb_s": 330.0},
            **changes.get("reduce", {}),
        ),
        {"stage": "end"},
    ]
    return lines


def judged(lines, samples=(), log="", timed_out=False):
    record = gpu_health.load(str(CAPTURES / "h100x8"))
    text = "".join(f"GPU_HEALTH {json.dumps(line)}\n" for line in lines)
    measured, findings = gpu_health.judged_stress(
        {"text": text, "timed_out": timed_out},
        list(samples),
        record,
        record["files"]["dmesg.txt"] + log,
    )
    return measured, [(one["gpu"], one["level"]) for one in findings]


def test_a_healthy_run_gives_figures_and_no_finding():
    measured, findings = judged(said())
    assert findings == []
    assert (
        measured["matmul"][3]["tflops"] == 683.0
        and measured["all_reduce_bus_gb_s"] == 330.0
        and measured["copy"][0]["h2d_gb_s"] == 53.0
    )


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"matmul": {5: {"differ": 1}}}, (5, "fatal")),
        ({"matmul": {2: {"mark": [1, 3]}}}, (2, "fatal")),
        ({"matmul": {7: {"tflops": 300.0}}}, (7, "degraded")),
        ({"matmul": {1: {"tflops": 560.0}}}, (1, "degraded")),
        ({"copy": {4: {"h2d_gb_s": 6.0}}}, (4, "degraded")),
        ({"reduce": {"right": [True, False] + [True] * 6}}, (1, "fatal")),
    ],
    ids=[
        "differs between runs",
        "differs between GPUs",
        "far from the data sheet",
        "slower than the others",
        "slow host link",
        "wrong sum",
    ],
)
def test_one_bad_figure_is_one_finding_on_its_gpu(changes, finding):
    assert judged(said(**changes))[1] == [finding]


def test_throttling_and_xids_meanwhile_are_told():
    rows = [
        {"index": "3", "clocks_event_reasons.active": "0x0000000000000044"},
        {"index": "4", "clocks_event_reasons.active": "0x0000000000000004"},
    ]
    assert judged(said(), samples=[{"rows": rows}] * 5)[1] == [(3, "degraded")]
    assert judged(said(), log="[ 9100.0] NVRM: Xid (PCI:0000:3d:00): 48, pid=5, DBE\n")[1] == [
        (2, "fatal")
    ]


def test_a_stage_that_never_ends_is_fatal_and_names_itself():
    lines = said()[:-2]
    record = gpu_health.load(str(CAPTURES / "h100x8"))
    text = "".join(f"GPU_HEALTH {json.dumps(line)}\n" for line in lines)
    _, findings = gpu_health.judged_stress({"text": text, "timed_out": True}, [], record, "")
    assert [(one["level"], one["entry"]) for one in findings] == [("fatal", "D20")]
    assert "all-reduce" in findings[0]["evidence"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Traceback\nModuleNotFoundError: No module named 'torch'\n",
        'GPU_HEALTH {"stage": "failed", "error": "torch sees no GPU"}\n',
        "GPU_HEALTH [1]\nGPU_HEALTH {\n",
    ],
)
def test_a_load_that_could_not_run_is_unknown(text):
    record = gpu_health.load(str(CAPTURES / "h100x8"))
    _, findings = gpu_health.judged_stress({"text": text, "timed_out": False}, [], record, "")
    assert [one["level"] for one in findings] == ["unknown"]


def test_the_worker_itself_runs_on_a_cpu():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: pip install -e '.[proofs]'")
    record = gpu_health.load(str(CAPTURES / "t4x1"))
    measured, findings = gpu_health.stress(0.5, sys.executable, record, device="cpu", size=256)
    assert [one["differ"] for one in measured["matmul"]] == [0] and measured["matmul"][0][
        "checks"
    ] >= 2
    assert measured["copy"][0]["copy_gb_s"] > 0
    assert [one for one in findings if "stress" in one["evidence"]] == []
