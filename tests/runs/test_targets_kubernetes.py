"""Kubernetes objects: accepted by the schemas of the three newest versions in strict mode, and exact whatever the values hold."""

import os
import subprocess

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs import run_script, targets
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.rendered import Unfit, fingerprint, job_of, rendered_of
from remote_gpu_trainer.runs.targets import kubernetes

from tests.conftest import read_yaml
from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

VERSIONS = ("1.37", "1.36", "1.35")
OWN = {"image": "pytorch/pytorch:2.13.0-cuda13", "claim": "work"}
ONE = {
    "name": "tiny",
    "command": ["python3", "train.py"],
    "deadline": "20h",
    "checkpoint": {"folder": "out", "save_seconds": 45},
    "secrets": {
        "HF_TOKEN": {"variable": "HF_TOKEN"},
        "WANDB_API_KEY": {"variable": "WANDB"},
        "DEPLOY_KEY": {"file": "/secrets/deploy_key"},
    },
}


def job(own=None, **fields) -> Job:
    """A job of one GPU on a claim: these fields over it, and these of `kubernetes`."""
    return from_object({**ONE, **fields, "kubernetes": {**OWN, **(own or {})}})


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
    """The text of a job, with the script that went in."""

    def make(own=None, **fields):
        one = job(own, **fields)
        rendered = rendered_of(one, profile.get("kubernetes"), "kubernetes", "1")
        script = run_script.packed(run_script.files(job_of(one), rendered))
        return kubernetes.as_yaml(one, rendered, script), script

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
    return {"nodes": nodes, "launcher": "torchrun", **more}


FULL = {
    "namespace": "team-a", "cpus": 8, "memory_gb": 64, "node_selector": {"nvidia.com/gpu.product": "H100", "pool": ""},
    "labels": {"kueue.x-k8s.io/queue-name": "team"}, "annotations": {"example.org/note": "it's $(x)\n: y"}, "priority_class": "high", "host_network": True,
    "resources": {"rdma/hca_shared_devices_a": "1", "ephemeral-storage": "20Gi"},
    "tolerations": [{"key": "pool", "value": "train", "effect": "NoExecute"}, {}],
}  # fmt: skip
CELLS = {"cells": [{"name": "a", "arguments": ["--lr", "0.1"]}, {"name": "b"}]}
SHAPES = {
    "one node": {},
    "three nodes": several(),
    "every field": several(2, own=FULL),
    "CPU, no claim, no span, no secret": {
        "gpus": 0,
        "deadline": "18:00Z",
        "own": {"claim": None},
        "secrets": {},
    },
    "a queue": {"queue": CELLS},
    "a queue on two pods": {"queue": {**CELLS, "boxes": 2}},
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_object_passes_the_strict_schema(made, validate, shape, version):
    for document in read_yaml(made(**SHAPES[shape])[0]):
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
    spec = found["Job"]["spec"]
    assert "completionMode" not in spec
    assert spec["backoffLimit"] == 3
    assert spec["podFailurePolicy"]["rules"] == [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "run", "operator": "NotIn", "values": [75, 137, 143]},
        },
    ]
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["terminationGracePeriodSeconds"] == 45 + 60
    assert pod["activeDeadlineSeconds"] == 20 * 3600 + 105
    assert spec["activeDeadlineSeconds"] == 44 * 3600 + 105
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
    assert found["Job"]["metadata"]["labels"]["remote-gpu-trainer/job"] == fingerprint(job())
    assert spec["template"]["metadata"]["labels"] == found["Job"]["metadata"]["labels"]


def test_several_nodes_are_an_indexed_job_that_meets_at_pod_0(made):
    found = objects(made(**several())[0])
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
    found = objects(made(FULL, **several(2))[0])
    for metadata in (found["Job"]["metadata"], found["Job"]["spec"]["template"]["metadata"]):
        assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "team"
        assert metadata["labels"]["remote-gpu-trainer/job"] == fingerprint(job(FULL, **several(2)))
        assert metadata["annotations"] == {"example.org/note": "it's $(x)\n: y"}
    assert "kueue.x-k8s.io/queue-name" not in found["ConfigMap"]["metadata"]["labels"]


