"""LAM2: the check shows in which region each filesystem lies, and whether an instance has it mounted."""

API = "cloud.lambda.ai/api/v1/file-systems"


def filesystem(region, used):
    """As in Lambda's API description, cut down."""
    at = {"name": region, "description": "USA"}
    path = "/lambda/nfs/runs"
    return {"id": "f1", "name": "runs", "mount_point": path, "is_in_use": used, "region": at}


def test_the_region_tells_a_filesystem_elsewhere_from_one_that_is_mounted(provider, shell_of):
    line = shell_of("LAM2", "file-systems")
    provider.answers[API] = {"data": [filesystem("us-west-1", False)]}
    assert provider.run(line).split("\t") == ["runs", "us-west-1", "/lambda/nfs/runs", "false"]
    provider.answers[API] = {"data": [filesystem("us-east-1", True)]}
    assert provider.run(line).split("\t") == ["runs", "us-east-1", "/lambda/nfs/runs", "true"]
