"""RP9: the check prints the CUDA version of the Pod's host, to be held against the log's `cuda>=`."""

import pytest

API = "api.runpod.io/v2/pods/POD_ID"
LOG = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update"


@pytest.mark.parametrize(("version", "too_old"), [("12.4", True), ("12.8", False), ("13.0", False)])
def test_the_hosts_version_is_lower_than_the_logs_only_where_the_driver_is_too_old(
    provider, shell_of, says, version, too_old
):
    says("RP9", LOG)
    provider.answers[API] = {"id": "POD_ID", "cudaVersion": version, "cost": 0.69}
    shown = provider.run(shell_of("RP9", "cudaVersion"), RUNPOD_API_KEY="k")
    assert shown == f'"cudaVersion": "{version}"'
    host, asked = (
        tuple(int(part) for part in text.strip('", please update').split("."))
        for text in (shown.split(": ")[1], LOG.split("cuda>=")[1])
    )
    assert (host < asked) == too_old


def test_a_host_that_has_not_reported_shows_null(provider, shell_of):
    provider.answers[API] = {"cudaVersion": None}
    shown = provider.run(shell_of("RP9", "cudaVersion"), RUNPOD_API_KEY="k")
    assert shown == '"cudaVersion": null'
