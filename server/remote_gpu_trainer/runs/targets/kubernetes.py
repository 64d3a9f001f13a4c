"""Kubernetes: the text of a Job with its ConfigMap. Pure.

For several nodes it is an Indexed Job with a headless Service.

The objects are plain values, dumped as YAML. Apply them with `kubectl apply --server-side`. Without
it kubectl copies the whole script into an annotation, which can't be longer than 256 KiB.

Retries: inside a pod the runner tries again, by class of failure. Only a pod that was taken away is
replaced by a new one. An eviction or a preemption doesn't count (podFailurePolicy). A KILL, a TERM
or a stop after a save counts against _BACKOFF_LIMIT. Any other exit fails the Job at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ...runner.spec import SAVE_SECONDS
from .. import targets
from ..job import Job
from ..job_targets import SCRIPT_DIR, SHM_DIR, Kubernetes, lies_inside
from ..rendered import Unfit

MIB = 1024 * 1024  # The limit of a ConfigMap's data; MaxSecretSize in pkg/apis/core/types.go
_AGAIN = [targets.AGAIN, 137, 143]  # stopped after a save, KILL, TERM
_FINAL_SYNC_SECONDS = 60
_BACKOFF_LIMIT = 3
_WAIT_SECONDS = 24 * 3600  # the Job's clock also runs while it waits for a node
_CONTAINER = "run"
_FILE = r"/[A-Za-z0-9._/-]{1,250}"


def as_yaml(job: Job, rendered: Mapping[str, Any], script: str) -> str:
    """Return the objects as YAML. Raises Unfit."""
    wanted = _checked(job, rendered)
    targets.check_script(script)
    if (size := len(script.encode())) > MIB:
        raise Unfit(
            f"script: must be at most {MIB:,} bytes, the limit of a ConfigMap, not {size:,} bytes; "
            "put long values into files of the code"
        )
    more = [_service(job, rendered)] if job.nodes > 1 else []
    more.append(_job(job, wanted, rendered))
    return targets.dump(lambda line: [_config_map(job, rendered, line), *more], script)


def _checked(job: Job, rendered: Mapping[str, Any]) -> Kubernetes:
    """Return what the job says of Kubernetes. Raises Unfit for what doesn't fit together."""
    wanted, run_dir = job.kubernetes, rendered["run_dir"]
    if wanted is None:
        raise Unfit(
            "kubernetes: missing; set kubernetes.image, and kubernetes.claim if anything is to "
            "outlive the pod"
        )
    if job.nodes > 1 and not job.name[0].isalpha():
        raise Unfit(
            "name: must begin with a letter for several nodes, as the name of a Service; choose "
            "another name"
        )
    if wanted.claim and not lies_inside(run_dir, wanted.mount):
        raise Unfit(
            f"run_dir: must be a folder below {wanted.mount}, where the claim is mounted, not "
            f"{run_dir!r}; use {wanted.mount}/runs/{job.name}"
        )
    if job.nodes > 1 and not wanted.claim:
        raise Unfit(
            "kubernetes.claim: must be a ReadWriteMany PersistentVolumeClaim, which all nodes see; "
            "name one"
        )
    for name, secret in job.secrets.items():
        if secret.file and not re.fullmatch(_FILE, secret.file):
            raise Unfit(
                f"secrets.{name}.file: must be an absolute path in the pod, of letters, digits and "
                f". _ / -; use /secrets/{name}"
            )
    return wanted


def _labels(rendered: Mapping[str, Any]) -> dict:
    """The labels by which our own objects are found."""
    return {
        "app.kubernetes.io/managed-by": "remote-gpu-trainer",
        "remote-gpu-trainer/job": rendered["job_sha"],
    }


def _metadata(job: Job, rendered: Mapping[str, Any]) -> dict:
    namespace = job.kubernetes.namespace if job.kubernetes else None
    return {
        "name": job.name,
        **({"namespace": namespace} if namespace else {}),
        "labels": _labels(rendered),
    }


def _with_own(metadata: dict, wanted: Kubernetes) -> dict:
    """The metadata of the Job or its pods, with the labels and annotations of the job."""
    found = {**metadata, "labels": {**metadata["labels"], **_sorted(wanted.labels)}}
    return {**found, "annotations": _sorted(wanted.annotations)} if wanted.annotations else found


def _sorted(given: dict[str, str]) -> dict[str, str]:
    return dict(sorted(given.items()))


def _config_map(job: Job, rendered: Mapping[str, Any], script: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(job, rendered),
        "data": {"run.sh": script},
    }


def _service(job: Job, rendered: Mapping[str, Any]) -> dict:
    service = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": job.name},
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, rendered),
        "spec": service,
    }


