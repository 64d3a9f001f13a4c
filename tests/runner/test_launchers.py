"""Command lines of the launchers, their ranks, and which node this is."""

import os
import subprocess

import pytest
from remote_gpu_trainer.runner import launchers, procs, program
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of

PYTHON = "/venv/bin/python3"


@pytest.fixture
def make(tmp_path, monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def make(launcher: str, rank: int = 0, **fields) -> Run:
        given = {"rendered": {"run_dir": str(tmp_path / "run")}, "name": "toy", "python": PYTHON, "launcher": launcher, "processes": 2, "gpus": 2, "rendezvous": "first:29400"}  # fmt: skip
        run = Run(job_of(given, fields), rank=rank)
        run.folder.make()
        return run

    return make


@pytest.mark.parametrize(("launcher", "bare", "module"), [
    ("torchrun", ["--no-python"], "-m"),
    ("accelerate", ["--no_python"], "-m"),
    ("deepspeed", ["--no_python", "--no_local_rank"], "--module"),
])  # fmt: skip
def test_scripts_modules_and_programs_keep_their_words(make, launcher, bare, module):
    run = make(launcher)

    def rest(*words):
        return launchers.wrap(run, list(words))[len(launchers.wrap(run, ["t.py"])) - 1 :]

    assert rest("t.py", "--lr", "1") == ["t.py", "--lr", "1"]
    assert rest(PYTHON, "-u", "t.py", "-m") == ["t.py", "-m"]
    assert rest("python3.11", "-u", "-m", "pack.train", "-x") == [module, "pack.train", "-x"]
    assert rest("python", "-X", "dev", "t.py") == [*bare, "python", "-X", "dev", "t.py"]
    assert rest("python3") == [*bare, "python3"]
    assert rest("bash", "-c", 'echo "$1"', "it's") == [*bare, "bash", "-c", 'echo "$1"', "it's"]


def test_a_job_without_checkpoints_names_no_folder_for_them(make):
    assert "RGT_CHECKPOINT_DIR" not in program.environment(make("none"), 1, "")
    given = program.environment(make("none", checkpoint={"folder": "/mnt/out"}), 1, "")
    assert given["RGT_CHECKPOINT_DIR"] == "/mnt/out"


def test_without_a_launcher_the_words_stay(make):
    assert launchers.wrap(make("none"), ["t.py"]) == ["t.py"]


def test_torchrun_on_two_nodes_keeps_rank_0_on_node_0(make):
    assert launchers.wrap(make("torchrun"), ["t.py"])[1:] == [
        "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=0",
        f"--log-dir={make('torchrun').folder.at('elastic', '0')}", "--nnodes=1", "--standalone", "t.py",
    ]  # fmt: skip
    for rank, address in ((0, "first"), (1, "~node-00001")):
        assert launchers.wrap(make("torchrun", rank, nodes=2), ["t.py"])[6:] == [
            "--nnodes=2", f"--node-rank={rank}", "--rdzv-backend=c10d", "--rdzv-endpoint=first:29400",
            "--rdzv-id=toy", f"--local-addr={address}",
            f"--rdzv-conf=is_host={1 - rank},read_timeout=900,join_timeout=900", "t.py",
        ]  # fmt: skip


TASK = {
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "TORCHELASTIC_RUN_ID": "x",
    "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "77", "PATH": os.environ["PATH"],
}  # fmt: skip


def test_a_task_has_the_variables_that_srun_would_give_it(make):
    run = make("slurm-tasks", 1, nodes=2)
    words = launchers.wrap(run, ["env", "-0"])
    assert (
        words[: words.index("--no-python")]
        == launchers.wrap(make("torchrun", 1, nodes=2), ["t.py"])[:-1]
    )
    said = subprocess.run(words[words.index("bash") :], env=TASK, capture_output=True, text=True)
    env = dict(line.split("=", 1) for line in said.stdout.split("\0") if "=" in line)
    assert {name: value for name, value in env.items() if name.startswith("SLURM_")} == {
        "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_NODEID": "1", "SLURM_NNODES": "2", "SLURM_JOB_ID": "77", "SLURM_JOB_NUM_NODES": "2", "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "4", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    }  # fmt: skip
    assert "TORCHELASTIC_RUN_ID" not in env and env["RANK"] == "3"


def test_a_task_is_the_program_with_its_words(make):
    run = make("slurm-tasks")
    assert launchers.wrap(run, ["t.py", "it's"])[-4:] == ["task", PYTHON, "t.py", "it's"]
    assert launchers.wrap(run, ["python", "-m", "a"])[-4:] == ["task", "python", "-m", "a"]


def test_accelerate_is_told_what_it_would_guess_wrong(make, tmp_path):
    words = launchers.wrap(make("accelerate"), ["t.py"])
    assert words[3:] == [
        "--num_processes=2", "--num_machines=1", "--main_process_port=0", "--multi_gpu", "t.py",
    ]  # fmt: skip
    assert "--cpu" in launchers.wrap(make("accelerate", processes=1, gpus=0), ["t.py"])
    one = launchers.wrap(make("accelerate", processes=1, gpus=1), ["t.py"])
    assert not {"--cpu", "--multi_gpu"} & set(one)
    several = launchers.wrap(make("accelerate", 1, nodes=2), ["t.py"])
    assert several[3:8] == [
        "--num_processes=4", "--num_machines=2", "--machine_rank=1", "--main_process_ip=first",
        "--main_process_port=29400",
    ]  # fmt: skip
    config = tmp_path / ".cache/huggingface/accelerate/default_config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n")
    assert "--multi_gpu" not in launchers.wrap(make("accelerate"), ["t.py"])
    elsewhere = make("accelerate", variables={"HF_HOME": "/nowhere"})
    assert "--multi_gpu" in launchers.wrap(elsewhere, ["t.py"])


def test_deepspeed_takes_the_cards_that_were_given(make, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5")
    words = launchers.wrap(make("deepspeed"), ["t.py"])
    assert "--include=localhost:2,3" in words and "--num_gpus=2" not in words
    assert words[3].startswith("--master_port=") and words[3] != "--master_port=29400"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-2,GPU-3")
    assert "--num_gpus=2" in launchers.wrap(make("deepspeed"), ["t.py"])
    run = make("deepspeed", 1, nodes=2)
    words = launchers.wrap(run, ["t.py"])
    assert words[3:9] == [
        "--master_port=29400", "--num_gpus=2", f"--hostfile={run.folder.path}/own/hostfile", "--no_ssh",
        "--node_rank=1", "--master_addr=first",
    ]  # fmt: skip
    assert run.folder.read("own/hostfile") == "node-0 slots=2\nnode-1 slots=2\n"


def test_ranks_are_the_first_marked_processes_below_the_leader(make, monkeypatch):
    parents = {1: 0, 10: 1, 11: 10, 12: 10, 13: 11, 20: 1}
    table = {pid: procs.Stat("python", "S", parent, 1, 1, 0, 0) for pid, parent in parents.items()}
    marks = {11: "LOCAL_RANK", 12: "LOCAL_RANK", 13: "LOCAL_RANK", 20: "LOCAL_RANK"}
    monkeypatch.setattr(procs, "environ", lambda pid: {marks.get(pid, "HOME"): "0"})
    assert launchers.ranks(make("torchrun"), 10, table) == {11, 12}
    assert launchers.ranks(make("none"), 10, table) == set()
    single = make("accelerate", processes=1)
    assert launchers.ranks(single, 10, table) == set()
    marks[12] = "ACCELERATE_MIXED_PRECISION"
    assert launchers.ranks(single, 10, table) == {12}


def test_the_flight_recorder_keeps_to_what_the_user_set(make):
    run = make("torchrun")
    found = launchers.environment(run, 3)
    assert found["TORCH_FR_BUFFER_SIZE"] == found["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"
    assert found["TORCH_FR_DUMP_TEMP_FILE"] == f"{run.folder.path}/log/nccl_trace_attempt_3_rank_"
    own = make("torchrun", variables={"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"})
    assert not [name for name in launchers.environment(own, 1) if name.endswith("BUFFER_SIZE")]
    assert launchers.environment(make("torchrun", processes=1), 1) == {}


@pytest.mark.parametrize(("words", "environ", "found"), [
    ("2", {"RGT_NODE_RANK": "1"}, (2, "first")),
    ("", {"SLURM_NODEID": "1", "SKYPILOT_NODE_RANK": "3"}, (1, "first")),
    (None, {"JOB_COMPLETION_INDEX": "4"}, (4, "first")),
    (None, {"SKYPILOT_NODE_RANK": "x"}, (0, "first")),
    (None, {"RGT_RENDEZVOUS": "given"}, (0, "given")),
])  # fmt: skip
def test_a_node_knows_its_number(make, words, environ, found):
    assert launchers.find_node(words, make("torchrun", nodes=2).spec, environ) == found


def test_the_scheduler_knows_the_first_node(make, tmp_path, monkeypatch):
    several = make("torchrun", nodes=2, rendezvous=None).spec
    assert launchers.find_node("1", several, {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}) == (
        1,
        "10.0.0.1",
    )
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho node7\necho node8 $3\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert launchers.find_node("0", several, {"SLURM_JOB_NODELIST": "node[7-8]"}) == (0, "node7")
    assert launchers.find_node("3", make("none").spec, {}) == (0, "first"), "one node is node 0"


def test_a_verb_on_a_further_node_finds_its_own_state(make):
    run = make("torchrun", nodes=2)
    os.makedirs(run.folder.at("node-1"))
    assert launchers.find_node(None, run.spec, {})[0] == 0
    with open(run.folder.at("node-1", "state.json"), "w"):
        pass
    assert launchers.find_node(None, run.spec, {})[0] == 1
    run.folder.touch("state.json")
    assert launchers.find_node(None, run.spec, {})[0] == 0
