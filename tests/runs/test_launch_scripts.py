"""Public launch scripts as jobs: what a need is said to be met by is in the job, and the engines take what is rendered."""

import re
import subprocess
from collections import Counter
from datetime import date

import pytest
from generated_docs.documents import outdated
from generated_docs.launch_scripts_page import DATA, PAGE, counts
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.render import render
from remote_gpu_trainer.runs.rendered import CodeState

from tests.conftest import ROOT, read_yaml
from tests.runs.test_targets_kubernetes import VERSIONS, validate
from tests.runs.test_targets_skypilot import load

__all__ = ["load", "validate"]  # the fixtures
pytest_plugins = ["tests.engines.slurm"]

SCRIPTS = read_yaml((ROOT / DATA).read_text(encoding="utf-8"))[0]
NEEDS = [(script, need) for script in SCRIPTS for need in script["needs"]]
WITHOUT_FIELD = {"command", "setup", "runner", "no"}
# What the small cluster of the tests says to lines that it can read, but not serve.
NOT_HERE = re.compile(
    r"sbatch: error: invalid partition specified: \S+"
    r"|allocation failure: (Invalid partition name specified|Invalid feature specification"
    r"|Requested node configuration is not available)"
)


def of(*engines):
    chosen = [script for script in SCRIPTS if script["engine"] in engines]
    return pytest.mark.parametrize("script", chosen, ids=lambda script: script["repository"])


def made(script, **changes):
    """The rendered job of a script; of its code there is an empty folder's record."""
    job = from_object({**script["job"], **changes})
    nothing = CodeState("no git repository\n", "", "")
    platform = profile.get(script["profile"])
    return render(
        job, platform, script["target"], date(2026, 11, 27), nothing if job.code else None
    )


def value_at(job: object, path: str) -> object:
    """What stands in a job under a path such as slurm.options.hint or data.0.to; None for nothing."""
    for word in path.split("."):
        at = int(word) if isinstance(job, list) else word
        try:
            job = job[at]
        except (KeyError, IndexError):
            return None
    return job


def lines_of_bash(script) -> list[str]:
    job = script["job"]
    command = job["command"]
    if isinstance(command, list) and command[:2] == ["bash", "-c"]:
        command = command[2]
    lines = [*job.get("setup", []), *job.get("skypilot", {}).get("setup", [])]
    return [*lines, *([command] if isinstance(command, str) else [])]


def test_twenty_scripts_of_twenty_repositories_have_a_job_each():
    assert len({script["repository"] for script in SCRIPTS}) == len(SCRIPTS) == 20
    engines = Counter(script["engine"] for script in SCRIPTS)
    assert engines == {"slurm": 10, "skypilot": 3, "kubernetes": 3, "shell": 4}
    for script in SCRIPTS:
        assert re.fullmatch("[0-9a-f]{40}", script["commit"])
        assert script["target"] == {"shell": "ssh"}.get(script["engine"], script["engine"])


def test_each_field_that_meets_a_need_is_set_in_the_job():
    for script, need in NEEDS:
        if need["by"] not in WITHOUT_FIELD:
            assert value_at(script["job"], need["by"]) is not None, need
        elif need["by"] == "setup":
            assert script["job"].get("setup"), need


def test_what_no_job_says_has_a_reason_and_nothing_else_has_one():
    for _, need in NEEDS:
        assert ("why" in need) == (need["by"] == "no"), need
        assert need.keys() <= {"need", "text", "by", "how", "why"}, need


@of("slurm", "skypilot", "kubernetes", "shell")
def test_a_variable_that_meets_a_need_has_the_script_s_value(script):
    for need in script["needs"]:
        name = need["by"].removeprefix("variables.")
        if name == need["by"] or "how" in need:
            continue
        told = re.search(rf"\b{name}[=:] *([^ ;\"']+|[\"'][^\"']*[\"'])", need["text"])
        if told and told[1].strip("\"'")[0] not in "$/":
            value = told[1].strip("\"'")
            assert script["job"]["variables"][name].startswith(value), need


