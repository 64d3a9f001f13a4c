"""NEB2: the check lists disks that no VM uses, and no disk that a VM reads or writes."""

LIST = "compute disk list --parent-id PROJECT_ID --all --format json"


def disk(number, **status):
    """As in disk.proto: read_write_attachment is an id, read_only_attachments a list of ids."""
    return {"metadata": {"id": number, "name": f"name-{number}"}, "status": status}


def test_only_a_disk_of_no_vm_is_listed(provider, shell_of):
    line = shell_of("NEB2", "read_write_attachment")
    used = disk("boot", read_write_attachment="vm1")
    read = disk("data", read_only_attachments=["vm1", "vm2"])
    left = [disk("old", state="READY"), disk("older", read_write_attachment="")]
    provider.printing("nebius", {LIST: {"items": [used, read, *left]}})
    assert provider.run(line) == "old\tname-old\nolder\tname-older"
    provider.printing("nebius", {LIST: {"items": [used, read]}})
    assert provider.run(line) == ""


def test_a_project_without_disks_prints_nothing(provider, shell_of):
    provider.printing("nebius", {LIST: {}})
    assert provider.run(shell_of("NEB2", "read_write_attachment")) == ""
