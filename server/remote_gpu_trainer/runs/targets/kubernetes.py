"""Kubernetes: the text of a Job with its ConfigMap. Pure.

For several nodes it is an Indexed Job with a headless Service.

The objects are plain values, dumped as YAML. Apply them with `kubectl apply --server-side`. Without
it kubectl copies the whole script into an annotation, which can't be longer than 256 KiB.

Retries: inside a pod the runner tries again, by class of failure. Only a pod that was taken away is
replaced by a new one. An eviction or a preemption doesn't count (podFailurePolicy). A KILL, a TERM
or a stop after a save counts against `backoff_limit`. Any other exit fails the Job at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import targets

MIB = 1024 * 1024  # The limit of a ConfigMap's data; MaxSecretSize in pkg/apis/core/types.go
_AGAIN = [targets.AGAIN, 137, 143]  # stopped after a save, KILL, TERM
_FINAL_SYNC_SECONDS = 60
_CONTAINER, _SCRIPT_DIR, _SHM_DIR = "run", "/rgt", "/dev/shm"
_LABEL = r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_PATH = r"/[A-Za-z0-9._/-]{1,250}"
_KEY = r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
_AMOUNT = r"[0-9]{1,15}(\.[0-9]{1,3})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?"
_SAID_ELSEWHERE = {
    "cpu": "kubernetes.cpus",
    "memory": "kubernetes.memory_gb",
    "nvidia.com/gpu": "gpus",
}
_OUR_LABELS = ("app.kubernetes.io/managed-by", "remote-gpu-trainer/job")
_MOST_ANNOTATION = 10_000  # bytes of one; the API takes 256 KiB of all together
_IMAGE = r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,254}"


@dataclass(frozen=True)
class Toleration:
    """A taint of nodes that the pod may run on. '' leaves a part out; without `key` all taints."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def __post_init__(self) -> None:
        look = "look at `kubectl describe nodes`"
        if self.key:
            targets.matched("tolerations", self.key, _KEY, "the key of a taint", look)
        targets.matched("tolerations", self.value, _VALUE, "the value of a taint", look)
        effects = "(NoSchedule|PreferNoSchedule|NoExecute)?"
        targets.matched("tolerations", self.effect, effects, "an effect of a taint", look)
        if self.value and not self.key:
            raise targets.refuse("tolerations", self.value, "empty without a key", "set the key")

    def as_dict(self) -> dict:
        """Return what the API takes."""
        given = {
            "key": self.key,
            "operator": "Equal" if self.value else "Exists",
            "value": self.value,
            "effect": self.effect,
        }
        return {name: text for name, text in given.items() if text}


