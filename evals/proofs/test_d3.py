"""D3: RANK counts over all machines, LOCAL_RANK on one. Two launchers play two machines with two GPUs each."""

from check_code import span
from launch import free_port, run_commands, run_ranks, torchrun

GPUS = 2
PRINTS_ITS_INDEX = "import os; print('index ' + os.environ['{0}'] + '\\n', end='')"


def device_indices(tmp_path, variable, nproc=GPUS):
    script = tmp_path / "train.py"
    script.write_text(PRINTS_ITS_INDEX.format(variable))
    command = torchrun(
        "--nnodes=2",
        f"--nproc-per-node={nproc}",
        "--master-addr=127.0.0.1",
        f"--master-port={free_port()}",
    )
    machines = run_commands([[*command, f"--node-rank={node}", str(script)] for node in (0, 1)])
    return [[int(line.split()[1]) for line in machine.lines("index ")] for machine in machines]


def test_rank_names_gpus_that_the_second_machine_does_not_have(tmp_path):
    assert device_indices(tmp_path, "RANK") == [[0, 1], [2, 3]]


def test_local_rank_names_each_gpu_of_each_machine_once(tmp_path):
    assert device_indices(tmp_path, "LOCAL_RANK") == [[0, 1], [0, 1]]


def test_rank_modulo_gpu_count_takes_other_gpus_where_a_machine_runs_fewer_processes_than_it_has(
    tmp_path,
):
    ranks = device_indices(tmp_path, "RANK", nproc=3)
    assert [[rank % 8 for rank in machine] for machine in ranks] == [[0, 1, 2], [3, 4, 5]]


ASKS_FOR_ITS_CARD = """
    import os
    from types import SimpleNamespace
    chosen = {chosen}
    torch = SimpleNamespace(cuda=SimpleNamespace(current_device=lambda: chosen, device_count=lambda: 2))
    {check}
"""


def test_the_line_of_the_check_shows_which_rank_took_another_card_than_its_own():
    """CUDA is played by a number: 0 where nobody chose a card."""

    def told(chosen):
        script = ASKS_FOR_ITS_CARD.format(chosen=chosen, check=span("D3", "current_device"))
        return [output.split()[-2:] for output in run_ranks(script).ranks]

    assert told("0") == [["0", "0"], ["1", "0"]]
    assert told('int(os.environ["LOCAL_RANK"])') == [["0", "0"], ["1", "1"]]


def test_the_other_line_shows_a_process_more_than_there_are_cards():
    script = ASKS_FOR_ITS_CARD.format(chosen="None", check=span("D3", "device_count"))
    told = [output.split() for output in run_ranks(script, nproc=3).ranks]
    assert told == [["0", "2"], ["1", "2"], ["2", "2"]]
