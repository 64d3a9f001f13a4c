"""Hostile values in every field of a job that reaches a script, the lines for sbatch or a command.

Each is refused by its field's name, or arrives as it is and changes nothing around it.
"""

import itertools
import re
import subprocess
from datetime import date
from functools import cache

import jinja2
import pytest
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs import run_script, shell_text
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.render import render
from remote_gpu_trainer.runs.rendered import Unfit
from remote_gpu_trainer.runs.targets import slurm

from tests.runner.jobs import unpacked

pytestmark = pytest.mark.box

DAY = date(2026, 8, 25)
PLATFORMS = {
    "local": "local",
    "ssh": "vastai",
    "slurm": "slurm",
    "kubernetes": "kubernetes",
    "skypilot": "aws",
}
KINDS = {
    "quotes": ["'; touch pwned; '", '"; touch pwned; "', "a\\'; touch pwned; '", "\\", "\\n"],
    "expansions": ["$(touch pwned)", "`touch pwned`", "$HOME", "${x}", "!!", "~/x", "*"],
    "ends of a line": ["a\ntouch pwned\n", "a\rtouch pwned", "a\r\ntouch pwned", "\u2028touch pwned\u2029", "\x85touch pwned", "x\n#SBATCH --partition=high\n", "x #SBATCH"],
    "controls": ["\x01\x1b[31m", "\x7f", "a\0b", "\t", "\ud800"],
    "templates": ["{{ 7*7 }}", "{% raw %}", "{% endraw %}", "{% endblock %}", "{# x", "#}", "{{ cycler.__init__.__globals__ }}"],
    "words of ours": ["EOF", "RGT_PROGRAM", "PY", "-rf", "--help", "-oProxyCommand=touch pwned"],
    "commands": ["x; touch pwned", "x && touch pwned", "x | touch pwned", "x > pwned", "a) ; touch pwned ; ("],
    "spaces": ["a b", "", " ", "é中\U0001f600"],
}  # fmt: skip
HOSTILE = [value for values in KINDS.values() for value in values]
FIELDS = [
    "name", "command", "command.0", "command.1", "setup.0", "container.image", "container.mounts.0", "container.options.0", "deadline", "code", "environment", "python", "variables.A", "variables.NAME", "secrets.S.file", "secrets.S.variable", "rendezvous", "data.0.from", "data.0.to", "checkpoint.folder",
    "checkpoint.pattern", "resume.flag", "resume.variable", "durable.to", "durable.what.0", "at_end.command", "at_end.box_id", "at_end.credential.file", "results.0", "notify.0", "notify.1", "step_pattern", "rehearsal.arguments.0", "run_dir",
    "queue.cells.0.name", "queue.cells.0.arguments.0", "slurm.partition", "slurm.account", "slurm.qos", "slurm.gpu_type", "slurm.constraint", "slurm.exclude", "slurm.nodelist", "slurm.dependency", "slurm.reservation", "slurm.options.comment", "slurm.options.NAME", "kubernetes.image", "kubernetes.claim", "kubernetes.namespace", "kubernetes.mount", "kubernetes.labels.team", "kubernetes.labels.NAME", "kubernetes.annotations.note", "kubernetes.annotations.NAME", "kubernetes.resources.NAME",
    "kubernetes.priority_class", "kubernetes.tolerations.0.key", "kubernetes.tolerations.0.value", "skypilot.region", "skypilot.zone", "skypilot.setup.0", "skypilot.file_mounts.x", "skypilot.file_mounts.NAME", "skypilot.accelerator", "skypilot.infra", "skypilot.image",
]  # fmt: skip
REFUSED = (JobError, Unfit, ValueError)


def with_field(path: str, value: str) -> dict:
    """A job with this value in a field, and what the field needs around it."""
    job = {"name": "a", "command": ["x", "y"], "deadline": "1h", "gpus": 0, "kubernetes": {"image": "i", "claim": "c"}, "skypilot": {}}  # fmt: skip
    around = {"durable": {"to": "/d", "what": ["x"]}, "checkpoint": {"folder": "f"}, "data": [{"from": "/f", "to": "t"}], "secrets": {"S": {}}, "queue": {"cells": [{"name": "c", "arguments": ["x"]}]}, "at_end": {"do": "run", "command": "x", "keeps_disk": True} if path == "at_end.command" else {"do": "stop"}, "resume": {}, "container": {"engine": "docker", "image": "i"}, "notify": ["n"]}  # fmt: skip
    words = path.split(".")
    if path in ("skypilot.region", "skypilot.zone"):
        job["skypilot"] = {"infra": "aws", "region": "r"}
    if path == "kubernetes.tolerations.0.value":
        job["kubernetes"]["tolerations"] = [{"key": "k"}]
    if words[0] in around:
        job[words[0]] = around[words[0]]
    if path == "slurm.gpu_type":
        job["gpus"] = 1
    if path.startswith("skypilot.acc"):
        job["gpus"] = 1
    if words[-1] == "NAME":
        place = job
        for word in words[:-2]:
            place = place.setdefault(word, {})
        place[words[-2]] = {value: "x"}
        return job
    place = job
    for word, following in itertools.pairwise(words):
        if isinstance(place, list):
            place += [{}] if not place else []
            place = place[int(word)]
        else:
            place = place.setdefault(word, [] if following.isdigit() else {})
    if isinstance(place, list) and words[-1].isdigit():
        place[int(words[-1]) : int(words[-1]) + 1] = [value]
    else:
        place[words[-1]] = value
    return job


