"""LAM3: the check lists every instance that still exists; a running one is billed, one that was terminated isn't."""

API = "cloud.lambda.ai/api/v1/instances"


def billed(provider, shell_of):
    rows = provider.run(shell_of("LAM3", "api/v1/instances")).splitlines()
    return [row.split("\t")[0] for row in rows if row.split("\t")[1] in ("active", "unhealthy")]


def test_a_box_that_was_only_powered_off_is_billed_and_one_that_ends_is_not(provider, shell_of):
    off = {"id": "i1", "status": "unhealthy", "ip": "198.51.100.2"}
    provider.answers[API] = {"data": [off]}
    assert billed(provider, shell_of) == ["i1"]
    for status in ("terminating", "terminated"):
        provider.answers[API] = {"data": [{"id": "i1", "status": status}]}
        assert billed(provider, shell_of) == []
    provider.answers[API] = {"data": []}
    assert billed(provider, shell_of) == []
