"""LAM6: the check lists each filesystem with the GiB that it holds, in use or not, also one without a figure yet."""

API = "cloud.lambda.ai/api/v1/file-systems"


def test_the_check_lists_what_is_billed_and_nothing_once_it_is_deleted(provider, shell_of):
    line = shell_of("LAM6", "file-systems")
    left = {"id": "f1", "name": "runs", "region": {"name": "us-west-1"}, "is_in_use": False}
    new = left | {"id": "f2", "name": "new"}  # bytes_used may be missing
    provider.answers[API] = {"data": [left | {"bytes_used": 2000 * 2**30 - 9}, new]}
    assert [row.split("\t") for row in provider.run(line).splitlines()] == [
        ["f1", "runs", "us-west-1", "2000"],
        ["f2", "new", "us-west-1", "0"],
    ]
    provider.answers[API] = {"data": []}
    assert provider.run(line) == ""