def shell_and_rest(script: str) -> tuple[list[str], str]:
    """The lines that bash reads, without what is told a reader, and the runner behind the job."""
    parts = unpacked(script)
    shell = [text for name, text in parts.items() if not name.endswith("/job.json")]
    lines = "\n".join(shell).split("\n")
    told = [line for line in lines if line.startswith("#   ")]
    assert all(line.isascii() and line.isprintable() for line in told)
    return [line for line in lines if line not in told], script.partition(
        "\n# run.d/runner packed\n"
    )[2]


def check_script(script: str, usual: str, folder) -> None:
    """No value changes what bash does: it stands in a comment, or as one word of an assignment."""
    lines, runner = shell_and_rest(script)
    usual_lines, usual_runner = shell_and_rest(usual)
    assert runner == usual_runner
    assert len(lines) == len(usual_lines)
    assignments = []
    for line, usual_line in zip(lines, usual_lines, strict=True):
        assert line.isprintable() or line == usual_line
        if usual_line.startswith("#"):
            assert line.startswith("#")
        elif usual_line.startswith("RGT_"):
            assert line.partition("=")[0] == usual_line.partition("=")[0]
            assignments.append(line)
        else:
            assert line == usual_line
    (folder / "there").mkdir(exist_ok=True)
    done = subprocess.run(
        ["bash", "-uc", "\n".join(assignments)],
        capture_output=True,
        cwd=folder / "there",
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    assert list((folder / "there").iterdir()) == []


STUBS = ("ssh", "tar", "git", "cp", "mv", "mkdir", "sbatch", "squeue", "scancel", "timeout", "kubectl", "sky", "remote-gpu-trainer", "bash", "cat", "date", "seq")  # fmt: skip


def programs_run(made, folder) -> list[str]:
    """The programs that the four commands start, none of them real."""
    tools = folder / "tools"
    if not tools.exists():
        tools.mkdir()
        (folder / "empty").mkdir()
        for name in STUBS:
            (tools / name).write_text(f'#!/bin/sh\necho {name} >> "$CALLED"\n')
            (tools / name).chmod(0o755)
    called = folder / "called"
    called.write_text("")
    (folder / "empty" / made.file_name).write_text("")
    env = {"PATH": str(tools), "CALLED": str(called), "HOME": str(folder / "home")}
    for line in around(made):
        subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=folder / "empty",
            env=env,
            capture_output=True,
            timeout=30,
        )
    assert sorted(path.name for path in (folder / "empty").iterdir()) == [made.file_name]
    (folder / "empty" / made.file_name).unlink()
    return sorted(called.read_text().split())


def check(path: str, value: str, target: str, folder) -> bool:
    """Is the value taken? Fails where it breaks out."""
    try:
        job = from_object(with_field(path, value))
        made = render(job, profile.get(PLATFORMS[target]), target, DAY)
    except REFUSED as refused:
        said = str(refused).splitlines()[0]
        assert (
            said.startswith(("job", path.split(".")[0], "a value has a NUL")) or ": must be" in said
        ), said
        return False
    if target == "slurm":
        # sbatch reads them up to the first line that is no comment.
        comments = itertools.takewhile(
            lambda line: not line or line.startswith("#"), made.script.split("\n")
        )
        lines = [line for line in comments if line.startswith("#SBATCH")]
        assert lines == slurm.head(job).splitlines()
        assert all(
            re.fullmatch(r"#SBATCH --[a-z-]+(=[A-Za-z0-9.:@%&|_/()\[\]*,+=?!-]+)?", line)
            for line in lines
        )
    usual = plain(path, target)
    if target in ("local", "ssh"):
        check_script(made.script, usual.script, folder)
    if value and around(made) != around(usual):  # an empty folder of code is none
        assert programs_run(made, folder) == programs_run(usual, folder)
    assert not [found for found in folder.rglob("*pwned*")]
    return True