def test_further_resources_are_limits_and_requests_beside_the_gpus(made):
    pod = objects(made(FULL, **several(2))[0])["Job"]["spec"]["template"]["spec"]
    more = {"rdma/hca_shared_devices_a": "1", "ephemeral-storage": "20Gi"}
    limits = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi", **more}
    assert pod["containers"][0]["resources"] == {"limits": limits, "requests": more}


def test_a_pod_in_its_node_s_network_resolves_names_of_the_cluster(made):
    pod = objects(made(FULL, **several(2))[0])["Job"]["spec"]["template"]["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert pod["priorityClassName"] == "high"
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Equal", "key": "pool", "value": "train", "effect": "NoExecute"},
        {"operator": "Exists"},
    ]


@pytest.mark.parametrize("taken", ["cpu", "memory", "nvidia.com/gpu"])
def test_a_resource_with_a_field_of_its_own_is_refused_by_that_field(taken):
    with pytest.raises(
        JobError, match=rf"^kubernetes.resources: {taken} is said by .*; set that\Z"
    ):
        job({"resources": {taken: "1"}})


@pytest.mark.parametrize(
    "toleration",
    [{"key": "a b"}, {"value": "x"}, {"key": "a", "value": "b c"}, {"key": "a", "effect": "Never"}],
)
def test_a_bad_toleration_is_refused_by_name(toleration):
    with pytest.raises(JobError, match=r"^kubernetes.tolerations.0.\w+: must be .*; "):
        job({"tolerations": [toleration]})


def test_pods_that_share_a_queue_take_a_part_each_and_fail_alone(made, tmp_path):
    job = objects(made(queue={**CELLS, "boxes": 2})[0])["Job"]["spec"]
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
        objects(made(queue=CELLS)[0])["Job"]["spec"]["template"]["spec"]["containers"][0][
            "command"
        ][-1]
        == "queue"
    )


def test_a_readable_script_is_a_block_that_a_person_can_read(made):
    text, _ = made(command=["python3", "train.py", "it's"])
    assert "  run.sh: |\n    #!/usr/bin/env bash\n" in text
    assert '      "it\'s"\n' in text


def test_equal_values_give_equal_bytes(made):
    turned = {**FULL, "node_selector": dict(reversed(FULL["node_selector"].items()))}
    turned = dict(reversed(turned.items()))
    assert made(FULL, **several(2))[0] == made(turned, **several(2))[0]


@given(st.lists(HOSTILE, max_size=4), HOSTILE)
@example(["a\x85b", " leading", "trailing ", "\n\n"], "\ttab\n\n\n")
@example(["---\n...\n%YAML 1.1\n", "\r\n", "no", "1e3"], "\u2028")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_comes_back_exactly(made, command, value):
    try:
        text, script = made(command=["x", *command], variables={"V": value})
    except JobError:
        return
    found, usual = objects(text), objects(made()[0])
    assert found["ConfigMap"]["data"]["run.sh"] == script
    for each in (found, usual):
        each["Job"]["metadata"].pop("labels")
        each["Job"]["spec"]["template"].pop("metadata")  # the job's fingerprint
    assert found["Job"] == usual["Job"], "a value reached something else than the script"


