"""A line that only says how a program ended is read as what a shell prints for it."""

import pytest
from remote_gpu_trainer.logs.ends import as_message


@pytest.mark.parametrize(
    "line",
    [
        *("137", "-9", "exit code 137", "exitcode: -9", "ChildFailedError exitcode: -9", "rc=137"),
        *("SIGKILL", "signal 9", "received SIGKILL", "process killed by signal 9", "退出码 137"),
        *("Process finished with exit code -9", "process exited with returncode -9"),
        *("进程返回 -9", "返回值为 -9", "退出码：137", "以代码 137 退出", "程序被信号 9 杀死了"),
        "Error: command returned non-zero exit status 137.",
    ],
)
def test_every_spelling_of_signal_9_is_killed(line):
    assert as_message(line) == "Killed"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("exited with code 139", "Segmentation fault (core dumped)"),
        ("return code -7", "Bus error (core dumped)"),
        ("SIGABRT", "Aborted (core dumped)"),
        ("rc=143", "Terminated"),
    ],
)
def test_each_signal_has_its_message(line, message):
    assert as_message(line) == message


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "exit code 1",
            "exit code 9",
            "137 steps",
            "exit code 137 at batch size 1",
            "error 7",
            "退出码 137 显存不足",
            "进程 137 占用了显存",
            "返回 137 个结果",
        ),
        *("Killed", "got 9 GPUs", "epoch 137", "exit code 137" + " " * 80),
    ],
)
def test_a_line_that_says_more_or_no_signal_stays(line):
    assert as_message(line) == ""
