"""A run.sh and its run.d: what bash reads, the job, and the runner's modules; apart and as one file."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.runs import run_script

from tests.runner.jobs import files_of, script_of, text_of, unpacked

LEAST = {
    "name": "a",
    "rendered": {"run_dir": "~/runs/a"},
    "command": ["x"],
    "deadline": "hours:1",
}


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_a_word_of_bash_is_one_line_of_ascii_that_bash_reads_back(value):
    word = run_script.word(value)
    assert word.isascii() and word.isprintable()
    for locale in ("C", "C.UTF-8"):
        seen = subprocess.run(
            ["bash", "-c", f"printf %s {word}"], capture_output=True, env={"LC_ALL": locale}
        )
        assert seen.stdout == value.encode()


def test_equal_jobs_give_equal_bytes_in_any_order():
    turned = {
        name: dict(reversed(list(held.items())))
        for name, held in reversed(script_of(LEAST).items())
    }
    assert text_of(LEAST) == run_script.packed(run_script.files(**turned))


@pytest.mark.parametrize("folder, seen", [("~/runs/a/", "/home/u/runs/a"), ("/w//a/", "/w/a"), ("/w/it's", "/w/it's")])  # fmt: skip
def test_bash_knows_the_folder_as_python_does(folder, seen):
    text = text_of(LEAST, {"rendered": {"run_dir": folder}})
    line = next(line for line in text.splitlines() if line.startswith("RGT_DIR="))
    told = subprocess.run(
        ["bash", "-c", f'{line}; echo "$RGT_DIR"'], capture_output=True, text=True, env={"HOME": "/home/u"},
    )  # fmt: skip
    assert told.stdout == f"{seen}\n"


def test_a_traceback_names_the_file_and_the_line(tmp_path):
    parts = files_of(
        LEAST, {"python": sys.executable, "rendered": {"run_dir": str(tmp_path / "a")}}
    )
    (main,) = [name for name in parts if name.endswith("/runner/main.py")]
    parts[main] = "def main(path, job_text, words, job_folder):\n    raise KeyError(words[0])\n"
    (tmp_path / "run.sh").write_text(run_script.packed(parts))
    (tmp_path / "a").mkdir()
    done = subprocess.run(["bash", "run.sh", "here"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    where = f'File "{tmp_path}/a/{main}", line 2, in main\n    raise KeyError(words[0])'
    assert where in done.stderr


@pytest.mark.parametrize(
    "deadline, told",
    [("hours:20", "20 h after"), ("hours:22.613065", "22 h 37 min after"), ("hours:0.5", "30 min after"),
     ("hours:0.075", "4 min 30 s after"), ("hours:0.005", "18 s after")],
)  # fmt: skip
def test_the_end_is_told_in_hours_and_minutes(deadline, told):
    [line] = [
        line for line in text_of(LEAST, {"deadline": deadline}).splitlines() if "until  " in line
    ]
    assert line.split("until")[1].strip().startswith(told)


def test_a_long_or_odd_command_stays_a_comment():
    text = text_of(LEAST, {"command": "a\nrm -rf /\n" + "x" * 900})
    shown = text[text.index("#   runs") : text.index("#   again")]
    assert "a\\nrm -rf\n#              /\\nxxx" in shown and len(shown) < 280
    assert all(line.startswith("#   ") for line in shown.splitlines())
    assert "\nrm -rf" not in text


def test_the_job_is_plain_json_in_ascii():
    text = text_of(LEAST, {"name": "é\u2028\x9b"})
    parts = unpacked(text)
    (job,) = [text for name, text in parts.items() if name.endswith("/job.json")]
    assert job.isascii() and json.loads(job)["job"]["name"] == "é\u2028\x9b"


def test_run_sh_is_short_and_the_runner_is_no_part_of_it():
    text = files_of(LEAST)["run.sh"]
    assert text.count("\n") <= 150
    assert text == text_of(LEAST).partition("\n" + run_script.BEGIN)[0], "the head of the one file"


@pytest.mark.parametrize("name", sorted(run_script.sources()))
def test_what_is_sent_of_a_module_is_its_code_line_by_line(name):
    source = run_script.sources()[name]
    sent = run_script.lean(source)
    assert sent.count("\n") == source.count("\n")
    assert nodes(sent) == nodes(source)


def nodes(source: str) -> list[tuple]:
    """What a module's code is and on which lines, without its docstrings and what only fills up."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not is_filling(one)]
    return [
        (type(node).__name__, getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        for node in ast.walk(tree)
        if not is_filling(node)
    ]


def is_filling(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


PROGRAMS = sorted({
    name
    for path in Path(run_script.__file__).parent.rglob("*.py")
    for name in re.findall(r'"(runs(?:\.\w+)+)"', path.read_text(encoding="utf-8"))
})  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_the_box_brings_all_that_it_imports(name):
    text = run_script.program(name).partition(f"from remote_gpu_trainer.{name} import main")[0]
    text += "import importlib\nfor name in SOURCES:\n    importlib.import_module(name)\n"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_there_are_programs_for_the_box():
    assert {"runs.log_reader", "runs.run_lister", "runs.transfer.box_end"} <= set(PROGRAMS)
