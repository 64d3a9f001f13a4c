"""D41: a weight of ZeRO-3 is an empty tensor until an engine's hooks gather it."""

import json

import pytest
from check_code import span
from launch import run_ranks

pytest.importorskip("deepspeed")

CASES = """
    import os
    os.environ["DS_ACCELERATOR"] = "cpu"
    import json, logging, torch, deepspeed
    logging.disable(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it compiles one
    deepspeed.init_distributed(dist_backend="gloo")
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
              "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}}

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(8, 4)
        def forward(self, ids):
            return self.embed(ids)
        def encode(self, ids):
            return torch.nn.functional.embedding(ids, self.embed.weight)

    def tell(case, call):
        print(case, end="|")
        {check}
        try:
            said = str(list(call(torch.zeros(1, 2, dtype=torch.long)).shape))
        except RuntimeError as error:
            said = str(error)
        print(case, said, sep="|")

    with deepspeed.zero.Init(config_dict_or_path=config):
        model = Model()
    tell("no engine", model)
    with deepspeed.zero.GatheredParameters([model.embed.weight], modifier_rank=None):
        print("gathered", list(model.embed.weight.shape), sep="|")
    engine, *_ = deepspeed.initialize(model=model, config=config)
    tell("engine", engine)
    tell("past the engine", engine.module.encode)
    model = Model()
    tell("whole", model)
"""


@pytest.fixture(scope="module")
def told():
    """case -> what the line of the Check printed, and what the forward pass said."""
    script = CASES.replace("{check}", span("D41", "ds_shape"))
    finished = run_ranks(script, nproc=1, timeout=60)
    found = {}
    for line in finished.output.splitlines():
        case, _, text = line.partition("|")
        found.setdefault(case, []).append(text)
    assert "whole" in found, finished.output
    return found


def test_a_model_that_was_split_and_has_no_engine_stops_in_its_embedding(told, says):
    check, said = told["no engine"]
    says("D41", f"RuntimeError: {said}")
    assert check == "torch.Size([0]) torch.Size([8, 4]) False"


def test_an_engine_gathers_the_weight_for_its_own_forward_pass(told):
    assert told["engine"] == ["torch.Size([0]) torch.Size([8, 4]) True", json.dumps([1, 2, 4])]


def test_a_method_called_past_the_engine_finds_it_empty(told, says):
    check, said = told["past the engine"]
    says("D41", f"RuntimeError: {said}")
    assert check == "torch.Size([0]) torch.Size([8, 4]) True"


def test_a_model_that_was_never_split_is_whole(told):
    assert told["whole"] == ["torch.Size([8, 4]) None False", json.dumps([1, 2, 4])]


def test_reading_it_takes_a_gathering(told):
    assert told["gathered"] == [json.dumps([8, 4])]
