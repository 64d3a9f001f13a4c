"""The tasks for agents: what a machine can check of them, and the runner against a client that only plays one."""

import json
import os
import shlex
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

import agent_runs
import run_agent_evals as runner

TASKS = runner.read_tasks(ROOT / "evals/evals.json")
USAGE = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 3}

# Knows every right answer when the skill lies in its folder, and says nothing of use without.
CLIENT = """\
import json, os, pathlib, sys, time
mode, prompt = sys.argv[1], sys.argv[-1]
task = next(t for t in json.loads(pathlib.Path(EVALS).read_text(encoding="utf-8"))["evals"] if prompt.startswith(t["prompt"]))
grade = task["grade"]
skill = pathlib.Path(".claude/skills/remote-gpu-trainer/SKILL.md").is_file()
assert os.path.samefile(os.environ["PWD"], ".")
assert bool(task["files"]) == (pathlib.Path("output.log").is_file() or pathlib.Path("logs").is_dir())
if mode == "hang":
    time.sleep(600)
if mode == "fail":
    print("half an answer"), sys.exit("no login")
call = {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Skill", "input": {"skill": "remote-gpu-trainer"}}]}}
said = "I don't know."
if skill and "command" in grade:
    said = " ".join([*grade.get("entry", [])[:1], grade["command"][0], grade["caution"][0]])
if mode == "plain":
    print(said), sys.exit()
print(json.dumps({"type": "system", "skills": ["remote-gpu-trainer"]}))
if skill and (mode == "eager" or "command" in grade):
    print(json.dumps(call))
print(json.dumps({"type": "result", "result": said, "usage": USAGE}))
"""


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    """Run the runner with a played client: ask('right', '--tasks', '1') gives the exit code, the table and the runs."""
    program, out = tmp_path / "client.py", tmp_path / "runs.jsonl"
    program.write_text(
        CLIENT.replace("EVALS", repr(str(ROOT / "evals/evals.json"))).replace("USAGE", repr(USAGE)),
        encoding="utf-8",
    )
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(runner.Path, "home", lambda: home)

    def run(mode, *options):
        quoted = (
            shlex.join([sys.executable, str(program), mode])
            if os.name == "posix"
            else f"{sys.executable} {program} {mode}"
        )
        code = runner.main(["--client", quoted, "--out", str(out), *options])
        said = capsys.readouterr()
        return (
            code,
            said.out or said.err,
            [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
            if out.exists()
            else [],
        )

    run.home = home
    return run


def of(kind):
    return [task["id"] for task in TASKS if kind in task["grade"]]


def test_there_are_enough_tasks_of_both_kinds():
    assert len(TASKS) - len(of("silent")) >= 40 and len(of("silent")) >= 8
    assert len({one for task in TASKS for one in task["grade"].get("entry", [])[:1]}) >= 25
    assert sum("known" in task["grade"] for task in TASKS) <= 1


def test_no_question_gives_its_answer_away():
    for task in TASKS:
        assert "remote-gpu-trainer" not in task["prompt"] and "lookup_symptom" not in task["prompt"]
        assert not any(f" {one} " in task["prompt"] for one in task["grade"].get("entry", ()))


def test_every_made_up_log_is_used():
    made = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "evals/tasks").rglob("*")
        if path.is_file()
    }
    assert made <= {file for task in TASKS for file in task["files"]}


