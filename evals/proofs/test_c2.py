"""C2: a process that dies while it saves."""

import re
import subprocess
import sys
import textwrap
import zipfile

import pytest
import torch
from remote_gpu_trainer.catalogue import bundle

DIES_WHILE_SAVING = textwrap.dedent("""
    import os, sys, torch
    path, way = sys.argv[1:]

    class Dying:
        def __init__(self, file):
            self.file, self.written = file, 0
        def write(self, data):
            self.written += len(data)
            self.file.write(data)
            if self.written > 100_000:
                self.file.flush()
                os._exit(9)
            return len(data)
        def flush(self):
            self.file.flush()

    target = path if way == "in place" else path + ".tmp"
    with open(target, "wb") as file:
        torch.save({"weights": torch.randn(50_000), "step": 2}, Dying(file))
        file.flush()
        os.fsync(file.fileno())
    os.replace(target, path)
""")


def die_while_saving(path, way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES_WHILE_SAVING, str(path), way], check=False, timeout=25
    )
    assert done.returncode == 9


def test_saving_in_place_leaves_a_broken_file_and_no_good_one(tmp_path, says):
    path = tmp_path / "latest.pt"
    torch.save({"step": 1}, path)
    die_while_saving(path, "in place")
    with pytest.raises(RuntimeError) as error:
        torch.load(path)
    says("C2", str(error.value))


def test_saving_beside_and_renaming_keeps_the_last_good_file(tmp_path):
    path = tmp_path / "latest.pt"
    torch.save({"step": 1}, path)
    die_while_saving(path, "beside")
    assert torch.load(path) == {"step": 1}
    assert (tmp_path / "latest.pt.tmp").exists()


def test_an_error_in_the_middle_of_torch_save_destroys_the_old_file_too(tmp_path, says):
    class Unpicklable:
        def __reduce__(self):
            raise ValueError("no")

    path = tmp_path / "latest.pt"
    torch.save({"step": 1}, path)
    with pytest.raises(ValueError):
        torch.save({"weights": torch.ones(3), "extra": Unpicklable()}, path)
    with pytest.raises(RuntimeError) as error:
        torch.load(path)
    says("C2", str(error.value))


@pytest.mark.parametrize("numbers", [10, 1000, 100_000])
def test_one_missing_byte_at_the_end_is_enough(tmp_path, says, numbers):
    path = tmp_path / "latest.pt"
    torch.save({"weights": torch.randn(numbers)}, path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises((RuntimeError, OSError)) as error:
        torch.load(path)
    if isinstance(
        error.value, OSError
    ):  # the reader asks for a place before the start of the file, at some lengths
        assert error.value.errno == 22
    else:
        says("C2", str(error.value))


def test_the_old_format_says_it_in_other_words(tmp_path, says):
    path = tmp_path / "latest.pt"
    torch.save({"weights": torch.randn(1000)}, path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(RuntimeError) as error:
        torch.load(path)
    says("C2", str(error.value))


def punch(path) -> bytes:
    """Make a hole of zeros in the middle of a file; gives back its bytes."""
    data = bytearray(path.read_bytes())
    data[200_000:220_000] = bytes(20_000)
    path.write_bytes(data)
    return bytes(data)


def test_a_hole_in_the_middle_loads_without_any_error(tmp_path):
    path = tmp_path / "latest.pt"
    torch.save({"weights": torch.ones(100_000)}, path)
    punch(path)
    assert not torch.equal(torch.load(path)["weights"], torch.ones(100_000))


def test_a_cut_safetensors_file_stops_with_the_signature(tmp_path, says):
    safetensors = pytest.importorskip("safetensors.torch")
    path = tmp_path / "model.safetensors"
    safetensors.save_file({"weights": torch.randn(1000)}, path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(Exception) as error:
        safetensors.load_file(path)
    says("C2", str(error.value))


def test_the_check_finds_what_torch_load_does_not(tmp_path):
    path = tmp_path / "latest.pt"
    torch.save({"weights": torch.ones(100_000)}, path)
    assert zipfile.ZipFile(path).testzip() is None
    data = punch(path)
    assert zipfile.ZipFile(path).testzip() is not None
    path.write_bytes(data[:-1])
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(path)


def test_the_check_for_safetensors_stops_at_a_cut_file_only(tmp_path, run_apart):
    save_file = pytest.importorskip("safetensors.torch").save_file
    code = re.search(r'python -c "(import sys, safetensors;.*?)"', bundle.load().get("C2").check)[1]
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    save_file({"a": torch.ones(1000)}, whole)
    cut.write_bytes(whole.read_bytes()[:2000])
    assert run_apart(code, whole).returncode == 0
    assert "incomplete metadata" in run_apart(code, cut).stderr


def test_a_path_that_is_only_a_dot_and_an_ending_is_refused_and_an_open_file_is_not(tmp_path):
    with pytest.raises(RuntimeError, match="invalid file name"):
        torch.save({"step": 1}, tmp_path / ".tmp10")
    with open(tmp_path / ".tmp10", "wb") as file:
        torch.save({"step": 1}, file)
    torch.save({"step": 1}, tmp_path / "latest.tmp10")
    assert torch.load(tmp_path / ".tmp10") == torch.load(tmp_path / "latest.tmp10")