@given(HOSTILE, st.dictionaries(HOSTILE, HOSTILE, max_size=3))
@example("1e3", {"no": "12:30", "0x1F": "1_000", "~": ".inf"})
def test_any_text_is_the_same_text_after_yaml(value, others):
    document = {"value": value, "others": others, "list": [value, 1, True, None]}
    text = targets.dump(lambda mark: [{**document, "script": mark}], "echo\n")
    assert yaml.safe_load(text) == {**document, "script": "echo\n"}


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
    text = targets.dump(lambda mark: [{"a": word, "b": mark}], "echo\n")
    assert text == f'---\na: "{word}"\nb: |\n  echo\n'


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"image": "a b"}, "image: must be the name of an image"),
        ({"image": "x\n- y"}, "image: must be the name of an image"),
        ({"claim": "a_b"}, "claim: must be the name of an object"),
        ({"mount": "work"}, "mount: must be an absolute path"),
        ({"mount": "/dev"}, "mount: must be a folder other than"),
        ({"mount": "/rgt/work"}, "mount: must be a folder other than"),
        ({"mount": "/work\n"}, "mount: must be an absolute path"),
        ({"namespace": "-"}, "namespace: must be 1 to 63"),
        ({"shm_gb": 0}, "shm_gb: is 0, and must be 1 or more"),
        ({"node_selector": {"a b": "c"}}, "node_selector: has a name that Kubernetes"),
        ({"node_selector": {"a": "b c"}}, "node_selector.a: must be a label's value"),
        ({"labels": {"a b": "c"}}, "labels: has a name that Kubernetes"),
        ({"labels": {"a": "b\n"}}, "labels.a: must be a label's value"),
        (
            {"labels": {"remote-gpu-trainer/job": "x"}},
            "labels: remote-gpu-trainer/job is the runner",
        ),
        ({"annotations": {"a\nb": "c"}}, "annotations: has a name that Kubernetes"),
        ({"annotations": {"a": "c" * 10_001}}, "annotations.a: must be at most 10,000 bytes"),
        ({"resources": {"a b": "1"}}, "resources: has a name that Kubernetes"),
        ({"resources": {"a": "1 x"}}, "resources.a: must be an amount"),
        ({"priority_class": "a b"}, "priority_class: must be the name of an object"),
    ],
)
def test_a_bad_value_is_refused_by_its_field_whatever_the_target(change, says):
    with pytest.raises(JobError, match=f"^kubernetes.{says}.*; "):
        job(change)


@pytest.mark.parametrize(
    ("own", "fields", "says"),
    [
        ({}, {"run_dir": "~/runs/tiny"}, "run_dir: must be a folder below /workspace"),
        ({}, {"run_dir": "/workspace2/tiny"}, "run_dir: must be a folder below /workspace"),
        ({}, {"run_dir": "/workspace/../etc"}, "run_dir: must be a folder below /workspace"),
        ({"claim": None}, several(2), "kubernetes.claim: must be a ReadWriteMany"),
        ({}, several(2, name="4x"), "name: must begin with a letter for several nodes"),
        ({}, {"secrets": {"KEY": {"file": "~/key"}}}, "secrets.KEY.file: must be an absolute path"),
    ],
)
def test_what_does_not_fit_together_is_refused_for_kubernetes_alone(made, own, fields, says):
    with pytest.raises(Unfit, match=f"^{says}.*; ") as refused:
        made(own, **fields)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_script_just_under_the_limit_of_a_config_map_passes(made):
    _, script = made()
    one, rendered = job(), {"run_dir": "/workspace/runs/tiny", "job_sha": "a"}
    fill = "#" * (kubernetes.MIB - len(script.encode()) - 1)
    whole = script.replace(run_script.END, f"{fill}\n{run_script.END}")
    text = kubernetes.as_yaml(one, rendered, whole)
    assert len(objects(text)["ConfigMap"]["data"]["run.sh"].encode()) == kubernetes.MIB
    with pytest.raises(Unfit, match="^script: must be at most .* not 1,048,577 bytes; "):
        kubernetes.as_yaml(one, rendered, whole.replace(f"{fill}\n", f"{fill}#\n"))


def test_a_text_that_is_no_script_of_ours_is_refused():
    with pytest.raises(ValueError, match="^script: "):
        kubernetes.as_yaml(job(), {"run_dir": "/workspace/runs/tiny", "job_sha": "a"}, "echo\n")


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
