"""ENV16: with a torch of before 2.6 transformers reads no pickled weights; the entry's line turns them into safetensors."""

import re
import shlex

import pytest
import torch
from check_code import shown, span
from packaging.version import Version
from remote_gpu_trainer.catalogue import bundle

transformers = pytest.importorskip("transformers")
pytest.importorskip("safetensors")


@pytest.fixture
def folder(tmp_path, small_llama, monkeypatch):
    """A model in pytorch_model.bin, read by a transformers that takes this torch for an older one."""
    model = transformers.LlamaForCausalLM(small_llama)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    monkeypatch.setattr(
        transformers.utils.import_utils, "is_torch_greater_or_equal", lambda *_, **__: False
    )
    return tmp_path


def load(folder):
    return transformers.LlamaForCausalLM.from_pretrained(folder)


def test_pickled_weights_are_refused_and_the_same_as_safetensors_load(folder, says, monkeypatch):
    with pytest.raises(ValueError) as refused:
        load(folder)
    says("ENV16", str(refused.value))
    [command] = re.findall(
        r"`(python -c \"import torch as t, .*)`\.", bundle.load().get("ENV16").fix
    )
    monkeypatch.chdir(folder)
    exec(shlex.split(command)[2], {})
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    for name, value in load(folder).state_dict().items():
        assert torch.equal(value, weights[name]), name


def test_the_newer_torch_reads_them(folder, monkeypatch):
    monkeypatch.undo()
    load(folder)


@pytest.mark.parametrize(("version", "safe"), [
    ("2.5.1", False), ("2.6.0a0+df5bbc09d1.nv25.1", False), ("2.6.0", True), ("2.13.0+cpu", True),
])  # fmt: skip
def test_the_numbers_of_the_check_say_what_transformers_decides(monkeypatch, version, safe):
    utils = transformers.utils.import_utils
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(utils, "get_torch_version", lambda: version)
    utils.is_torch_greater_or_equal.cache_clear()
    try:
        if safe:
            utils.check_torch_load_is_safe()
        else:
            with pytest.raises(ValueError, match="serious vulnerability"):
                utils.check_torch_load_is_safe()
    finally:
        utils.is_torch_greater_or_equal.cache_clear()
    code = shlex.split(span("ENV16", "transformers.__version__"))[2]
    mine, theirs = (Version(word) for word in shown(code).split())
    assert (mine < Version("2.6") and theirs >= Version("4.52")) is not safe
