"""D43: with which CUDA_DEVICE_MAX_CONNECTIONS a rank was started, and where its code sets another. Its effect on speed needs a card."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from check_code import span

NAME = "CUDA_DEVICE_MAX_CONNECTIONS"
if not Path("/proc/self/environ").exists():
    pytest.skip("no /proc here", allow_module_level=True)


@contextmanager
def rank(folder, value=None, script=""):
    """A process that was started with this value, ran this line, and waits."""
    (folder / "train.sh").write_text(f"{script}\necho $$ ready ${NAME}\nread wait\n")
    inherited = {name: text for name, text in os.environ.items() if name != NAME}
    process = subprocess.Popen(
        ["bash", "train.sh"],
        cwd=folder,
        env=inherited | ({NAME: value} if value else {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid, _, *seen = process.stdout.readline().split()
    yield pid, seen
    process.communicate("")


def printed(part, folder, pid=""):
    command = span("D43", part).replace("PID", pid)
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("value, shows", [("1", f"{NAME}=1\n"), (None, "")])
def test_the_command_of_the_check_prints_what_the_rank_was_started_with(tmp_path, value, shows):
    with rank(tmp_path, value) as (pid, _):
        assert printed("environ", tmp_path, pid) == shows


def test_a_value_that_the_code_sets_is_missing_there_and_is_found_in_the_code(tmp_path):
    with rank(tmp_path, script=f"export {NAME}=1") as (pid, seen):
        assert seen == ["1"] and printed("environ", tmp_path, pid) == ""
        assert f"./train.sh:1:export {NAME}=1\n" in printed("grep -rn", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        f"AssertionError: Using sequence parallelism requires setting the environment variable {NAME} to 1",
        f"AssertionError: Using async gradient all reduce requires setting the environment variable {NAME} to 1",
        f"AssertionError: FSDP always requires {NAME} value large than one",
        f"AssertionError: Using tensor model parallelism or context parallelism require setting the environment variable {NAME} to 1",
        f"AssertionError: FSDP requires {NAME} > 1 or unset.",
    ],
)
def test_texts_of_megatron(text, says):
    says("D43", text)


def test_megatrons_warning_about_tensor_parallelism_with_fsdp_is_no_such_text(says):
    """Megatron-LM 0.12 and later print it and go on."""
    with pytest.raises(AssertionError):
        says(
            "D43",
            "Try not to using them together since they require different CUDA_MAX_CONNECTIONS settings for best performance. "
            f"sequence parallelism requires setting the environment variable {NAME} to 1 while Torch-FSDP2 requires not setting {NAME}=1 for better parallelization.",
        )
