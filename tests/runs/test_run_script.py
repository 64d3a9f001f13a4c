"""A run.sh is one file: what bash reads, the job, and modules that Python finds in it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.runs import run_script

LEAST = {"name": "a", "run_dir": "~/runs/a", "command": ["x"], "deadline": "hours:1"}


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
    turned = dict(reversed(list(LEAST.items())))
    assert run_script.text(LEAST) == run_script.text(turned)


@pytest.mark.parametrize("folder, seen", [("~/runs/a/", "/home/u/runs/a"), ("/w//a/", "/w/a"), ("/w/it's", "/w/it's")])  # fmt: skip
def test_bash_knows_the_folder_as_python_does(folder, seen):
    text = run_script.text({**LEAST, "run_dir": folder})
    line = next(line for line in text.splitlines() if line.startswith("RGT_DIR="))
    told = subprocess.run(
        ["bash", "-c", f'{line}; echo "$RGT_DIR"'], capture_output=True, text=True, env={"HOME": "/home/u"},
    )  # fmt: skip
    assert told.stdout == f"{seen}\n"


def test_a_module_that_would_end_itself_early_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x.py").write_text("a = 1\n#=== end ===\n")
    monkeypatch.setattr(run_script, "_PACKAGE", tmp_path)
    with pytest.raises(ValueError, match="x.py: a line begins with '#=== '"):
        run_script._source("x.py")


def test_a_traceback_names_the_line_of_the_script(tmp_path):
    head = run_script.text({**LEAST, "python": sys.executable}).partition("#=== module ")[0]
    main = "def main(path, job_text, words):\n    raise KeyError(words[0])\n"
    rooms = ("remote_gpu_trainer", "remote_gpu_trainer.runner")
    modules = "".join(f"#=== module {room} ===\n" for room in rooms)
    text = f"{head}{modules}#=== module remote_gpu_trainer.runner.main ===\n{main}{run_script.END}"
    (tmp_path / "run.sh").write_text(text)
    done = subprocess.run(["bash", "run.sh", "here"], cwd=tmp_path, capture_output=True, text=True)
    line = text.split("\n").index("    raise KeyError(words[0])") + 1
    assert done.returncode == 1
    assert f'File "run.sh", line {line}, in main\n    raise KeyError(words[0])' in done.stderr


def test_a_long_or_odd_command_stays_one_line_of_comment():
    text = run_script.text({**LEAST, "command": "a\nrm -rf /\n" + "x" * 900})
    shown = next(line for line in text.splitlines() if line.startswith("#   it runs"))
    assert "a\\nrm -rf /\\nxxx" in shown and len(shown) < 240
    assert "\nrm -rf" not in text


def test_the_job_is_plain_json_in_ascii():
    text = run_script.text({**LEAST, "name": "é\u2028\x9b"})
    job = text.partition("#=== job ===\n")[2].partition("\n#=== ")[0]
    assert job.isascii() and json.loads(job)["name"] == "é\u2028\x9b"
