"""D5: what accelerate launch starts is decided by a file from `accelerate config`, when there is one."""

import shlex
import sys

import pytest
from check_code import span
from launch import run_commands

pytest.importorskip("accelerate")

SAYS_WHO_IT_IS = """\
import os
print("fsdp", os.environ.get("ACCELERATE_USE_FSDP"))
from accelerate import Accelerator
state = Accelerator(cpu=True).state
print(f"process {state.process_index} of {state.num_processes}\\n", end="")
"""
ONE_PROCESS = """\
compute_environment: LOCAL_MACHINE
distributed_type: {kind}
mixed_precision: 'no'
num_machines: 1
num_processes: {processes}
use_cpu: false
"""


@pytest.fixture
def launch(tmp_path):
    """launch(*flags, config=text): the output of an accelerate launch with this default config, or none."""
    script = tmp_path / "train.py"
    script.write_text(SAYS_WHO_IT_IS)

    def run(*flags, config=None):
        home = tmp_path / "home"
        if config:
            (home / "accelerate").mkdir(parents=True)
            (home / "accelerate" / "default_config.yaml").write_text(config)
        command = [sys.executable, "-m", "accelerate.commands.launch", *flags, str(script)]
        return run_commands([command], env={"HF_HOME": home})[0].output

    return run


def processes(output):
    return sorted(line for line in output.splitlines() if line.startswith("process "))


def test_a_config_written_for_one_gpu_wins_over_num_processes(launch):
    output = launch("--num_processes=2", config=ONE_PROCESS.format(kind="'NO'", processes=1))
    assert processes(output) == ["process 0 of 1"]


def test_multi_gpu_beside_num_processes_overrules_the_config(launch):
    output = launch(
        "--multi_gpu",
        "--num_processes=2",
        "--main_process_port=0",
        config=ONE_PROCESS.format(kind="'NO'", processes=1),
    )
    assert processes(output) == ["process 0 of 2", "process 1 of 2"]


def test_a_config_for_two_starts_two(launch):
    output = launch(
        "--main_process_port=0", config=ONE_PROCESS.format(kind="MULTI_GPU", processes=2)
    )
    assert processes(output) == ["process 0 of 2", "process 1 of 2"]


def test_multi_gpu_beside_an_fsdp_config_turns_fsdp_off(launch):
    config = ONE_PROCESS.format(kind="FSDP", processes=2) + "fsdp_config:\n  fsdp_version: 2\n"
    both = ("--num_processes=2", "--main_process_port=0")
    assert "fsdp true" in launch(*both, config=config)
    assert "fsdp None" in launch("--multi_gpu", *both)


def test_a_config_with_one_gpu_id_refuses_multi_gpu_until_all_are_asked_for(launch, says):
    config = ONE_PROCESS.format(kind="'NO'", processes=1) + "gpu_ids: '0'\n"
    both = ("--multi_gpu", "--num_processes=2", "--main_process_port=0")
    says("D5", launch(*both, config=config))
    assert processes(launch(*both, "--gpu_ids=all")) == ["process 0 of 2", "process 1 of 2"]


def test_without_a_config_it_says_how_many_gpus_it_saw(launch):
    output = launch()
    assert processes(output) == ["process 0 of 1"]
    assert "`--num_processes` was set to a value of `0`" in output


def test_multi_gpu_with_one_visible_gpu_is_refused(launch, says):
    says("D5", launch("--multi_gpu", "--num_processes=1"))


@pytest.mark.parametrize("kind, processes", [("'NO'", 1), ("MULTI_GPU", 4)])
def test_the_command_of_the_check_shows_the_file_that_decides(
    tmp_path, monkeypatch, capsys, kind, processes
):
    from accelerate.commands import accelerate_cli, env
    from accelerate.commands.config import config_args

    file = tmp_path / "default_config.yaml"
    for module in (env, config_args):
        monkeypatch.setattr(module, "default_config_file", str(file))  # under HF_HOME
    monkeypatch.setattr(sys, "argv", shlex.split(span("D5", "accelerate env")))
    accelerate_cli.main()
    assert "Not found" in capsys.readouterr().out
    file.write_text(ONE_PROCESS.format(kind=kind, processes=processes))
    accelerate_cli.main()
    output = capsys.readouterr().out
    assert f"distributed_type: {kind.strip(chr(39))}" in output
    assert f"num_processes: {processes}" in output
