"""D23: every rank prints, evaluates and saves."""
from launch import run_ranks

HEAD = """
    import os, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank, folder = dist.get_rank(), os.environ["FOLDER"]
"""
TAIL = """
    dist.barrier()
    dist.destroy_process_group()
"""
PRINTS = """
    {} print("epoch 0, loss 0.5")
"""
RENAMES = """
    staged, final = f"{{folder}}/tmp-checkpoint-10", f"{{folder}}/checkpoint-10"
    os.makedirs(staged, exist_ok=True)
    dist.barrier()
    try:
        {} os.rename(staged, final)
    except OSError as error:
        print(error)
    dist.barrier()
    print(sorted(os.listdir(folder)))
"""
READS_WHILE_ANOTHER_SAVES = """
    path = f"{{folder}}/last.pt"
    if rank == 0:
        torch.save(torch.ones(1000), path)
    dist.barrier()
    if rank == 1:
        {second_writer}
    dist.barrier()
    if rank == 0:
        try:
            print("read", torch.load(path).sum().item())
        except Exception as error:
            print(type(error).__name__, error)
"""
OPENS_IT_AGAIN = "half_written = open(path, 'wb')  # the first thing that torch.save does"
KEEPS_OUT = "pass"
METRIC = """
    results = [0.5, 0.25, 1.0, 0.25][rank::2]
    mine = torch.tensor([sum(results), len(results)])
    {}
    if rank == 0:
        print("mean", (mine[0] / mine[1]).item())
"""


def outputs(body, tmp_path):
    return run_ranks(HEAD + body + TAIL, env={"FOLDER": tmp_path}).ranks


def test_without_a_check_each_line_appears_once_a_rank(tmp_path):
    assert outputs(PRINTS.format(""), tmp_path) == ("epoch 0, loss 0.5\n",) * 2


def test_with_the_check_it_appears_once(tmp_path):
    assert outputs(PRINTS.format("if rank == 0:"), tmp_path) == ("epoch 0, loss 0.5\n", "")


def test_two_ranks_that_rename_one_folder_collide(tmp_path, says):
    [loser] = [output for output in outputs(RENAMES.format(""), tmp_path) if "Errno" in output]
    says("D23", loser)


def test_one_rank_that_renames_while_the_other_waits_does_not(tmp_path):
    for output in outputs(RENAMES.format("if rank == 0:"), tmp_path):
        assert output == "['checkpoint-10']\n"


def test_a_checkpoint_that_another_rank_is_writing_cannot_be_read(tmp_path):
    first, _ = outputs(READS_WHILE_ANOTHER_SAVES.format(second_writer=OPENS_IT_AGAIN), tmp_path)
    assert "read" not in first.split() and "Error" in first


def test_a_checkpoint_with_one_writer_and_a_barrier_can(tmp_path):
    first, _ = outputs(READS_WHILE_ANOTHER_SAVES.format(second_writer=KEEPS_OUT), tmp_path)
    assert first == "read 1000.0\n"


def test_the_metric_of_rank_0_alone_covers_its_own_share_of_the_data(tmp_path):
    assert outputs(METRIC.format("pass"), tmp_path)[0] == "mean 0.75\n"


def test_summing_over_the_ranks_first_gives_the_metric_of_all(tmp_path):
    assert outputs(METRIC.format("dist.all_reduce(mine)"), tmp_path)[0] == "mean 0.5\n"
