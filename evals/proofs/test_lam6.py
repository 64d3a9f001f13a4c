"""LAM6: the check lists each filesystem with its gigabytes, in use or not."""

API = "cloud.lambda.ai/api/v1/file-systems"


def test_the_check_lists_what_is_billed_and_nothing_once_it_is_deleted(provider, shell_of):
    line = shell_of("LAM6", "file-systems")
    left = {"id": "f1", "name": "runs", "region": {"name": "us-west-1"}, "is_in_use": False}
    provider.answers[API] = {"data": [left | {"bytes_used": 2_000_500_000_000}]}
    assert provider.run(line).split("\t") == ["f1", "runs", "us-west-1", "2000"]
    provider.answers[API] = {"data": []}
    assert provider.run(line) == ""