@dataclass(frozen=True)
class Options:
    """What only Kubernetes needs. GPUs, cpus and memory are for one node; 0 and '' leave them out.

    `hours` is the deadline (None: a time of day); the pod ends a little after it, the Job
    `wait_hours` later, because its clock also runs while it waits for a node. `claim`:
    PersistentVolumeClaim that holds the run folder, mounted at `mount`; several nodes need one that
    is ReadWriteMany. `secret`: the Secret whose keys are the names of the secret variables and
    files. `shm_gb`: /dev/shm, which counts as memory of the pod. `labels` and `annotations` are put
    on the Job and its pods; `resources`: (name, amount) of what a node has beside GPUs, cpus and
    memory. `boxes`: pods that share the cells of a queue, each a part; they need a claim that is
    ReadWriteMany, or none.

    Raises ValueError that names the field.
    """

    name: str
    image: str
    hours: float | None
    gpus: int = 0
    nodes: int = 1
    boxes: int = 1
    claim: str = ""
    mount: str = "/workspace"
    namespace: str = ""
    secret: str = ""
    pull_secret: str = ""
    shm_gb: int = 8
    cpus: int = 0
    memory_gb: int = 0
    wait_hours: float = 24
    backoff_limit: int = 3
    node_selector: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    resources: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority_class: str = ""
    host_network: bool = False

    def __post_init__(self) -> None:
        letter = "[a-z]" if self.nodes != 1 else ""  # the Service's name must begin with one
        targets.matched(
            "name",
            self.name,
            f"(?={letter}){_LABEL}" if letter else _LABEL,
            "1 to 50 of a-z, 0-9 and '-', and begin with a letter for several nodes",
            "choose another name",
        )
        targets.matched(
            "image", self.image, _IMAGE, "the name of an image", "leave out everything else"
        )
        targets.hours("hours", self.hours, "give the job a deadline")
        targets.hours(
            "wait_hours", self.wait_hours or None, "give the hours that the job may wait for a node"
        )
        targets.whole("gpus", self.gpus, 0, 64, "give the GPUs of one node")
        targets.whole("nodes", self.nodes, 1, 10_000, "give the number of pods")
        targets.whole("boxes", self.boxes, 1, 1000, "give the pods that share the cells")
        for field, high in (
            ("shm_gb", 100_000),
            ("cpus", 4096),
            ("memory_gb", 100_000),
            ("backoff_limit", 1000),
        ):
            targets.whole(field, getattr(self, field), 0, high, "give it for one node, or 0")
        for field in ("claim", "secret", "pull_secret", "priority_class"):
            if getattr(self, field):
                targets.matched(
                    field,
                    getattr(self, field),
                    _SUBDOMAIN,
                    "the name of an object: a-z, 0-9, '-' and '.'",
                    "write it as kubectl shows it",
                )
        if self.namespace:
            targets.matched(
                "namespace",
                self.namespace,
                _LABEL.replace("48", "61"),
                "1 to 63 of a-z, 0-9 and '-'",
                "look at `kubectl get namespaces`",
            )
        targets.matched(
            "mount",
            self.mount,
            _PATH,
            "an absolute path of letters, digits and . _ / -",
            "choose another folder",
        )
        if any(
            _inside(taken, self.mount) or _inside(self.mount, taken)
            for taken in (_SCRIPT_DIR, _SHM_DIR)
        ):
            raise targets.refuse(
                "mount",
                self.mount,
                f"a folder other than {_SCRIPT_DIR} and {_SHM_DIR}",
                "choose another folder",
            )
        _check_labels("node_selector", self.node_selector, "look at `kubectl get nodes -L NAME`")
        _check_labels("labels", self.labels, "write it as its reader wants it")
        for key, _ in self.labels:
            if key in _OUR_LABELS:
                raise targets.refuse("labels", key, "a label that isn't ours", "choose another")
        for key, value in self.annotations:
            targets.matched("annotations", key, _KEY, "an annotation's name", "look at its reader")
            if targets.encodable("annotations", value) > _MOST_ANNOTATION:
                most = f"at most {_MOST_ANNOTATION:,} bytes"
                raise targets.refuse("annotations", value, most, "shorten it")
        for key, amount in self.resources:
            if key in _SAID_ELSEWHERE:
                raise ValueError(f"resources: {key} is said by {_SAID_ELSEWHERE[key]}; set that")
            do = "look at the Allocatable of `kubectl describe node`"
            targets.matched("resources", key, _KEY, "the name of a resource", do)
            targets.matched("resources", amount, _AMOUNT, "an amount such as 1 or 20Gi", do)


def _check_labels(field: str, labels: tuple[tuple[str, str], ...], do: str) -> None:
    for key, value in labels:
        targets.matched(field, key, _KEY, "a label's name", do)
        targets.matched(field, value, _VALUE, "a label's value", do)