def test_the_check_passes_from_the_command_line():
    done = subprocess.run(
        [sys.executable, str(ROOT / "evals/run_agent_evals.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(TASKS)} tasks" in done.stdout and "0 wrong" in done.stdout


@pytest.mark.parametrize(
    "change, said",
    [
        ({"files": ["evals/tasks/none.log"]}, "no file "),
        ({"files": ["../x.log"]}, "no file "),
        ({"grade": {"entry": ["ZZ9"], "command": ["a"], "caution": ["b"]}}, "unknown id ZZ9; name"),
        ({"grade": {"entry": ["RP4"], "command": ["a"], "caution": ["b"]}}, "expected RP4"),
        ({"grade": {"silent": True}}, "expected nothing"),
        (
            {"grade": {"entry": ["D8"], "command": ["a"], "caution": ["b"], "known": "x"}},
            "gap under `known` is closed",
        ),
    ],
)
def test_the_check_finds_what_is_wrong(change, said):
    wrong, _ = runner.check([{**TASKS[0], **change}], ROOT)
    assert len(wrong) >= 1 and said in " ".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"skill_name": "other", "evals": []}',
        json.dumps({"skill_name": agent_runs.NAME, "evals": [{"id": 1}]}),
        json.dumps({"skill_name": agent_runs.NAME, "evals": TASKS[:1] * 2}),
    ],
)
def test_a_broken_file_of_tasks_is_one_line_and_exit_2(text, tmp_path, capsys):
    (tmp_path / "e.json").write_text(text)
    assert runner.main(["--check", "--evals", str(tmp_path / "e.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_client_that_follows_the_skill_passes_with_it_and_not_without(ask):
    loud, quiet = of("entry")[:3], of("silent")[:2]
    code, table, runs = ask("right", "--tasks", ",".join(map(str, loud + quiet)))
    assert code == 0 and len(runs) == 10
    rows = {line.split()[0]: line.split() for line in table.splitlines()[1:3]}
    assert rows["with"][1:6] == ["5/5", "3/3", "3/3", "2/2", "0"] and rows["with"][7] == "123"
    assert rows["without"][1:6] == ["2/5", "0/3", "0/3", "2/2", "0"]
    assert {(run["arm"], run["called"]) for run in runs if run["task"] in loud} == {
        ("with", True),
        ("without", False),
    }


def test_a_skill_that_is_loaded_where_it_should_stay_silent_fails_the_task(ask):
    _, _, [run] = ask("eager", "--tasks", str(of("silent")[0]), "--arms", "with")
    assert run["called"] and not run["passed"]


def test_plain_text_is_graded_and_tells_no_tokens(ask):
    code, table, runs = ask("plain", "--tasks", "1,41", "--arms", "with", "--repeat", "2")
    assert (
        code == 0
        and len(runs) == 4
        and all(run["passed"] and run["tokens"] is None and run["called"] is None for run in runs)
    )
    assert "not told" in table


def test_a_client_that_fails_is_an_error_and_never_a_silent_pass(ask):
    code, table, [run] = ask("fail", "--tasks", str(of("silent")[0]), "--arms", "with")
    assert (
        code == 2
        and not run["passed"]
        and run["error"] == "exit code 1: no login"
        and " 0/1 " in table
    )


def test_a_client_that_hangs_is_ended(ask):
    started = time.monotonic()
    code, _, [run] = ask("hang", "--tasks", "1", "--arms", "with", "--timeout", "1")
    assert code == 2 and run["error"] == "no end within 1 s" and time.monotonic() - started < 30


def test_without_the_skill_means_without(ask):
    (ask.home / ".agents/skills/remote-gpu-trainer").mkdir(parents=True)
    code, said, runs = ask("right", "--tasks", "1")
    assert code == 2 and "uninstall it first" in said and runs == []
    assert ask("right", "--tasks", "1", "--arms", "with")[0] == 0


@pytest.mark.parametrize(
    "options", [["--tasks", "x"], ["--tasks", "999"], ["--arms", "both"], ["--repeat", "0"]]
)
def test_wrong_options_are_exit_2(ask, options):
    assert ask("right", *options)[0] == 2


def test_a_client_that_is_not_there_is_exit_2(capsys):
    assert (
        runner.main(["--client", "no-such-client-here -p", "--tasks", "1", "--arms", "with"]) == 2
    )
    assert "no-such-client-here" in capsys.readouterr().err


@pytest.mark.parametrize(
    "events, answer, tokens, called",
    [
        ([{"result": "a", "usage": USAGE}], "a", 123, None),
        ([{"usage": {"input_tokens": 9}}, {"result": "a", "usage": USAGE}], "a", 123, False),
        (
            [
                {"type": "item.completed", "item": {"type": "agent_message", "text": "b"}},
                {
                    "type": "turn.completed",
                    "usage": {"input_tokens": 5, "cached_input_tokens": 4, "output_tokens": 2},
                },
            ],
            "b",
            7,
            False,
        ),
        (
            [
                {
                    "type": "item.completed",
                    "item": {"type": "command_execution", "command": "remote-gpu-trainer lookup x"},
                },
                {},
            ],
            "",
            None,
            True,
        ),
        (
            [
                {
                    "type": "item.completed",
                    "item": {
                        "type": "command_execution",
                        "command": "ls -R",
                        "aggregated_output": "remote-gpu-trainer",
                    },
                },
                {},
            ],
            "",
            None,
            False,
        ),
        (
            [
                {"type": "text", "part": {"type": "text", "text": "c"}},
                {
                    "part": {
                        "type": "step-finish",
                        "tokens": {
                            "input": 5,
                            "output": 2,
                            "reasoning": 0,
                            "cache": {"read": 1, "write": 0},
                        },
                    }
                },
            ],
            "c",
            8,
            False,
        ),
        (
            [{"part": {"type": "tool", "tool": "rgt_lookup_symptom", "state": {"input": {}}}}, {}],
            "",
            None,
            True,
        ),
        (
            [
                {"type": "message", "role": "user", "content": "x"},
                {
                    "type": "tool_use",
                    "tool_name": "mcp_remote-gpu-trainer_lookup_symptom",
                    "parameters": {},
                },
                {"type": "message", "role": "assistant", "content": "e", "delta": True},
                {"type": "message", "role": "assistant", "content": "f", "delta": True},
                {
                    "type": "result",
                    "status": "success",
                    "stats": {"total_tokens": 4, "models": {"m": {"total_tokens": 4}}},
                },
            ],
            "ef",
            4,
            True,
        ),
        ([{"response": "d", "stats": {"models": {"m": {"tokens": {"total": 11}}}}}], "d", 11, None),
    ],
)
def test_what_the_clients_print_is_read(events, answer, tokens, called):
    read = agent_runs.read_events("a warning\n" + "\n".join(map(json.dumps, events)))
    assert (
        agent_runs.answer_of(read, ""),
        agent_runs.tokens_of(read),
        agent_runs.called(read),
    ) == (answer, tokens, called)


@pytest.mark.parametrize(
    "answer, silent",
    [
        ("Take L1 loss and a V100.", True),
        ("See entry D8.", False),
        ("**D8** fits.", False),
        ("(O3)", False),
        ("Ask remote-gpu-trainer.", False),
    ],
)
def test_silence_is_an_answer_without_ids(answer, silent):
    assert agent_runs.marks({"silent": True}, answer, None, ["D8", "O3", "L1", "V1"]) == {
        "silent": silent
    }


def test_a_word_of_the_grade_counts_from_its_beginning():
    grade = {"entry": ["D8"], "command": ["ask"], "caution": ["重启"]}
    assert agent_runs.marks(grade, "The task: AD8, 请重启", None, ["D8"]) == {
        "entry": False,
        "command": False,
        "caution": True,
    }
    assert agent_runs.marks(grade, "D8. Asked.", None, ["D8"]) == {
        "entry": True,
        "command": True,
        "caution": False,
    }
