"""D36: accelerate refuses a model that was spread over devices as soon as the run is distributed, with one process too."""

import os
import socket

import pytest
import torch.distributed as dist
from accelerate import Accelerator, dispatch_model
from accelerate.state import AcceleratorState, GradientState
from check_code import shown, span
from torch import nn

SPREAD, WHOLE = {"0": "cpu", "1": "cpu"}, {"": "cpu"}


@pytest.fixture
def launched(monkeypatch):
    """As torchrun --nproc-per-node 1 leaves the environment, or as plain python does."""

    def launch(distributed):
        monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        place = {
            "RANK": 0,
            "LOCAL_RANK": 0,
            "WORLD_SIZE": 1,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        for name, value in place.items():
            if distributed:
                monkeypatch.setenv(name, str(value))
            else:
                monkeypatch.delenv(name, raising=False)
        return Accelerator()

    clear()
    yield launch
    if dist.is_initialized():
        dist.destroy_process_group()
    clear()


def clear():
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def loaded(device_map):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    return dispatch_model(model, device_map, force_hooks=True)


def test_spread_and_distributed(launched, says):
    accelerator = launched(distributed=True)
    model = loaded(SPREAD)
    assert accelerator.num_processes == 1 and len(model.hf_device_map) == 2
    with pytest.raises(ValueError) as stop:
        accelerator.prepare(model)
    says("D36", str(stop.value))


def test_the_variable_that_hides_the_message(launched, monkeypatch):
    monkeypatch.setenv("ACCELERATE_BYPASS_DEVICE_MAP", "true")
    launched(distributed=True).prepare(loaded(SPREAD))


def test_whole_and_distributed(launched):
    launched(distributed=True).prepare(loaded(WHOLE))


def test_spread_in_plain_python(launched):
    launched(distributed=False).prepare(loaded(SPREAD))


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: You can't train a model that has been loaded in 8-bit precision on a different device than the one you're training on.",
        "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision on multiple devices in any distributed mode.",
        "ValueError: You can't train a model that has been loaded in 8-bit precision with CPU or disk offload.",
        "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model.",
        "ValueError: DeepSpeed Zero-3 is not compatible with `low_cpu_mem_usage=True` or with passing a `device_map`.",
        "ValueError: Your model contains `DTensor` parameters, which is incompatible with DDP. Maybe you loaded your model with `device_map='auto'`?",
    ],
)
def test_texts_of_quantised_models_and_of_zero(text, says):
    says("D36", text)


@pytest.mark.parametrize(
    "distributed, device_map, shows",
    [
        (True, SPREAD, "1 {'0': 'cpu', '1': 'cpu'} {'cpu'}"),
        (True, WHOLE, "1 {'': 'cpu'} {'cpu'}"),
        (False, SPREAD, "None {'0': 'cpu', '1': 'cpu'} {'cpu'}"),
    ],
    ids=["spread and distributed", "whole", "plain python"],
)
def test_the_line_of_the_check_shows_both_halves_of_the_fault(
    launched, distributed, device_map, shows
):
    launched(distributed)
    assert shown(span("D36", "hf_device_map"), os=os, model=loaded(device_map)) == shows


def test_transformers_5_leaves_the_map_out_where_all_lies_on_one_device(small_llama, tmp_path):
    transformers = pytest.importorskip("transformers", minversion="5.0")
    transformers.AutoModelForCausalLM.from_config(small_llama).save_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map=WHOLE)
    assert shown(span("D36", "hf_device_map"), os=os, model=model).endswith(" None {'cpu'}")
