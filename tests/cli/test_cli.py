"""The commands a user types: what they print, where, and with which exit code."""

import io
import json
import subprocess
import sys

import pytest
from remote_gpu_trainer.cli import main as cli
from remote_gpu_trainer.cli.main import Progress, main

from tests.conftest import ROOT

LOGS = ROOT / "examples" / "logs"


def run(*args: str, stdin: bytes = b""):
    return subprocess.run(
        [sys.executable, "-m", "remote_gpu_trainer", *args],
        input=stdin,
        capture_output=True,
        timeout=60,
    )


def test_a_log_gets_its_entry_on_stdout_and_exit_0(capsys):
    assert main(["lookup", "--log", str(LOGS / "ddp-unused-parameters.log")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("D8  ")
    assert "ddp-unused-parameters.log:" in out
    assert "failed first: rank 1 (ddp-unused-parameters.log line 45)" in out
    assert err == ""


def test_nothing_fits_is_said_with_exit_1(capsys):
    assert main(["lookup", "how do I center a div in css"]) == 1
    assert "Nothing in the catalogue fits." in capsys.readouterr().out


@pytest.mark.parametrize("args", [["-"], ["--log", "-"]])
def test_standard_input_is_read_for_a_dash(args):
    done = run("lookup", *args, stdin=b"RuntimeError: element 0 of tensors does not require grad\n")
    assert done.returncode == 0
    assert done.stdout.startswith(b"O3  ")


def test_json_is_the_object_of_the_tool(capsys):
    assert main(["lookup", "--json", "--limit", "2", "two gpus hang at the first all_reduce"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"matches", "evidence", "first_failure", "ask", "also"}
    assert len(found["matches"]) == 2


def test_an_id_prints_the_whole_entry(capsys):
    assert main(["lookup", "--id", "O7"]) == 0
    assert capsys.readouterr().out.startswith("### O7 — ")
    assert main(["lookup", "--id", "o7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "O7"


def test_a_file_of_versions_marks_what_is_about_others(tmp_path, capsys):
    (tmp_path / "freeze.txt").write_text("torch==2.13.0\n")
    assert (
        main(
            ["lookup", "--installed", str(tmp_path / "freeze.txt"), "loss stays at 0.693 for ever"]
        )
        == 0
    )
    assert main(["lookup", "--installed", str(tmp_path / "gone.txt"), "loss"]) == 2
    assert (
        "gone.txt unreadable (No such file or directory), expected 'pip freeze' text, requirements.txt, uv.lock"
        in capsys.readouterr().err
    )


BAD = {
    "no question": (
        ["lookup"],
        b"",
        "found no question, expected one of: a text, '-', --log FILE, --id ID",
    ),
    "two questions": (["lookup", "x", "--id", "O3"], b"", "found text and --id, expected one of"),
    "empty text": (
        ["lookup", ""],
        b"",
        "found no text in text, expected an error, a log or a sentence",
    ),
    "blank text": (["lookup", " \n\t "], b"", "found no text in text"),
    "empty input": (["lookup", "-"], b"", "found nothing but blanks in stdin"),
    "blank input": (["lookup", "-"], b"  \n\n", "found nothing but blanks in stdin"),
    "binary input": (["lookup", "-"], b"\x00\x01\x02" * 500, "found NUL bytes in stdin"),
    "missing file": (
        ["lookup", "--log", "/nowhere/train.log"],
        b"",
        "found no file /nowhere/train.log",
    ),
    "device": (
        ["lookup", "--log", "/dev/null"],
        b"",
        "found a device at /dev/null, expected a log file or a folder of logs",
    ),
    "limit 0": (
        ["lookup", "--limit", "0", "x"],
        b"",
        "can't use limit 0; give a whole number from 1 to 10",
    ),
    "limit 1000": (
        ["lookup", "--limit", "1000", "x"],
        b"",
        "can't use limit 1000; give a whole number from 1 to 10",
    ),
    "unknown id": (
        ["lookup", "--id", "Z99"],
        b"",
        "no entry 'Z99'; the families are AD, AWS, ",
    ),
    "lint of nothing": (
        ["lint", "/nowhere"],
        b"",
        "found no references/ in /nowhere, expected the folder that holds the catalogue",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line_and_exit_2(name):
    args, stdin, said = BAD[name]
    done = run(*args, stdin=stdin)
    err = done.stderr.decode()
    assert done.returncode == 2
    assert said in err
    assert err.count("\n") == 1 and "Traceback" not in err
    assert done.stdout == b""


@pytest.mark.parametrize(
    "args", [["lookup", "--limit", "three", "x"], ["nonsense"], [], ["lookup", "--nope"]]
)
def test_wrong_usage_exits_2_without_a_traceback(args):
    done = run(*args)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and b"usage:" in done.stderr


def test_an_unreadable_file_is_said_so(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.log").write_text("x")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        "builtins.open", refuse
    )  # root may read everything, so the refusal is played
    assert main(["lookup", "--log", str(tmp_path / "a.log")]) == 2
    assert (
        "unreadable (Permission denied), expected a log that this user may read"
        in capsys.readouterr().err
    )


def test_a_broken_page_is_a_finding_of_lint_and_no_traceback(tmp_path, capsys):
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "a.md").write_text("### O3 — broken\n\n```\n**Symptom:** x\n")
    assert main(["lint", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "references/a.md:1: " in out
    assert err == f"0 entries, {out.count(chr(10))} findings\n"


def test_progress_is_silent_for_a_second_and_then_speaks_once_a_second(monkeypatch, capsys):
    clock = iter([0.0, 0.5, 1.2, 1.3, 2.5])
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(clock))
    progress = Progress()
    for count in (1, 2, 3, 4):
        progress(count * 1_000_000)
    assert capsys.readouterr().err == "read 2 MB …\nread 4 MB …\n"


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m remote_gpu_trainer lookup --id O1 | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True)
    assert b"Traceback" not in done.stderr


def test_a_look_up_starts_without_the_heavy_libraries():
    program = (
        "import sys; from remote_gpu_trainer.cli.main import main; main(['lookup', 'loss stays at 0.693']);"
        "print([m for m in ('mcp', 'pydantic', 'yaml', 'packaging', 'numpy') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


def test_every_command_has_a_help_that_says_something(capsys):
    parser = cli.make_parser()
    actions = next(a for a in parser._actions if hasattr(a, "choices") and a.choices)
    for name, command in actions.choices.items():
        text = io.StringIO()
        command.print_help(text)
        assert name in text.getvalue() and command.description
