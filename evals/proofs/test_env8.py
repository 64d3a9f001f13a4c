"""ENV8: DeepSpeed and torch look for nvcc, and compare its CUDA with torch's."""

import shlex
import subprocess

import pytest
import torch
from check_code import shown, span
from torch.torch_version import TorchVersion
from torch.utils import cpp_extension

builder = pytest.importorskip("deepspeed.ops.op_builder.builder")


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    """toolkit("12.8"): CUDA_HOME is a folder whose nvcc says so, beside a torch for CUDA 13.0; None: no CUDA_HOME, "": no nvcc in it."""

    def make(version):
        home = None if version is None else str(tmp_path)
        if version:
            nvcc = tmp_path / "bin" / "nvcc"
            nvcc.parent.mkdir(exist_ok=True)
            nvcc.write_text(
                f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.61'\n"
            )
            nvcc.chmod(0o755)
        monkeypatch.setattr(cpp_extension, "CUDA_HOME", home)

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    return make


def for_torch():
    cpp_extension._check_cuda_version("c++", TorchVersion("11.4"))


@pytest.mark.parametrize("version", [None, "", "12.8"])
def test_deepspeed_refuses(toolkit, says, version):
    toolkit(version)
    with pytest.raises((builder.MissingCUDAException, builder.CUDAMismatchException)) as error:
        builder.assert_no_cuda_mismatch()
    says("ENV8", f"{error.type.__name__}: {error.value}")


@pytest.mark.parametrize("version", ["", "12.8"])
def test_torch_refuses(toolkit, says, version):
    toolkit(version)
    with pytest.raises((FileNotFoundError, RuntimeError)) as error:
        for_torch()
    says("ENV8", str(error.value))


def test_an_extension_without_a_toolkit(toolkit, says):
    toolkit(None)
    with pytest.raises(OSError) as error:
        cpp_extension.CUDAExtension("op", ["op.cu"])
    says("ENV8", str(error.value))


def test_the_toolkit_of_torch_passes(toolkit):
    toolkit("13.0")
    assert builder.assert_no_cuda_mismatch()
    for_torch()


def test_another_minor_number_stops_deepspeed_at_13_and_not_torch(toolkit, monkeypatch, says):
    toolkit("13.2")
    for_torch()
    with pytest.raises(builder.CUDAMismatchException) as error:
        builder.assert_no_cuda_mismatch()
    says("ENV8", str(error.value))
    monkeypatch.setenv("DS_SKIP_CUDA_CHECK", "1")
    assert builder.assert_no_cuda_mismatch()


def test_a_probe_at_import_only_warns(toolkit, capsys):
    toolkit(None)

    class Op:
        name = "an_op"

        def is_compatible(self, verbose):
            return builder.installed_cuda_version()

    assert builder.probe_is_compatible(Op()) is False
    assert "compatibility check failed" in capsys.readouterr().out


@pytest.fixture
def told(capfd):
    """What the Check prints: torch's CUDA, the folder that builds take, and the release of its nvcc, or None."""

    def run():
        capfd.readouterr()
        first = shown(shlex.split(span("ENV8", "CUDA_HOME as h"))[2]).split()
        nvcc = capfd.readouterr().out.partition("release ")[2].partition(",")[0]
        return [*first, nvcc or None]

    return run


@pytest.mark.parametrize(
    ("version", "release"), [("12.8", "12.8"), ("13.0", "13.0"), ("", None), (None, None)]
)
def test_the_check_names_the_toolkit_that_deepspeed_takes(
    toolkit, told, monkeypatch, tmp_path, version, release
):
    """`nvcc` in PATH is another one, of torch's own CUDA: nobody asks it."""
    toolkit(version)
    other = tmp_path / "other" / "nvcc"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.48'\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=":")
    assert subprocess.run(["nvcc"], capture_output=True, text=True).stdout
    cuda, home, seen = told()
    assert (cuda, seen) == ("13.0", release)
    refused = home == "None" or seen is None or seen.split(".")[0] != cuda.split(".")[0]
    try:
        builder.assert_no_cuda_mismatch()
    except (builder.MissingCUDAException, builder.CUDAMismatchException):
        assert refused
    else:
        assert not refused
