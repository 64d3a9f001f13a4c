"""D6: the deepspeed launcher knows other machines from a hostfile, and its own flags stand before the script."""

import subprocess
import sys

import pytest
from check_code import span
from launch import run_commands

pytest.importorskip("deepspeed")

SAYS_WHO_IT_IS = """\
import os, sys
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}, arguments {sys.argv[1:]}\\n", end="")
"""


@pytest.fixture
def deepspeed(tmp_path):
    """deepspeed(before, after): the output of the launcher with these flags before and after the script."""
    script = tmp_path / "train.py"
    script.write_text(SAYS_WHO_IT_IS)

    def run(before=(), after=(), env=None, hosts=None):
        (tmp_path / "hosts").write_text(hosts or "")
        before = [*before, *(["--hostfile", str(tmp_path / "hosts")] if hosts else [])]
        command = [sys.executable, "-m", "deepspeed.launcher.runner", *before, str(script), *after]
        return run_commands([command], env=env)[0].output

    return run


@pytest.fixture
def shown(tmp_path):
    """shown(output): the lines that the entry's Check picks out of a launcher's log."""

    def run(output):
        (tmp_path / "run.log").write_text(output)
        return subprocess.run(
            ["bash", "-c", span("D6", "grep -E")], cwd=tmp_path, capture_output=True, text=True
        ).stdout

    return run


def ranks(output):
    return sorted(line for line in output.splitlines() if line.startswith("rank "))


def test_a_flag_behind_the_script_goes_to_the_script(deepspeed, shown):
    output = deepspeed(after=["--num_gpus", "2"])
    assert "WORLD INFO DICT: {'localhost': [0]}" in shown(output)
    [alone] = ranks(output)
    assert alone == "rank 0 of 1, arguments ['--local_rank=0', '--num_gpus', '2']"


def test_the_same_flag_before_the_script_starts_two(deepspeed, shown):
    output = deepspeed(["--num_gpus", "2"])
    assert "WORLD INFO DICT: {'localhost': [0, 1]}" in shown(output)
    assert "dist_world_size=2\n" in shown(output)
    assert [line[:11] for line in ranks(output)] == [
        "rank 0 of 2",
        "rank 1 of 2",
    ]


def test_two_nodes_without_a_hostfile_are_refused(deepspeed, says):
    says("D6", deepspeed(["--num_nodes", "2"]))


def test_a_host_that_cannot_be_reached_without_a_password_is_refused(deepspeed, says):
    says("D6", deepspeed(hosts="no-such-host.invalid slots=1\nneither.invalid slots=1\n"))


def test_a_hostfile_in_another_form_is_refused(deepspeed, says):
    says("D6", deepspeed(hosts="10.0.0.1:8\n"))


def test_num_gpus_overrules_cuda_visible_devices(deepspeed, says, shown):
    output = deepspeed(["--num_gpus", "1"], env={"CUDA_VISIBLE_DEVICES": "3"})
    says("D6", output)
    assert "VISIBLE_DEVICES=3 but ignoring it" in shown(output)
    assert "Setting CUDA_VISIBLE_DEVICES=0" in shown(output)


def test_without_ssh_each_machine_starts_its_own_ranks(deepspeed, shown):
    output = deepspeed(
        ["--no_ssh", "--node_rank", "1", "--master_addr", "127.0.0.1"],
        hosts="one slots=1\ntwo slots=1\n",
    )
    assert "WORLD INFO DICT: {'one': [0], 'two': [0]}" in shown(output)
    assert "Unable to find hostfile" not in shown(output)
    assert ranks(output) == ["rank 1 of 2, arguments ['--local_rank=0']"]


def test_plain_python_makes_deepspeed_look_for_mpi(tmp_path, says):
    command = [sys.executable, "-c", "import deepspeed; deepspeed.init_distributed('gloo')"]
    [finished] = run_commands([command])
    if "No module named 'mpi4py'" not in finished.output:
        pytest.skip("mpi4py is installed")
    says("D6", finished.output)
