"""start, run, status and markers: the plain life of a run."""

import json
import time

from tests.runner_box import Box, undisturbed

pytest_plugins = ["tests.runner_box"]


def test_a_started_run_ends_done_with_the_weights_of_an_undisturbed_one(box: Box):
    box.make()
    box.start()
    assert box.wait()["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert box.marker("done") | {"t": 0} == {"t": 0, "exit": 0, "class": "", "entry": "", "reason": "", "step": 40, "attempt": 1}
    assert [s for _, s, _ in box.steps()] == list(range(1, 41))
    assert b"step 40/40" in box.output() and box.output().endswith(b"finished\n")


def test_run_in_the_foreground_ends_with_the_code_of_the_training(box: Box):
    box.make("--fail-at", 3, "--fail-code", 41, "--sleep", 0)
    assert box.verb("run").returncode == 41
    assert box.marker("failed")["exit"] == 41
    assert not (box.run_dir / ".done").exists()


def test_starting_a_finished_run_again_does_nothing(box: Box):
    box.make("--sleep", 0)
    assert box.verb("run").returncode == 0
    before = box.output()
    again = box.verb("start")
    assert again.returncode == 0 and "done already" in again.stdout
    assert box.verb("run").returncode == 0
    assert box.output() == before and len(box.events("attempt")) == 1


def test_of_two_starts_at_once_exactly_one_runs_and_the_other_exits_75(box: Box):
    box.make()
    both = [box.popen("start"), box.popen("start")]
    codes = sorted(child.wait(60) for child in both)
    assert codes == [0, 75]
    assert box.verb("run").returncode == 75
    assert box.wait()["phase"] == "done"
    assert len(box.events("start")) == 1
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()


def test_a_run_survives_without_tmux(box: Box, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "tmux").write_text("#!/bin/sh\nexit 1\n")
    (tools / "tmux").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    box.make()
    assert "own session" in box.verb("start").stdout
    assert box.wait()["phase"] == "done"


def test_a_missing_result_is_a_failure_although_the_program_said_zero(box: Box):
    box.make("--sleep", 0, RGT_EXPECT=["nowhere.bin", "final.bin"])
    assert box.verb("run").returncode == 1
    assert box.marker("failed")["class"] == "bug"
    assert box.status()["expect_missing"] == ["nowhere.bin"]


def test_the_log_is_cut_into_files_and_loses_nothing(box: Box):
    line = "x" * 97
    lines = f"import sys\nfor n in range(3000): print(n, {line!r})\nprint('to stderr', file=sys.stderr)"
    box.make(RGT_COMMAND=["python3", "-c", lines], RGT_LOG_BYTES=10000, RGT_EXPECT=[])
    assert box.verb("run").returncode == 0
    files = sorted((box.run_dir / "log").glob("train.log.*"))
    assert len(files) > 20 and all(path.stat().st_size == 10000 for path in files[:-1])
    assert box.output() == "".join(f"{n} {line}\n" for n in range(3000)).encode() + b"to stderr\n"


def test_a_line_is_in_the_log_while_the_program_still_runs(box: Box):
    box.make(RGT_COMMAND=["bash", "-c", "echo first; sleep 30"], RGT_EXPECT=[])
    box.start()
    box.until(lambda: box.output() == b"first\n", timeout=5)


def test_a_script_that_came_through_a_pipe_keeps_itself(box: Box):
    import subprocess

    box.make("--sleep", 0)
    with open(box.script) as text:
        done = subprocess.run(["bash", "-s", "start"], stdin=text, env=box.env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    box.script = box.run_dir / "run.sh"
    assert box.wait()["phase"] == "done"


def test_status_before_the_first_start_says_new(box: Box):
    now = box.make().status()
    assert now["phase"] == "new" and now["alive"] is False and now["step"] is None


def test_status_is_quick_and_valid_whatever_the_log_holds(box: Box):
    evil = 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 40 + b"\\"\\\\{}\\n\\x1b[31m" + "火\\u2028".encode() + b"\\xe7\\x81"); sys.stdout.flush(); import time; time.sleep(30)'
    box.make(RGT_COMMAND=["python3", "-c", evil], RGT_EXPECT=[], RGT_NAME='quote " back\\slash\nnewline 火')
    box.start()
    box.until(lambda: box.output())
    took = []
    for _ in range(5):
        begin = time.monotonic()
        text = box.verb("status", "--json").stdout
        took.append(time.monotonic() - begin)
        now = json.loads(text)
    assert min(took) < 0.3
    assert text.count("\n") == 1 and now["name"] == 'quote " back\\slash\nnewline 火'
    assert '"\\{}' in now["tail"] and "火" in now["tail"] and len(now["tail"].encode()) <= 4096


def test_the_end_of_the_last_run_is_not_taken_for_this_one_s(box: Box):
    box.make("--sleep", 0)
    box.start()
    box.wait()
    for _ in range(3):
        box.start("resume")
        assert box.status()["phase"] in ("preflight", "staging", "running", "syncing") or len(box.events("done")) == len(box.events("start"))
        box.until(lambda: len(box.events("done")) == len(box.events("start")) and not box.status()["alive"])


def test_a_login_without_home_or_util_linux_is_told_plainly(box: Box):
    box.make("--sleep", 0, RGT_DURABLE="~/durable")
    box.env.pop("HOME")
    assert box.verb("status").returncode == 0
    tools = box.folder / "bin"
    tools.mkdir()
    for name in ("bash", "mkdir"):
        (tools / name).symlink_to(f"/bin/{name}")
    box.env["PATH"] = str(tools)
    done = box.verb("start")
    assert done.returncode == 1 and done.stderr == "flock is missing on this box: install util-linux\n"
