"""Kubernetes objects: accepted by the schemas of the three newest versions in strict mode, and exact whatever the values hold."""

import os
import subprocess
from dataclasses import replace

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.runner.spec import DEFAULTS
from remote_gpu_trainer.runs import run_script, targets
from remote_gpu_trainer.runs.targets import kubernetes

from tests.conftest import read_yaml
from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

VERSIONS = ("1.37", "1.36", "1.35")
ONE = kubernetes.Options(
    name="tiny",
    image="pytorch/pytorch:2.13.0-cuda13",
    hours=20,
    gpus=1,
    claim="work",
    secret="tiny-secrets",
)
SPEC = {
    **DEFAULTS,
    "name": "tiny",
    "gpus": 1,
    "deadline": "hours:20",
    "job_sha": "0123456789abcdef",
    "run_dir": "/workspace/runs/tiny",
    "command": ["python3", "train.py"],
    "save_seconds": 45.0,
    "secret_variables": {"HF_TOKEN": "HF_TOKEN", "WANDB_API_KEY": "WANDB"},
    "secret_files": {"DEPLOY_KEY": "/secrets/deploy_key"},
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

    def make(options=ONE, **fields):
        given = {**SPEC, **fields}
        script = run_script.text(given)
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
    return {document["kind"]: document for document in read_yaml(text)}


def several(nodes=3, **more):
    return replace(ONE, nodes=nodes, **more), {"nodes": nodes}


FULL = {
    "namespace": "team-a", "pull_secret": "registry", "cpus": 8, "memory_gb": 64, "node_selector": (("nvidia.com/gpu.product", "H100"), ("pool", "")),
    "labels": (("kueue.x-k8s.io/queue-name", "team"),), "annotations": (("example.org/note", "it's $(x)\n: y"),), "priority_class": "high", "host_network": True,
    "resources": (("rdma/hca_shared_devices_a", "1"), ("ephemeral-storage", "20Gi")),
    "tolerations": (kubernetes.Toleration("pool", "train", "NoExecute"), kubernetes.Toleration()),
}  # fmt: skip
CELLS = [{"name": "a", "arguments": ["--lr", "0.1"]}, {"name": "b", "arguments": []}]
SHAPES = {
    "one node": (ONE, {}),
    "three nodes": several(),
    "every option": several(2, **FULL),
    "CPU, no claim, no deadline, no secret": (
        kubernetes.Options("tiny", "python", None, shm_gb=0),
        {"gpus": 0, "run_dir": "~/runs/tiny", "secret_variables": {}, "secret_files": {}},
    ),
    "a queue": (ONE, {"cells": CELLS}),
    "a queue on two pods": (replace(ONE, boxes=2), {"cells": CELLS}),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_object_passes_the_strict_schema(made, validate, shape, version):
    options, values = SHAPES[shape]
    for document in read_yaml(made(options, **values)[0]):
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
    assert found["ConfigMap"]["data"]["run.sh"] == script
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


def test_labels_and_annotations_are_on_the_job_and_its_pods_alone(made):
    options, values = several(2, **FULL)
    found = objects(made(options, **values)[0])
    for metadata in (found["Job"]["metadata"], found["Job"]["spec"]["template"]["metadata"]):
        assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "team"
        assert metadata["labels"]["remote-gpu-trainer/job"] == "0123456789abcdef"
        assert metadata["annotations"] == {"example.org/note": "it's $(x)\n: y"}
    assert "kueue.x-k8s.io/queue-name" not in found["ConfigMap"]["metadata"]["labels"]


def test_further_resources_are_limits_and_requests_beside_the_gpus(made):
    options, values = several(2, **FULL)
    pod = objects(made(options, **values)[0])["Job"]["spec"]["template"]["spec"]
    more = {"rdma/hca_shared_devices_a": "1", "ephemeral-storage": "20Gi"}
    limits = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi", **more}
    assert pod["containers"][0]["resources"] == {"limits": limits, "requests": more}


def test_a_pod_in_its_node_s_network_resolves_names_of_the_cluster(made):
    options, values = several(2, **FULL)
    pod = objects(made(options, **values)[0])["Job"]["spec"]["template"]["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert pod["priorityClassName"] == "high"
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Equal", "key": "pool", "value": "train", "effect": "NoExecute"},
        {"operator": "Exists"},
    ]


@pytest.mark.parametrize("taken", ["cpu", "memory", "nvidia.com/gpu"])
def test_a_resource_with_a_field_of_its_own_is_refused_by_that_field(taken):
    with pytest.raises(ValueError, match=rf"^resources: {taken} is said by .*; set that\Z"):
        replace(ONE, resources=((taken, "1"),))


@pytest.mark.parametrize("parts", [("a b",), ("", "x"), ("a", "b c"), ("a", "", "Never")])
def test_a_bad_toleration_is_refused_by_name(parts):
    with pytest.raises(ValueError, match="^tolerations: must be .*, not .*; "):
        kubernetes.Toleration(*parts)


def test_pods_that_share_a_queue_take_a_part_each_and_fail_alone(made, tmp_path):
    job = objects(made(replace(ONE, boxes=2), cells=CELLS)[0])["Job"]["spec"]
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (2, 2, "Indexed")
    assert (job["backoffLimitPerIndex"], "backoffLimit" in job) == (3, False)
    assert job["podFailurePolicy"]["rules"][1]["action"] == "FailIndex"
    command = job["template"]["spec"]["containers"][0]["command"]
    assert command[:2] == ["bash", "-c"]
    (tmp_path / "run.sh").write_text('echo "$@"')
    line = command[2].replace("/rgt/run.sh", str(tmp_path / "run.sh"))
    for index in "01":
        env = {"PATH": os.environ["PATH"], "JOB_COMPLETION_INDEX": index}
        done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True)
        assert done.stdout == f"queue --part {int(index) + 1}/2\n"


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
        objects(made(ONE, cells=CELLS)[0])["Job"]["spec"]["template"]["spec"]["containers"][0][
            "command"
        ][-1]
        == "queue"
    )


