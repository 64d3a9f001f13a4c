"""LAM3: the check lists every instance that still exists; only one that was terminated isn't billed."""

API = "cloud.lambda.ai/api/v1/instances"


def billed(provider, shell_of):
    rows = provider.run(shell_of("LAM3", "api/v1/instances")).splitlines()
    return [row.split("\t")[0] for row in rows if "terminated" not in row]


def test_each_line_that_is_not_terminated_is_billed(provider, shell_of):
    off = {"id": "i1", "status": "unhealthy", "ip": "198.51.100.2"}
    provider.answers[API] = {"data": [off]}
    assert billed(provider, shell_of) == ["i1"]
    provider.answers[API] = {"data": [{"id": "i1", "status": "terminated"}]}
    assert billed(provider, shell_of) == []
    provider.answers[API] = {"data": []}
    assert billed(provider, shell_of) == []
