"""M22: where nothing else has room, `device_map="auto"` puts the whole model on the disk; the check reads the two numbers that decide."""

from collections import namedtuple

import pytest
import torch
from check_code import shown, span

psutil = pytest.importorskip("psutil")
transformers = pytest.importorskip("transformers")
Memory = namedtuple("Memory", "total available")


@pytest.fixture
def saved(small_llama, tmp_path):
    """saved(form): a folder with a small model in bf16, 2 bytes a parameter, and how many bytes that is."""

    def save(form):
        model = transformers.LlamaForCausalLM(small_llama).bfloat16()
        model.save_pretrained(tmp_path)
        if form == "pickled":
            (tmp_path / "model.safetensors").unlink()
            torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
        return tmp_path, 2 * sum(p.numel() for p in model.parameters())

    return save


@pytest.fixture
def host(monkeypatch):
    """host(available): the host has so many bytes left, for the library and for the check alike."""

    def set_to(available):
        monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(2**36, available))

    return set_to


def load(folder):
    return transformers.LlamaForCausalLM.from_pretrained(
        folder, device_map="auto", dtype=torch.bfloat16
    )


def test_weights_that_must_be_written_anew_stop_with_the_signature(saved, host, says):
    folder, size = saved("pickled")
    host(size // 100)
    with pytest.raises(ValueError) as error:
        load(folder)
    says("M22", str(error.value))


def test_safetensors_are_left_on_the_disk_without_a_stop(saved, host):
    folder, size = saved("safetensors")
    host(size // 100)
    assert load(folder).hf_device_map == {"": "disk"}


@pytest.mark.parametrize("form", ["pickled", "safetensors"])
def test_with_room_in_the_host_the_same_call_loads_the_model_there(saved, host, form):
    folder, size = saved(form)
    host(100 * size)
    assert {p.device.type for p in load(folder).parameters()} == {"cpu"}


@pytest.mark.parametrize("share, on_disk", [(0.01, True), (100, False)])
def test_the_line_of_the_check_is_far_below_the_weights_where_they_go_to_the_disk(
    saved, host, share, on_disk
):
    folder, size = saved("safetensors")
    host(int(share * size))
    code = span("M22", "mem_get_info").removeprefix('python -c "').removesuffix('"')
    cards, available = shown(code).rsplit(maxsplit=1)
    room = int(available) + sum(free for free, _ in eval(cards))
    assert room < size / 10 if on_disk else room > size
    places = getattr(load(folder), "hf_device_map", {"": "cpu"})
    assert (places == {"": "disk"}) == on_disk
