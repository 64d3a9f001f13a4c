"""What launchers say under every failure, told from what a program says."""

import pytest
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.informative import informative_lines
from remote_gpu_trainer.lookup.answer import answer_for

OWN = """Traceback (most recent call last):
  File "/data/train.py", line 12, in <module>
    main()
  File "/data/train.py", line 8, in main
    labels = batch["labels"]
KeyError: 'labels'
"""
TORCHRUN = """W1103 02:14:51.201000 2210 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 2291 closing signal SIGTERM
E1103 02:14:52.880000 2210 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: CODE) local_rank: 3 (pid: 2294) of binary: /opt/conda/bin/python
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 355, in wrapper
    return f(*args, **kwargs)
  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/run.py", line 919, in main
    run(args)
  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-03_02:14:51
  host      : node-3
  rank      : 3 (local_rank: 3)
  exitcode  : CODE (pid: 2294)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
ACCELERATE = """Traceback (most recent call last):
  File "/venv/bin/accelerate", line 8, in <module>
    sys.exit(main())
  File "/venv/lib/python3.10/site-packages/accelerate/commands/launch.py", line 1106, in launch_command
    simple_launcher(args)
subprocess.CalledProcessError: Command '['/venv/bin/python', 'train_network.py', '--config', 'a.toml']' returned non-zero exit status CODE.
"""
DEEPSPEED = """[2026-05-09 18:40:22,117] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 48120
[2026-05-09 18:40:23,902] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'finetune.py', '--local_rank=7'] exits with return code = CODE
"""


def said(text: str) -> str:
    return " | ".join(
        filter(None, (words.strip() for _, words, _ in informative_lines(reading.from_text(text))))
    )


@pytest.mark.parametrize("launcher", [TORCHRUN, ACCELERATE, DEEPSPEED])
def test_a_launchers_words_tell_nothing_beside_the_programs(launcher):
    told = said(OWN + launcher.replace("CODE", "1"))
    assert "KeyError: 'labels'" in told
    for word in (
        "local_rank",
        "elastic",
        "launch",
        "sigkill",
        "SIGTERM",
        "CalledProcess",
        "Root Cause",
        "FAILED",
        "time",
    ):
        assert word not in told


@pytest.mark.parametrize("launcher", [TORCHRUN, DEEPSPEED])
def test_an_exit_code_other_than_1_is_kept(launcher):
    assert said(launcher.replace("CODE", "-9")).startswith("exit code -9")


@pytest.mark.parametrize("launcher", [ACCELERATE, DEEPSPEED])
def test_nothing_but_a_launchers_words_gets_no_answer(launcher):
    assert not answer_for(text=launcher.replace("CODE", "1")).matches


def test_nothing_but_torchruns_summary_gets_the_entry_that_says_where_the_cause_stands():
    assert [each["id"] for each in answer_for(text=TORCHRUN.replace("CODE", "1")).matches] == [
        "D44"
    ]


def test_a_build_that_fails_is_no_launchers_word():
    assert "ninja" in said(
        "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1."
    )


def test_prose_with_a_launchers_words_is_left_alone():
    assert "time: it takes" in said(
        "I start it with torchrun.\ntime: it takes an hour\nrank: the second one is slow"
    )


@pytest.mark.parametrize("code, name", [("-7", "DP15"), ("-11", "U50")])
def test_a_literal_text_stands_first_or_second_whatever_the_other_words_say(code, name):
    command = "torchrun --nnodes 2 --node_rank 1 --nproc_per_node 8 --master_addr 10.0.0.2 --master_port 29500 train.py --deepspeed ds_z3.json --stage sft\n"
    assert name in [
        match["id"]
        for match in answer_for(text=command + TORCHRUN.replace("CODE", code)).matches[:2]
    ]
