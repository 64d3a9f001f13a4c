"""NEB1: a VM that recovers runs again after a shutdown from inside; one that was stopped says STOPPED."""

GET = "compute instance get --id INSTANCE_ID --format json"


def shown(provider, shell_of, spec, state):
    provider.printing("nebius", {GET: {"spec": spec, "status": {"state": state}}})
    return provider.run(shell_of("NEB1", "recovery_policy")).splitlines()


def test_the_policy_and_the_state_tell_a_recovered_vm_from_a_stopped_one(provider, shell_of):
    assert shown(provider, shell_of, {"recovery_policy": "RECOVER"}, "RUNNING") == [
        '"RECOVER"',
        '"RUNNING"',
    ]
    assert shown(provider, shell_of, {}, "RUNNING") == ["null", '"RUNNING"']
    assert shown(provider, shell_of, {"recovery_policy": "FAIL"}, "STOPPED") == [
        '"FAIL"',
        '"STOPPED"',
    ]