def text(spec: Mapping[str, Any], options: Options, script: str) -> str:
    """The objects as YAML.

    Raises ValueError where the run folder isn't on the claim, and for a script over 1 MiB.
    """
    run_dir = spec["run_dir"]
    if options.claim and not _inside(run_dir, options.mount):
        raise targets.refuse(
            "run_dir",
            run_dir,
            f"a folder below {options.mount}, where the claim is mounted",
            f"use {options.mount}/runs/{options.name}",
        )
    if (options.nodes > 1) and not options.claim:
        raise targets.refuse(
            "claim", "", "a ReadWriteMany PersistentVolumeClaim, which all nodes see", "name one"
        )
    targets.check_script(script)
    if (size := targets.encodable("script", script)) > MIB:
        raise targets.refuse(
            "script",
            f"{size:,} bytes",
            f"at most {MIB:,} bytes, the limit of a ConfigMap",
            "put long values into files of the code",
        )
    documents = [_config_map(spec, options, script)]
    if options.nodes > 1:
        documents.append(_service(spec, options))
    return targets.dump([*documents, _job(spec, options)])


def _inside(path: str, folder: str) -> bool:
    parts = path.split("/")
    return ".." not in parts and (path.rstrip("/") + "/").startswith(folder.rstrip("/") + "/")


def _labels(spec: Mapping[str, Any]) -> dict:
    """The labels by which our own objects are found."""
    return {
        "app.kubernetes.io/managed-by": "remote-gpu-trainer",
        "remote-gpu-trainer/job": spec["job_sha"],
    }


def _metadata(spec: Mapping[str, Any], options: Options) -> dict:
    return {
        "name": options.name,
        **({"namespace": options.namespace} if options.namespace else {}),
        "labels": _labels(spec),
    }


def _with_own(metadata: dict, options: Options) -> dict:
    """The metadata of the Job or its pods, with the labels and annotations of the job."""
    found = {**metadata, "labels": {**metadata["labels"], **dict(options.labels)}}
    return {**found, "annotations": dict(options.annotations)} if options.annotations else found


def _config_map(spec: Mapping[str, Any], options: Options, script: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(spec, options),
        "data": {"run.sh": script},
    }


def _service(spec: Mapping[str, Any], options: Options) -> dict:
    service = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": options.name},
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(spec, options),
        "spec": service,
    }


def _job(spec: Mapping[str, Any], options: Options) -> dict:
    pod_seconds = math.ceil(options.hours * 3600) + grace(spec) if options.hours else None
    job: dict = {"backoffLimit": options.backoff_limit}
    if pod_seconds:
        job["activeDeadlineSeconds"] = pod_seconds + math.ceil(options.wait_hours * 3600)
    pods = max(options.nodes, options.boxes)
    if pods > 1:
        job |= {"completions": pods, "parallelism": pods, "completionMode": "Indexed"}
    if options.boxes > 1:
        # A part that fails ends none of the others.
        job["backoffLimitPerIndex"] = job.pop("backoffLimit")
    job["podFailurePolicy"] = {
        "rules": [
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
            {
                "action": "FailIndex" if options.boxes > 1 else "FailJob",
                "onExitCodes": {"containerName": _CONTAINER, "operator": "NotIn", "values": _AGAIN},
            },
        ]
    }
    pod: dict = {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace(spec)}
    if pod_seconds:
        pod["activeDeadlineSeconds"] = pod_seconds
    pod |= {"automountServiceAccountToken": False, "enableServiceLinks": False}
    if options.nodes > 1:
        pod["subdomain"] = options.name
    if options.node_selector:
        pod["nodeSelector"] = dict(sorted(options.node_selector))
    if options.host_network:
        # Without this policy a pod in the node's network can't resolve names of the cluster.
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if options.priority_class:
        pod["priorityClassName"] = options.priority_class
    if tolerations := _tolerations(options):
        pod["tolerations"] = tolerations
    if options.pull_secret:
        pod["imagePullSecrets"] = [{"name": options.pull_secret}]
    mounts, volumes = _storage(spec, options)
    pod["containers"] = [_container(spec, options, mounts)]
    pod["volumes"] = volumes
    job["template"] = {"metadata": _with_own({"labels": _labels(spec)}, options), "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _with_own(_metadata(spec, options), options),
        "spec": job,
    }


