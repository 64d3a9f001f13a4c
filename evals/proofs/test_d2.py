"""D2: two machines started with the command of one. Each launcher below plays one machine."""

import re
import socket

from check_code import in_shell, span
from launch import free_port, run_commands, torchrun

SAYS_WHO_IT_IS = f"""\
import os, torch.distributed as dist
dist.init_process_group("gloo")
{span("D2", "GROUP_RANK")}
dist.barrier()
dist.destroy_process_group()
"""


def two_machines(tmp_path, *flags, timeouts="join_timeout=4,timeout=4"):
    script = tmp_path / "train.py"
    script.write_text(SAYS_WHO_IT_IS)
    command = torchrun("--nproc-per-node=1", f"--rdzv-conf={timeouts}", *flags)
    port = free_port()
    return run_commands(
        [
            [
                part.format(node=node, first=1 - node, port=port, own_port=free_port())
                for part in command
            ]
            + [str(script)]
            for node in (0, 1)
        ]
    )


def who(finished):
    """rank, world size and machine of the processes here, by the line of the entry's Check"""
    return [line for line in finished.output.splitlines() if re.fullmatch(r"\d \d \d", line)]


def test_the_line_of_the_check_says_open_only_where_somebody_listens(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        line = span("D2", "/dev/tcp").replace("HEAD_IP", "127.0.0.1").replace("29400", str(port))
        assert in_shell(line, tmp_path) == "open"
    assert in_shell(line, tmp_path) == ""


def test_standalone_on_both_machines_never_finds_the_other(tmp_path, says):
    for finished in two_machines(tmp_path, "--nnodes=2", "--standalone"):
        assert finished.returncode == 1
        says("D2", finished.output)


def test_without_a_common_address_each_machine_waits_for_itself(tmp_path, says):
    # --master-addr is left at 127.0.0.1 and --node-rank at 0; one port each, as on machines of their own
    for finished in two_machines(tmp_path, "--nnodes=2", "--master-port={own_port}"):
        assert "1/2 clients joined" in finished.output
        says("D2", finished.output)


def test_another_job_id_makes_another_group(tmp_path, says):
    first, second = two_machines(
        tmp_path,
        "--nnodes=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=job{node}",
    )
    assert first.returncode and second.returncode
    says("D2", first.output + second.output)


def test_an_endpoint_that_no_machine_takes_for_its_own_ends_in_a_client_time_out(tmp_path, says):
    for finished in two_machines(
        tmp_path,
        "--nnodes=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=job",
        timeouts="is_host=0,read_timeout=3",
    ):
        assert "The connection to the C10d store has failed" in finished.output
        says("D2", finished.output)


def test_is_host_on_the_first_machine_and_not_on_the_other_makes_them_meet(tmp_path):
    finished = two_machines(
        tmp_path,
        "--nnodes=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=job",
        timeouts="is_host={first},join_timeout=20",
    )
    assert sorted(map(who, finished)) == [["0 2 0"], ["1 2 1"]]


def test_without_nnodes_both_machines_train_alone_and_call_themselves_rank_0(tmp_path):
    for finished in two_machines(tmp_path):
        assert who(finished) == ["0 1 0"]


def test_one_endpoint_and_one_id_make_one_group(tmp_path):
    finished = two_machines(
        tmp_path,
        "--nnodes=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:{port}",
        "--rdzv-id=job",
        timeouts="join_timeout=20",
    )
    assert sorted(map(who, finished)) == [["0 2 0"], ["1 2 1"]]


def test_a_node_rank_each_and_one_master_address_work_as_well(tmp_path):
    finished = two_machines(
        tmp_path,
        "--nnodes=2",
        "--node-rank={node}",
        "--master-addr=127.0.0.1",
        "--master-port={port}",
        timeouts="timeout=20",
    )
    assert list(map(who, finished)) == [["0 2 0"], ["1 2 1"]]