@of("slurm")
def test_a_line_for_sbatch_comes_back_as_it_was_or_is_told_to_be_another(script):
    head = set(re.findall(r"^#SBATCH (--.*)$", made(script).script, re.M))
    for need in script["needs"]:
        if not need["text"].startswith("#SBATCH") or need["by"] in WITHOUT_FIELD or "how" in need:
            continue
        option = re.sub(r"^#SBATCH (--[a-z-]+)[ =]", r"\1=", need["text"])
        assert option.removeprefix("#SBATCH ") in head, need


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script["repository"])
def test_each_job_renders_and_bash_reads_its_lines(script):
    assert made(script).script
    for line in lines_of_bash(script):
        done = subprocess.run(["bash", "-n", "-c", line], capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)


@of("slurm")
def test_sbatch_reads_each_line_and_refuses_only_what_it_does_not_have(script, slurm, tmp_path):
    path = tmp_path / "job.sbatch"
    path.write_text(made(script).script)
    done = slurm.client("sbatch", "--test-only", str(path), check=False)
    if done.returncode != 0:
        assert done.stderr.strip()
        for line in done.stderr.strip().splitlines():
            assert NOT_HERE.fullmatch(line.strip()), done.stderr


@of("slurm")
def test_sbatch_takes_a_job_that_is_cut_to_this_cluster(script, slurm, tmp_path):
    """The partition, the features and the amounts are the cluster's; all other lines stay."""
    own = script["job"].get("slurm", {})
    fits = {"partition": "main", "cpus": 1, "memory_gb": 1, "constraint": "hbm"}
    cut = {name: fits.get(name, value) for name, value in own.items()}
    if "cpus-per-gpu" in own.get("options", {}):
        cut["options"] = {**own["options"], "cpus-per-gpu": 1}
    path = tmp_path / "job.sbatch"
    more = {
        "slurm": {**cut, "partition": "main"},
        "gpus": min(script["job"]["gpus"], 2),
        "nodes": 1,
    }
    path.write_text(made(script, **more).script)
    done = slurm.client("sbatch", "--test-only", str(path), check=False)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


def test_skypilot_s_parser_loads_each_task(load):
    scripts = [script for script in SCRIPTS if script["engine"] == "skypilot"]
    # As `--env RGT_PART=1/4` of the start command fills it.
    texts = [re.sub("RGT_PART: null", "RGT_PART: 1/4", made(script).script) for script in scripts]
    for script, loaded in zip(scripts, load(*texts), strict=True):
        assert "error" not in loaded, loaded
        task, wanted = loaded["task"], script["job"]["skypilot"]
        choice = task["resources"].get("any_of", [task["resources"]])
        gpus = {name: script["job"]["gpus"] for name in wanted["accelerator"].split(",")}
        assert dict(item for one in choice for item in one["accelerators"].items()) == gpus
        for field, key in (("cpus", "cpus"), ("memory_gb", "memory")):
            if field in wanted:
                assert {one[key] for one in choice} == {f"{wanted[field]}+"}
        assert all(line in task["setup"] for line in wanted["setup"])


@of("kubernetes")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_strict_schemas_take_each_object(script, version, validate):
    documents = read_yaml(made(script).script)
    assert documents[-1]["kind"] == "Job"
    for document in documents:
        validate(document, version, strict=True)


def test_the_page_has_the_counts_of_the_data():
    assert PAGE not in outdated(ROOT, write=False)
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \| \w+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)  # fmt: skip
    for script, (name, *told) in zip(SCRIPTS, rows, strict=True):
        assert (name, list(map(int, told))) == (
            script["repository"],
            [len(script["needs"]), *counts(script).values()],
        )
        assert sum(counts(script).values()) == len(script["needs"])
    sums = [sum(map(int, column)) for column in list(zip(*rows, strict=True))[1:]]
    assert "| all | | " + " | ".join(map(str, sums)) + " |" in text
    listed = text.partition("## What no job says")[2]
    for script, need in NEEDS:
        if need["by"] == "no":
            assert f"{need['need']} ({script['repository']})" in listed