def _job(job: Job, wanted: Kubernetes, rendered: Mapping[str, Any]) -> dict:
    pod_seconds = math.ceil(job.hours * 3600) + grace(job) if job.hours else None
    spec: dict = {"backoffLimit": _BACKOFF_LIMIT}
    if pod_seconds:
        spec["activeDeadlineSeconds"] = pod_seconds + _WAIT_SECONDS
    pods = max(job.nodes, job.boxes)
    if pods > 1:
        spec |= {"completions": pods, "parallelism": pods, "completionMode": "Indexed"}
    if job.boxes > 1:
        # A part that fails ends none of the others.
        spec["backoffLimitPerIndex"] = spec.pop("backoffLimit")
    spec["podFailurePolicy"] = {
        "rules": [
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
            {
                "action": "FailIndex" if job.boxes > 1 else "FailJob",
                "onExitCodes": {"containerName": _CONTAINER, "operator": "NotIn", "values": _AGAIN},
            },
        ]
    }
    pod: dict = {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace(job)}
    if pod_seconds:
        pod["activeDeadlineSeconds"] = pod_seconds
    pod |= {"automountServiceAccountToken": False, "enableServiceLinks": False}
    if job.nodes > 1:
        pod["subdomain"] = job.name
    if wanted.node_selector:
        pod["nodeSelector"] = _sorted(wanted.node_selector)
    if wanted.host_network:
        # Without this policy a pod in the node's network can't resolve names of the cluster.
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if wanted.priority_class:
        pod["priorityClassName"] = wanted.priority_class
    if tolerations := _tolerations(job, wanted):
        pod["tolerations"] = tolerations
    mounts, volumes = _storage(job, wanted)
    pod["containers"] = [_container(job, wanted, mounts)]
    pod["volumes"] = volumes
    spec["template"] = {"metadata": _with_own({"labels": _labels(rendered)}, wanted), "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _with_own(_metadata(job, rendered), wanted),
        "spec": spec,
    }


def _tolerations(job: Job, wanted: Kubernetes) -> list[dict]:
    found = []
    if job.gpus:
        found.append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    for one in wanted.tolerations:
        given = {
            "key": one.key,
            "operator": "Equal" if one.value else "Exists",
            "value": one.value,
            "effect": one.effect,
        }
        found.append({name: text for name, text in given.items() if text})
    return found


def grace(job: Job) -> int:
    """Return the seconds from TERM to KILL, for a save and the last copy to the durable place."""
    save = job.checkpoint.save_seconds if job.checkpoint else SAVE_SECONDS
    return math.ceil(save) + _FINAL_SYNC_SECONDS


def _secret(job: Job) -> str:
    """Return the name of the Secret whose keys are those that the job's secrets name."""
    return f"{job.name}-secrets"


def _container(job: Job, wanted: Kubernetes, mounts: list[dict]) -> dict:
    command = ["bash", f"{SCRIPT_DIR}/run.sh", "queue" if job.queue else "run"]
    if job.boxes > 1:
        part = f'"$((JOB_COMPLETION_INDEX + 1))/{job.boxes}"'
        command = ["bash", "-c", f"exec {' '.join(command)} --part {part}"]
    keys = sorted(secret.variable for secret in job.secrets.values() if secret.variable)
    env: list[dict] = [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": _secret(job), "key": key}}}
        for key in keys
    ]
    if job.nodes > 1:
        command += ["--node-rank", "$(JOB_COMPLETION_INDEX)"]
        env.append({"name": "RGT_RENDEZVOUS", "value": f"{job.name}-0.{job.name}"})
    amounts = {
        "nvidia.com/gpu": job.gpus,
        "cpu": wanted.cpus,
        "memory": wanted.memory_gb and f"{wanted.memory_gb}Gi",
    }
    limits = {name: str(amount) for name, amount in amounts.items() if amount}
    container: dict = {"name": _CONTAINER, "image": wanted.image, "command": command}
    if env:
        container["env"] = env
    if limits or wanted.resources:
        container["resources"] = {"limits": {**limits, **_sorted(wanted.resources)}}
    if wanted.resources:
        container["resources"]["requests"] = _sorted(wanted.resources)
    container["volumeMounts"] = mounts
    return container


def _storage(job: Job, wanted: Kubernetes) -> tuple[list[dict], list[dict]]:
    """The container's mounts and the pod's volumes."""
    mounts: list[dict] = [
        {"name": "script", "mountPath": SCRIPT_DIR, "readOnly": True},
        {"name": "shm", "mountPath": SHM_DIR},
    ]
    volumes: list[dict] = [
        {"name": "script", "configMap": {"name": job.name}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{wanted.shm_gb}Gi"}},
    ]
    if wanted.claim:
        mounts.append({"name": "work", "mountPath": wanted.mount})
        volumes.append({"name": "work", "persistentVolumeClaim": {"claimName": wanted.claim}})
    items = []
    for key, secret in sorted(job.secrets.items()):
        if secret.file:
            mounts.append(
                {"name": "secrets", "mountPath": secret.file, "subPath": key, "readOnly": True}
            )
            items.append({"key": key, "path": key})
    if items:
        secret_volume = {"secretName": _secret(job), "defaultMode": 0o400, "items": items}
        volumes.append({"name": "secrets", "secret": secret_volume})
    return mounts, volumes
