"""PS3: the check names the place that a path lies on, also of a folder that is gone."""

import pytest


@pytest.mark.parametrize("gone", ["", "/deeper/still"])
@pytest.mark.parametrize(("folder", "place"), [("/dev/shm", "/dev/shm"), ("/etc", "/")])
def test_a_folder_on_a_mount_is_told_from_one_on_the_containers_own_disk(
    provider, shell_of, folder, place, gone
):
    line = shell_of("PS3", "findmnt").replace("/path/to/it", f"{folder}{gone}")
    # Where two mounts lie on one place, the last one is on top.
    assert provider.run(line).split()[-1] == place
