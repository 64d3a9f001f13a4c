"""ENV27: torch that is older than the library, as transformers, torchvision and safetensors meet it."""

import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

OLD = """
import importlib.metadata as metadata
real = metadata.version
metadata.version = lambda name: "2.3.1" if name == "torch" else real(name)
import transformers
print(len(transformers.LlamaConfig().to_dict()) > 5)
transformers.AutoModelForCausalLM.from_pretrained("gpt2")
"""


def test_transformers_warns_goes_on_and_stops_later(run_apart, says):
    result = run_apart(OLD)
    assert result.returncode == 1 and result.stdout.strip() == "True", result.stderr
    lines = result.stderr.splitlines()
    [warning] = [line for line in lines if "Disabling PyTorch" in line]
    says("ENV27", warning)
    says("ENV27", "\n".join(lines[lines.index(warning) + 1 :]))


@pytest.mark.parametrize(
    "missing, wanted_by",
    [
        ("torch.library.register_fake", "torchvision"),
        ("torch.uint64", "transformers.modeling_utils"),
    ],
)
def test_a_name_that_is_not_there_yet(missing, wanted_by, run_apart, says):
    pytest.importorskip(wanted_by.split(".")[0])
    result = run_apart(f"import torch\ndel {missing}\nimport {wanted_by}")
    assert result.returncode == 1
    says("ENV27", result.stderr)


def test_a_class_that_moved(monkeypatch, says):
    from torch.distributed import tensor

    monkeypatch.delattr(tensor, "DTensor")
    with pytest.raises(ImportError) as stop:
        from torch.distributed.tensor import DTensor  # noqa: F401
    says("ENV27", str(stop.value))


@pytest.mark.parametrize(
    "name",
    [
        "float8_e4m3fn",
        "uint16",
        "uint64",
        "int1",
        "xpu",
        "get_default_device",
        "accelerator",
        "compile",
        "compiler",
    ],
)
def test_names_of_the_signature_are_names_of_torch(name, monkeypatch, says):
    monkeypatch.delattr(torch, name)
    with pytest.raises(AttributeError) as stop:
        getattr(torch, name)
    says("ENV27", str(stop.value))


@pytest.mark.parametrize(
    "text",
    [
        "AttributeError: module 'torch' has no attribute 'rfft'",
        "AttributeError: module 'torch' has no attribute 'npu'",
        "AttributeError: partially initialized module 'torch' has no attribute 'xpu' (most likely due to a circular import)",
        "AttributeError: module 'torch.utils._pytree' has no attribute '_register_pytree_node'",
        "Skipping import of cpp extensions due to incompatible torch version 2.7.1+cu128 for torchao version 0.15.0",
    ],
)
def test_what_is_something_else(text, says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV27", text)
