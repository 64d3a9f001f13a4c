"""Kubernetes objects: accepted by the schemas of the three newest versions in strict mode, and exact whatever the values hold."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.runs import shell_text, targets
from remote_gpu_trainer.runs.targets import kubernetes

from tests.conftest import ROOT
from tests.runs import stub_runner

VERSIONS = ("1.37", "1.36", "1.35")
ONE = kubernetes.Options(
    name="tiny",
    image="pytorch/pytorch:2.13.0-cuda13",
    hours=20,
    gpus=1,
    claim="work",
    secret="tiny-secrets",
)
VALUES = {
    "RGT_NAME": "tiny",
    "RGT_NODES": 1,
    "RGT_GPUS": 1,
    "RGT_JOB_SHA": "0123456789abcdef",
    "RGT_RUN_DIR": "/workspace/runs/tiny",
    "RGT_COMMAND": ["python3", "train.py"],
    "RGT_SAVE_SECONDS": 45,
    "RGT_RDZV_HOST": "",
    "RGT_SECRET_VARS": ["HF_TOKEN", "WANDB_API_KEY=WANDB"],
    "RGT_SECRET_FILES": ["DEPLOY_KEY=/secrets/deploy_key"],
}
HOSTILE = st.text(
    st.one_of(
        st.sampled_from(
            "'\"`$(){}[]|&;<>*?!#%:,-\\ \t\n\r\0\x01\x1b\x7f\x85\xa0\u2028\u2029\ufeff\ufffe中\U0001f600"
        ),
        st.characters(exclude_categories=["Cs"]),
    )
)


@pytest.fixture(scope="module")
def made():
    """The text for some values, with the script that went in."""

    def make(options=ONE, **values):
        given = {**VALUES, **values}
        script = shell_text.script(given, stub_runner.parts())
        return kubernetes.text(given, options, script), script

    return make


@pytest.fixture(scope="module")
def validate():
    try:
        from kubernetes_validate import validate
    except ImportError:
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)(
            "kubernetes_validate is not installed: pip install kubernetes-validate==1.37.0"
        )
    return validate


def objects(text):
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def several(nodes=3, **more):
    return replace(ONE, nodes=nodes, **more), {"RGT_NODES": nodes}


FULL = {
    "namespace": "team-a", "pull_secret": "registry", "cpus": 8, "memory_gb": 64, "node_selector": (("nvidia.com/gpu.product", "H100"), ("pool", "")),
}  # fmt: skip
SHAPES = {
    "one node": (ONE, {}),
    "three nodes": several(),
    "every option": several(2, **FULL),
    "CPU, no claim, no deadline, no secret": (
        kubernetes.Options("tiny", "python", None, shm_gb=0),
        {
            "RGT_GPUS": 0,
            "RGT_RUN_DIR": "~/runs/tiny",
            "RGT_SECRET_VARS": [],
            "RGT_SECRET_FILES": [],
        },
    ),
    "a queue": (ONE, {"RGT_CELLS": ["a\x1f--lr\x1f0.1", "b"]}),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_object_passes_the_strict_schema(made, validate, shape, version):
    options, values = SHAPES[shape]
    for document in yaml.safe_load_all(made(options, **values)[0]):
        validate(document, version, strict=True)


def test_the_schemas_would_refuse_a_misspelt_key(made, validate):
    job = objects(made()[0])["Job"]
    job["spec"]["template"]["spec"]["terminationGracePeriod"] = 1
    with pytest.raises(Exception, match="terminationGracePeriod"):
        validate(job, VERSIONS[0], strict=True)


def test_one_node_is_a_job_with_its_script_and_nothing_else(made):
    text, script = made()
    found = objects(text)
    assert list(found) == ["ConfigMap", "Job"]
    assert found["ConfigMap"]["data"]["run.sh"] == targets.before_main(script, targets.RENDEZVOUS)
    job = found["Job"]["spec"]
    assert "completionMode" not in job
    assert job["backoffLimit"] == 3
    assert job["podFailurePolicy"]["rules"] == [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "run", "operator": "NotIn", "values": [75, 137, 143]},
        },
    ]
    pod = job["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["terminationGracePeriodSeconds"] == 45 + 60
    assert pod["activeDeadlineSeconds"] == 20 * 3600 + 105
    assert job["activeDeadlineSeconds"] == 44 * 3600 + 105
    run = pod["containers"][0]
    assert run["command"] == ["bash", "/rgt/run.sh", "run"]
    assert run["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert {mount["mountPath"] for mount in run["volumeMounts"]} == {
        "/rgt",
        "/dev/shm",
        "/workspace",
        "/secrets/deploy_key",
    }
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}} in pod["volumes"]
    assert found["Job"]["metadata"]["labels"]["remote-gpu-trainer/job"] == "0123456789abcdef"
    assert job["template"]["metadata"]["labels"] == found["Job"]["metadata"]["labels"]


def test_several_nodes_are_an_indexed_job_that_meets_at_pod_0(made):
    options, values = several()
    found = objects(made(options, **values)[0])
    assert list(found) == ["ConfigMap", "Service", "Job"]
    job = found["Job"]["spec"]
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (3, 3, "Indexed")
    pod = job["template"]["spec"]
    assert pod["subdomain"] == found["Service"]["metadata"]["name"] == "tiny"
    assert found["Service"]["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": "tiny"},
    }
    assert pod["containers"][0]["command"] == [
        "bash",
        "/rgt/run.sh",
        "run",
        "--node-rank",
        "$(JOB_COMPLETION_INDEX)",
    ]
    assert {"name": "RGT_RENDEZVOUS", "value": "tiny-0.tiny"} in pod["containers"][0]["env"]


def test_secrets_come_from_the_cluster_and_only_their_names_stand_in_the_text(made):
    pod = objects(made()[0])["Job"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["env"] == [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "tiny-secrets", "key": name}}}
        for name in ("HF_TOKEN", "WANDB")
    ]
    volume = next(volume for volume in pod["volumes"] if volume["name"] == "secrets")
    assert volume["secret"] == {
        "secretName": "tiny-secrets",
        "defaultMode": 0o400,
        "items": [{"key": "DEPLOY_KEY", "path": "DEPLOY_KEY"}],
    }


def test_a_queue_runs_its_cells(made):
    assert (
        objects(made(ONE, RGT_CELLS=["a", "b"])[0])["Job"]["spec"]["template"]["spec"][
            "containers"
        ][0]["command"][-1]
        == "queue"
    )


def test_a_readable_script_is_a_block_that_a_person_can_read(made):
    text, _ = made(RGT_COMMAND=["python3", "训练.py", "a\tb"])
    assert "  run.sh: |\n    #!/usr/bin/env bash\n" in text
    assert "'训练.py' 'a\tb'" in text


def test_equal_values_give_equal_bytes(made):
    options, values = several(2, **FULL)
    turned = replace(options, node_selector=options.node_selector[::-1])
    assert made(options, **values)[0] == made(turned, **dict(reversed(values.items())))[0]


@given(st.lists(HOSTILE, max_size=4), HOSTILE)
@example(["a\x85b", " leading", "trailing ", "\n\n"], "\ttab\n\n\n")
@example(["---\n...\n%YAML 1.1\n", "\r\n", "no", "1e3"], "\u2028")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_comes_back_exactly_or_is_refused(made, command, value):
    given = {"RGT_COMMAND": ["x", *command], "RGT_ENV": [f"V={value}"]}
    if "\0" in "".join(command) + value:
        with pytest.raises(ValueError, match="NUL"):
            made(**given)
        return
    text, script = made(**given)
    found = objects(text)
    assert found["ConfigMap"]["data"]["run.sh"] == targets.before_main(script, targets.RENDEZVOUS)
    assert found["Job"] == objects(made()[0])["Job"], (
        "a value reached something else than the script"
    )


@given(HOSTILE, st.dictionaries(HOSTILE, HOSTILE, max_size=3))
@example("1e3", {"no": "12:30", "0x1F": "1_000", "~": ".inf"})
@settings(deadline=None)
def test_any_text_is_the_same_text_after_yaml(value, others):
    document = {"value": value, "others": others, "list": [value, 1, True, None]}
    assert yaml.safe_load(targets.dump([document])) == document


@pytest.mark.parametrize(
    "word",
    [
        "no",
        "Yes",
        "on",
        "y",
        "null",
        "~",
        "1e3",
        "0o17",
        "012",
        "1_000",
        "12:30",
        ".inf",
        "nan",
        "2026-11-20",
        "=",
        "<<",
        "",
    ],
)
def test_a_word_that_some_yaml_reads_as_something_else_gets_quotes(word):
    assert targets.dump([{"a": word}]) == f'---\na: "{word}"\n'


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "Tiny"}, "name"),
        ({"name": "a" * 51}, "name"),
        ({"name": "4x", "nodes": 2}, "name"),
        ({"image": "a b"}, "image"),
        ({"image": "x\n- y"}, "image"),
        ({"hours": 0}, "hours"),
        ({"hours": float("nan")}, "hours"),
        ({"gpus": -1}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"nodes": 0}, "nodes"),
        ({"claim": "a_b"}, "claim"),
        ({"mount": "work"}, "mount"),
        ({"mount": "/dev"}, "mount"),
        ({"mount": "/rgt/work"}, "mount"),
        ({"mount": "/work\n"}, "mount"),
        ({"namespace": "-"}, "namespace"),
        ({"secret": "$(x)"}, "secret"),
        ({"pull_secret": "x y"}, "pull_secret"),
        ({"shm_gb": -1}, "shm_gb"),
        ({"wait_hours": -1}, "wait_hours"),
        ({"node_selector": (("a b", "c"),)}, "node_selector"),
        ({"node_selector": (("a", "b c"),)}, "node_selector"),
    ],
)
def test_a_bad_option_is_refused_by_name(change, field):
    with pytest.raises(ValueError, match=f"^{field}: must be .*, not .*; "):
        replace(ONE, **change)


@pytest.mark.parametrize(
    ("options", "values", "field"),
    [
        (ONE, {"RGT_NODES": 2}, "nodes"),
        (ONE, {"RGT_GPUS": 8}, "gpus"),
        (ONE, {"RGT_RUN_DIR": "~/runs/tiny"}, "RGT_RUN_DIR"),
        (ONE, {"RGT_RUN_DIR": "/workspace2/tiny"}, "RGT_RUN_DIR"),
        (ONE, {"RGT_RUN_DIR": "/workspace/../etc"}, "RGT_RUN_DIR"),
        (replace(ONE, nodes=2, claim=""), {"RGT_NODES": 2}, "claim"),
        (replace(ONE, secret=""), {"RGT_SECRET_FILES": []}, "RGT_SECRET_VARS"),
        (replace(ONE, secret=""), {}, "RGT_SECRET_FILES"),
        (ONE, {"RGT_SECRET_FILES": ["KEY=~/key"]}, "RGT_SECRET_FILES"),
        (ONE, {"RGT_SECRET_VARS": ["a b"]}, "RGT_SECRET_VARS"),
        (ONE, {"RGT_SAVE_SECONDS": "soon"}, "RGT_SAVE_SECONDS"),
        (ONE, {"RGT_JOB_SHA": "a b"}, "RGT_JOB_SHA"),
        (ONE, {"RGT_COMMAND": ["x" * 1_048_576]}, "script"),
        (ONE, {"RGT_COMMAND": ["\ud800"]}, "script"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(made, options, values, field):
    with pytest.raises(ValueError, match=f"^{field}: must be .*, not .*; ") as refused:
        made(options, **values)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_script_just_under_the_limit_of_a_config_map_passes(made):
    size = len(objects(made(RGT_COMMAND=["x"])[0])["ConfigMap"]["data"]["run.sh"])
    text, _ = made(RGT_COMMAND=["x" * (kubernetes.MIB - size + 1)])
    assert len(objects(text)["ConfigMap"]["data"]["run.sh"]) == kubernetes.MIB
    with pytest.raises(ValueError, match="1,048,577 bytes"):
        made(RGT_COMMAND=["x" * (kubernetes.MIB - size + 2)])


def test_a_text_that_is_no_script_of_ours_is_refused():
    with pytest.raises(ValueError, match="^script: "):
        kubernetes.text(VALUES, ONE, "echo\n")


@pytest.mark.parametrize(
    ("verb", "class_", "codes"),
    [
        ("", "preempted", {75}),
        ("stop", "preempted", {77}),
        ("deadline", "deadline", {76}),
    ],
    ids=["an eviction", "a stop by the user", "the deadline"],
)
def test_only_a_run_that_is_to_go_on_ends_with_75(tmp_path, verb, class_, codes):
    """What a pod does: the script in its foreground, TERM, its exit code. The small trainer itself ends with 85 after a save."""
    command = [sys.executable, str(ROOT / "tests/runs/runner_program.py"), "--steps", "1000"]
    values = {
        "RGT_TARGET": "kubernetes", "RGT_NAME": "tiny", "RGT_RUN_DIR": str(tmp_path / "run"), "RGT_WORK_DIR": str(tmp_path), "RGT_COMMAND": command, "RGT_GPUS": 0,
        "RGT_CHECKPOINT_DIR": str(tmp_path / "checkpoints"), "RGT_CHECKPOINT_GLOB": "step-*.pt", "RGT_PYTHON": sys.executable, "RGT_SAVE_SECONDS": 3,
        "RGT_DEADLINE": "hours:0.0025" if verb == "deadline" else "hours:1",
    }  # fmt: skip
    options = kubernetes.Options("tiny", "python", 1)
    script = objects(kubernetes.text(values, options, shell_text.script(values)))["ConfigMap"][
        "data"
    ]["run.sh"]
    path = tmp_path / "run.sh"
    path.write_text(script)
    env = {key: value for key, value in os.environ.items() if not key.startswith("RGT_")}
    pod = subprocess.Popen(
        ["bash", str(path), "run"], env=env, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        end = time.monotonic() + 30
        while not (tmp_path / "run/steps.log").exists() and time.monotonic() < end:
            time.sleep(0.1)
        if verb == "stop":
            subprocess.run(["bash", str(path), "stop"], check=True, env=env, timeout=60)
        elif not verb:
            pod.terminate()
        assert pod.wait(60) in codes
    finally:
        if pod.poll() is None:
            os.killpg(pod.pid, signal.SIGKILL)
            pod.wait()
        keeper = tmp_path / "run/keeper.pid"  # in a pod it ends with the container
        if keeper.exists():
            subprocess.run(["kill", keeper.read_text().split()[0]], capture_output=True)
    assert json.loads((tmp_path / "run/.preempted").read_text())["class"] == class_