def _tolerations(options: Options) -> list[dict]:
    found = [toleration.as_dict() for toleration in options.tolerations]
    if options.gpus:
        found.insert(0, {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    return found


def grace(spec: Mapping[str, Any]) -> int:
    """Return the seconds from TERM to KILL, for a save and the last copy to the durable place."""
    return math.ceil(spec["save_seconds"]) + _FINAL_SYNC_SECONDS


def _container(spec: Mapping[str, Any], options: Options, mounts: list[dict]) -> dict:
    command = ["bash", f"{_SCRIPT_DIR}/run.sh", "queue" if spec["cells"] else "run"]
    if options.boxes > 1:
        part = f'"$((JOB_COMPLETION_INDEX + 1))/{options.boxes}"'
        command = ["bash", "-c", f"exec {' '.join(command)} --part {part}"]
    env = [
        _secret_variable(variable, options)
        for variable in sorted(spec["secret_variables"].values())
    ]
    if options.nodes > 1:
        command += ["--node-rank", "$(JOB_COMPLETION_INDEX)"]
        env.append({"name": "RGT_RENDEZVOUS", "value": f"{options.name}-0.{options.name}"})
    amounts = {
        "nvidia.com/gpu": options.gpus,
        "cpu": options.cpus,
        "memory": options.memory_gb and f"{options.memory_gb}Gi",
    }
    limits = {name: str(amount) for name, amount in amounts.items() if amount}
    container: dict = {"name": _CONTAINER, "image": options.image, "command": command}
    if env:
        container["env"] = env
    if limits or options.resources:
        container["resources"] = {"limits": {**limits, **dict(options.resources)}}
    if options.resources:
        container["resources"]["requests"] = dict(options.resources)
    container["volumeMounts"] = mounts
    return container


def _secret_variable(key: str, options: Options) -> dict:
    targets.matched(
        "secrets",
        key,
        r"[A-Za-z_][A-Za-z0-9_]{0,127}",
        "the name of a variable",
        "name it in letters, digits and '_'",
    )
    return {
        "name": key,
        "valueFrom": {"secretKeyRef": {"name": _secret(options, "secrets", key), "key": key}},
    }


def _secret(options: Options, field: str, value: str) -> str:
    if not options.secret:
        raise targets.refuse(
            field,
            value,
            "the name of the Secret that holds it",
            "set `secret`, and make it with `kubectl create secret generic`",
        )
    return options.secret


def _storage(spec: Mapping[str, Any], options: Options) -> tuple[list[dict], list[dict]]:
    """The container's mounts and the pod's volumes."""
    shm = {"medium": "Memory", **({"sizeLimit": f"{options.shm_gb}Gi"} if options.shm_gb else {})}
    mounts = [
        {"name": "script", "mountPath": _SCRIPT_DIR, "readOnly": True},
        {"name": "shm", "mountPath": _SHM_DIR},
    ]
    volumes = [
        {"name": "script", "configMap": {"name": options.name}},
        {"name": "shm", "emptyDir": shm},
    ]
    if options.claim:
        mounts.append({"name": "work", "mountPath": options.mount})
        volumes.append({"name": "work", "persistentVolumeClaim": {"claimName": options.claim}})
    items = []
    for key, path in sorted(spec["secret_files"].items()):
        targets.matched(
            "secrets",
            key,
            r"[A-Za-z_][A-Za-z0-9_]{0,127}",
            "the name of a variable",
            "name it in letters, digits and '_'",
        )
        targets.matched(
            "secrets",
            path,
            _PATH,
            "an absolute path in the pod, of letters, digits and . _ / -",
            f"use /secrets/{key}",
        )
        mounts.append({"name": "secrets", "mountPath": path, "subPath": key, "readOnly": True})
        items.append({"key": key, "path": key})
    if items:
        secret = {
            "secretName": _secret(options, "secrets", items[0]["key"]),
            "defaultMode": 0o400,
            "items": items,
        }
        volumes.append({"name": "secrets", "secret": secret})
    return mounts, volumes
