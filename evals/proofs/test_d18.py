"""D18: two owners of gradient accumulation. One weight, gradient 1 per micro-batch, plain SGD with rate 0.1."""

import json

import pytest
from check_code import span
from launch import run_ranks

pytest.importorskip("deepspeed")
pytest.importorskip("accelerate", minversion="1.8")

RUNS = """
    import os
    os.environ["DS_ACCELERATOR"] = "cpu"
    import contextlib, io, json, logging, torch, deepspeed
    logging.disable(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it compiles one
    deepspeed.init_distributed(dist_backend="gloo")
    def run(stage=1, accumulate=4, step_every=1, divide=1, backward="engine", no_sync=False, only=None):
        net = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(net.weight)
        engine, *_ = deepspeed.initialize(model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), config={
            "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accumulate, "gradient_clipping": 0.0,
            "zero_optimization": {"stage": stage}, "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True,
            "steps_per_print": 10**9})
        try:
            for batch in range(16):
                if no_sync:
                    with engine.no_sync(): pass
                gradient = 1.0 if only in (None, batch % 4) else 0.0
                loss = engine(torch.full((1, 1), gradient, dtype=torch.bfloat16)).mean() / divide
                if backward == "accelerate":
                    from accelerate.utils.deepspeed import DeepSpeedEngineWrapper
                    DeepSpeedEngineWrapper(engine).backward(loss, sync_gradients=(batch + 1) % 4 == 0)
                    continue
                engine.backward(loss) if backward == "engine" else loss.backward()
                if (batch + 1) % step_every == 0:
                    engine.step()
        except (AssertionError, RuntimeError) as error:
            return {"error": str(error)}
        with contextlib.redirect_stdout(io.StringIO()) as check:
            {check}
        return {"check": check.getvalue().strip(), "moved": round(-next(net.parameters()).item(), 2)}
    print("JSON", json.dumps({
        "engine": run(), "accelerate": run(backward="accelerate"), "loop counts too": run(step_every=4), "loop counts, stage 0": run(stage=0, step_every=4),
        "first of four counts": run(only=0), "loop counts, first of four": run(step_every=4, only=0),
        "loop counts alone, first of four": run(accumulate=1, step_every=4, only=0), "divided twice": run(divide=4),
        "loss.backward": run(backward="loss"), "loss.backward, stage 0": run(stage=0, backward="loss"),
        "no_sync, stage 2": run(stage=2, no_sync=True)}))
"""


@pytest.fixture(scope="module")
def runs():
    """What 16 micro-batches did, for each way to write the loop."""
    check = span("D18", "engine.micro_steps")
    finished = run_ranks(RUNS.replace("{check}", check), timeout=120)
    found = [line for line in finished.ranks[0].splitlines() if line.startswith("JSON")]
    assert found, finished.output
    return json.loads(found[0].removeprefix("JSON "))


def test_stepping_after_every_micro_batch_gives_one_update_in_four(runs):
    assert runs["engine"] == {"check": "4 16", "moved": 0.4}


def test_accelerate_steps_at_the_update_alone_and_loses_no_gradient(runs):
    assert runs["accelerate"] == {"check": "4 4", "moved": 0.4}


def test_counting_in_the_loop_as_well_gives_one_update_in_sixteen(runs):
    assert runs["loop counts too"]["check"] == "1 4"
    assert runs["loop counts, stage 0"]["check"] == "1 4"


def test_and_that_update_has_the_wrong_size(runs):
    assert runs["loop counts too"]["moved"] < 0.05  # the last micro-batch alone, divided by four
    assert runs["loop counts, stage 0"]["moved"] == 0.4  # all sixteen, divided by four


def test_gradients_of_micro_batches_without_a_step_behind_them_are_lost(runs):
    assert runs["first of four counts"]["moved"] == 0.1
    assert runs["loop counts, first of four"]["moved"] == 0.0
    assert runs["loop counts alone, first of four"]["moved"] == 0.0


def test_dividing_the_loss_as_well_makes_gradients_four_times_too_small(runs):
    assert runs["divided twice"] == {"check": "4 16", "moved": 0.1}


def test_loss_backward_equals_engine_backward_with_zero_and_bf16(runs):
    assert runs["loss.backward"] == runs["engine"]


def test_loss_backward_is_refused_without_zero(runs, says):
    says("D18", runs["loss.backward, stage 0"]["error"])


def test_no_sync_is_refused_where_gradients_are_split(runs, says):
    says("D18", runs["no_sync, stage 2"]["error"])