def test_a_readable_script_is_a_block_that_a_person_can_read(made):
    text, _ = made(command=["python3", "train.py", "it's"])
    assert "  run.sh: |\n    #!/usr/bin/env bash\n" in text
    assert '      "it\'s"\n' in text


def test_equal_values_give_equal_bytes(made):
    options, values = several(2, **FULL)
    turned = replace(options, node_selector=options.node_selector[::-1])
    assert made(options, **values)[0] == made(turned, **dict(reversed(values.items())))[0]


@given(st.lists(HOSTILE, max_size=4), HOSTILE)
@example(["a\x85b", " leading", "trailing ", "\n\n"], "\ttab\n\n\n")
@example(["---\n...\n%YAML 1.1\n", "\r\n", "no", "1e3"], "\u2028")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_comes_back_exactly(made, command, value):
    text, script = made(command=["x", *command], variables={"V": value})
    found = objects(text)
    assert found["ConfigMap"]["data"]["run.sh"] == script
    assert found["Job"] == objects(made()[0])["Job"], (
        "a value reached something else than the script"
    )


@given(HOSTILE, st.dictionaries(HOSTILE, HOSTILE, max_size=3))
@example("1e3", {"no": "12:30", "0x1F": "1_000", "~": ".inf"})
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
        ({"labels": (("a b", "c"),)}, "labels"),
        ({"labels": (("a", "b\n"),)}, "labels"),
        ({"labels": (("remote-gpu-trainer/job", "x"),)}, "labels"),
        ({"annotations": (("a\nb", "c"),)}, "annotations"),
        ({"annotations": (("a", "c" * 10_001),)}, "annotations"),
        ({"resources": (("a b", "1"),)}, "resources"),
        ({"resources": (("a/b", "1 x"),)}, "resources"),
        ({"priority_class": "a b"}, "priority_class"),
    ],
)
def test_a_bad_option_is_refused_by_name(change, field):
    with pytest.raises(ValueError, match=f"^{field}: must be .*, not .*; "):
        replace(ONE, **change)


@pytest.mark.parametrize(
    ("options", "values", "field"),
    [
        (ONE, {"run_dir": "~/runs/tiny"}, "run_dir"),
        (ONE, {"run_dir": "/workspace2/tiny"}, "run_dir"),
        (ONE, {"run_dir": "/workspace/../etc"}, "run_dir"),
        (replace(ONE, nodes=2, claim=""), {"nodes": 2}, "claim"),
        (replace(ONE, secret=""), {"secret_files": {}}, "secrets"),
        (replace(ONE, secret=""), {"secret_variables": {}}, "secrets"),
        (ONE, {"secret_files": {"KEY": "~/key"}}, "secrets"),
        (ONE, {"secret_variables": {"S": "a b"}}, "secrets"),
        (ONE, {"command": ["x" * 1_048_576]}, "script"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(made, options, values, field):
    with pytest.raises(ValueError, match=f"^{field}: must be .*, not .*; ") as refused:
        made(options, **values)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_script_just_under_the_limit_of_a_config_map_passes(made):
    size = len(objects(made(results=["x"])[0])["ConfigMap"]["data"]["run.sh"].encode())
    text, _ = made(results=["x" * (kubernetes.MIB - size + 1)])
    assert len(objects(text)["ConfigMap"]["data"]["run.sh"].encode()) == kubernetes.MIB
    with pytest.raises(ValueError, match="1,048,577 bytes"):
        made(results=["x" * (kubernetes.MIB - size + 2)])


def test_a_text_that_is_no_script_of_ours_is_refused():
    with pytest.raises(ValueError, match="^script: "):
        kubernetes.text(SPEC, ONE, "echo\n")


@pytest.mark.parametrize(
    ("verb", "class_", "codes"),
    [
        ("", "preempted", {75}),
        ("stop", "preempted", {77}),
        ("deadline", "deadline", {76}),
    ],
    ids=["an eviction", "a stop by the user", "the deadline"],
)
def test_only_a_run_that_is_to_go_on_ends_with_75(box: Box, verb, class_, codes):
    """What a pod does: the script in its foreground, TERM, its exit code. The small trainer itself ends with 85 after a save."""
    box.make(
        "--steps", 1000, target="kubernetes", platform="kubernetes", kubernetes={"image": "python"}, checkpoint={"save_seconds": 3},
        deadline="8s" if verb == "deadline" else "1h",
    )  # fmt: skip
    pod = box.popen("run")
    box.at_step(1)
    if verb == "stop":
        assert box.verb("stop").returncode == 0
    elif not verb:
        pod.terminate()
    assert pod.wait(90) in codes
    assert box.marker("preempted")["class"] == class_
