"""RP4: the check names the Pods that are stopped and billed, and takes nothing else for a Pod."""

API = "api.runpod.io/v2/pods?includeClusterPods=true"


def pod(number, status, **mounts):
    """A Pod as Runpod's description of REST v2 has it, cut down."""
    gpu = {"id": "NVIDIA GeForce RTX 4090", "count": 1}
    return {"id": number, "name": "train", "status": status, "gpu": gpu, "mounts": mounts}


def test_the_check_lists_each_pod_with_its_state_and_no_gpu_type(provider, shell_of):
    line = shell_of("RP4", "includeClusterPods")
    provider.answers[API] = {"pods": [pod("parked1", "EXITED"), pod("busy1", "RUNNING")]}
    assert provider.run(line, RUNPOD_API_KEY="k") == "parked1 EXITED\nbusy1 RUNNING"


def test_without_a_stopped_pod_the_check_names_none(provider, shell_of):
    line = shell_of("RP4", "includeClusterPods")
    provider.answers[API] = {"pods": [pod("busy1", "RUNNING")]}
    assert "EXITED" not in provider.run(line, RUNPOD_API_KEY="k")


def test_a_stopped_pod_on_a_network_volume_is_told_from_one_with_a_volume_disk(provider, shell_of):
    line = shell_of("RP4", "includeClusterPods")
    disk = pod("parked1", "EXITED", persistent={"size": 20, "path": "/workspace"}, network=[])
    volume = pod("parked2", "EXITED", network=[{"volumeId": "v1", "path": "/workspace"}])
    provider.answers[API] = {"pods": [disk, volume]}
    shown = provider.run(line, RUNPOD_API_KEY="k").splitlines()
    assert shown == ["parked1 EXITED persistent", "parked2 EXITED network"]