PLAIN_VALUES = {"container.mounts.0": "/x", "container.options.0": "--x", "secrets.S.file": "/secrets/S", "deadline": "1h", "resume.flag": "--resume", "rendezvous": "a:29400", "run_dir": "~/x", "queue.cells.0.name": "c", "kubernetes.mount": "/workspace", "slurm.dependency": "singleton", "slurm.options.NAME": "comment", "environment": "requirements.txt"}  # fmt: skip


def around(made) -> tuple[str, ...]:
    return made.start, made.watch, made.stop, made.resume


@cache
def plain(path: str, target: str):
    job = from_object(with_field(path, PLAIN_VALUES.get(path, "plain")))
    return render(job, profile.get(PLATFORMS[target]), target, DAY)


# What reaches a command or an object, or the script alone, which all targets have in common.
EVERYWHERE = ("name", "code", "run_dir", "secrets.S.variable", "secrets.S.file", "command.1")


def targets_of(path: str) -> tuple[str, ...]:
    engine = path.split(".")[0]
    return (
        (engine,)
        if engine in PLATFORMS
        else tuple(PLATFORMS)
        if path in EVERYWHERE
        else ("local", "slurm")
    )


PAIRS = [(path, target) for path in FIELDS for target in targets_of(path)]


@pytest.mark.parametrize("number", range(len(PAIRS)), ids=lambda number: "-".join(PAIRS[number]))
def test_a_hostile_value_is_refused_or_stays_where_it_is(number, request, tmp_path):
    """All of them with --all, else one for each field, of another kind and place each time."""
    path, target = PAIRS[number]
    values = HOSTILE
    if not request.config.option.all:
        kind = list(KINDS.values())[number % len(KINDS)]
        values = [kind[number // len(KINDS) % len(kind)]]
    taken = [value for value in values if check(path, value, target, tmp_path)]
    assert "\0" not in "".join(taken) and "\ud800" not in taken


@pytest.mark.parametrize(
    "value", [value for value in HOSTILE if "\0" not in value and "\ud800" not in value]
)
@pytest.mark.parametrize("target", ("local", "ssh"))
def test_a_hostile_name_of_a_file_or_folder_here_stays_one_word(value, target, tmp_path):
    job = from_object({"name": "a", "command": ["x"], "deadline": "1h", "gpus": 0})
    made = render(job, profile.get(PLATFORMS[target]), target, DAY, file=value or "x")
    usual = render(job, profile.get(PLATFORMS[target]), target, DAY)
    done = subprocess.run(["bash", "-n", "-c", made.start], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert {name for name in programs_run(made, tmp_path)} <= {
        name for name in programs_run(usual, tmp_path)
    }


def test_without_the_environment_s_quoting_these_tests_fail(monkeypatch, tmp_path):
    """What an author who forgets to quote would get."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    hostile = "x; date"
    assert check("code", hostile, "local", tmp_path / "a")
    assert check("at_end.command", hostile, "local", tmp_path / "a")
    monkeypatch.setattr(shell_text, "_environment", lambda: shell_text.environment(str))
    with pytest.raises(AssertionError):
        check("code", hostile, "local", tmp_path / "b")
    monkeypatch.setattr(run_script, "word", str)
    with pytest.raises(AssertionError):
        check("at_end.command", hostile, "local", tmp_path / "c")


def test_a_value_that_is_missing_or_of_another_kind_is_no_empty_word():
    template = shell_text.environment().from_string("{{ a }}")
    with pytest.raises(jinja2.UndefinedError):
        template.render()
    for odd in (None, True, {"a": 1}, b"x"):
        with pytest.raises(TypeError):
            template.render(a=odd)
    with pytest.raises(ValueError, match="NUL"):
        template.render(a="a\0b")


def test_a_word_inside_of_quotes_is_bare_or_refused():
    template = shell_text.environment().from_string("'{{ a | bare }}'")
    assert template.render(a="~/runs/a-1") == "'~/runs/a-1'"
    for odd in ("a'b", "a b", "-x", "", "a\n", "$x", "a;b", "\u2028", "~", "~root/x"):
        with pytest.raises(ValueError):
            template.render(a=odd)


def test_a_script_may_hold_what_jinja_would_read_as_its_own():
    script = shell_text.Static("echo ${#x} {{ 7*7 }} {% raw %} {# x #}\n")
    assert shell_text.environment().from_string("{{ a }}").render(a=script) == script
