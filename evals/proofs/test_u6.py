"""U6: a full disk. A limit on the size of a file stands in for it: write(2) fails in the same way, and torch passes on neither reason."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
SETUP = "import sys, resource, torch; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); "


def saved(statement: str, room: int, folder) -> str:
    """Last lines of a program that may write `room` bytes into each file."""
    command = [sys.executable, "-c", SETUP + statement, str(room)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60).stderr


def test_torch_save_names_a_position_and_not_the_disk(tmp_path, says):
    said = saved("torch.save({'weights': torch.zeros(100_000)}, 'last.pt')", 10_000, tmp_path)
    assert "unexpected pos" in said
    assert "File too large" not in said
    says("U6", said)


def test_the_file_that_it_was_to_replace_is_lost(tmp_path):
    last = tmp_path / "last.pt"
    last.write_bytes(b"x" * 400_000)
    saved("torch.save({'weights': torch.zeros(100_000)}, 'last.pt')", 10_000, tmp_path)
    assert last.stat().st_size < 400_000


def test_a_tiny_file_gets_the_second_message(tmp_path, says):
    said = saved("torch.save({'step': 1}, 'last.pt')", 0, tmp_path)
    assert "iostream error" in said
    says("U6", said)


def test_the_older_format_and_safetensors_pass_the_reason_on(says):
    # Both were printed on a full tmpfs. A limit gives them another reason at the end, "File too large":
    # https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/serialization.cpp
    # https://github.com/huggingface/safetensors/blob/v0.8.0/bindings/python/src/lib.rs
    says("U6", "RuntimeError: write(): fd 3 failed with No space left on device")
    says(
        "U6",
        "safetensors_rust.SafetensorError: Error while serializing: I/O error: No space left on device (os error 28)",
    )


@pytest.mark.parametrize("text", [
    "unable to allocate shared memory(shm) for file </torch_1_2_3>: No space left on device (28)",
    "OSError: [Errno 28] No space left on device: '/var/lib/docker/tmp/layer'",
    "terminate called after throwing an instance of 'std::__ios_failure'  what():  basic_ios::clear: iostream error",
])  # fmt: skip
def test_what_other_programs_print_is_left_to_the_words(text):
    from remote_gpu_trainer.catalogue import bundle
    from remote_gpu_trainer.catalogue.signatures import Pattern

    assert not any(Pattern(s).matches(text) for s in bundle.load().get("U6").signatures)
