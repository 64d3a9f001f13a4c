"""VAST13: two looks a minute apart show whether a new instance still makes progress."""

from vast_instance import instance

SHOW = "show instance ID --raw"


def look(provider, shell_of, message):
    provider.printing("vastai", {SHOW: instance(actual_status="loading", status_msg=message)})
    return provider.run(shell_of("VAST13", "status_msg"))


def test_a_pull_that_goes_on_changes_what_the_check_prints(provider, shell_of):
    first = look(provider, shell_of, "5d3b3b41: Pulling fs layer")
    assert '"actual_status": "loading"' in first and "Pulling" in first
    assert look(provider, shell_of, "5d3b3b41: Pull complete") != first
    assert look(provider, shell_of, "5d3b3b41: Pulling fs layer") == first
