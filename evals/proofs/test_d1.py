"""D1: a script started with plain python has no rank: it runs alone, or stops before the first step."""

import shlex
import sys

from check_code import span
from launch import free_port, run_commands, run_ranks
from torch.distributed.run import main

TRAINS = """
    import torch.distributed as dist
    dist.init_process_group("gloo")
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}")
    dist.barrier()
    dist.destroy_process_group()
"""
READS_ITS_RANK = "import os; local_rank = int(os.environ['LOCAL_RANK'])"
WRAPS_IN_DDP = "import torch; torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))"
ONE_OF_TWO = {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}


def plain_python(script, env=None):
    lines = "\n".join(line.strip() for line in script.strip().splitlines())
    return run_commands([[sys.executable, "-c", lines]], env=env)[0]


def test_plain_python_stops_because_nobody_gave_it_a_rank(says):
    for script in (TRAINS, READS_ITS_RANK, WRAPS_IN_DDP):
        finished = plain_python(script)
        assert finished.returncode == 1
        says("D1", finished.output)


def test_each_variable_of_the_contract_is_asked_for_in_turn(says):
    given = {}
    for name, value in ONE_OF_TWO.items():
        finished = plain_python(TRAINS, given)
        assert f"environment variable {name} expected, but not set" in finished.output
        says("D1", finished.output)
        given[name] = value


def test_world_size_two_by_hand_with_one_process_waits_for_the_other():
    waits = TRAINS.replace('"gloo"', '"gloo", timeout=__import__("datetime").timedelta(seconds=2)')
    finished = plain_python(waits, ONE_OF_TWO)
    assert "1/2 clients joined" in finished.output


def test_torchrun_gives_every_process_its_rank():
    finished = run_ranks(TRAINS, timeout=90)
    assert finished.lines("rank ") == ["rank 0 of 2", "rank 1 of 2"]


def test_the_lines_of_the_check_tell_a_job_with_a_launcher_from_one_without(capfd):
    main(shlex.split(span("D1", "torchrun"))[1:])
    printed = capfd.readouterr().out.splitlines()
    assert {"0 2", "1 2"} <= set(printed)

    line = "import os; " + span("D1", "environ.get")
    assert plain_python(line).output == "None\n"
    assert run_ranks(line).ranks == ("2\n", "2\n")
