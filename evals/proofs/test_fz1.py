"""FZ1: a folder whose real path lies outside `work` is lost at return, also where its name suggests otherwise."""

import pytest


@pytest.mark.parametrize(("linked", "kept"), [(True, True), (False, False)])
def test_the_real_path_tells_a_kept_folder_from_a_lost_one(provider, shell_of, linked, kept):
    home = provider.place / "home/featurize"
    (home / "work/outputs").mkdir(parents=True)
    if linked:
        (home / "outputs").symlink_to(home / "work/outputs")
    else:
        (home / "outputs").mkdir()
    line = shell_of("FZ1", "readlink").replace("OUTPUT_FOLDER", str(home / "outputs"))
    shown = provider.run(line).removeprefix(str(provider.place))
    assert shown.startswith("/home/featurize/work") == kept


def test_a_link_out_of_work_is_lost_too(provider, shell_of):
    home = provider.place / "home/featurize"
    (home / "outputs").mkdir(parents=True)
    (home / "work").mkdir()
    (home / "work/outputs").symlink_to("../outputs")
    line = shell_of("FZ1", "readlink").replace("OUTPUT_FOLDER", str(home / "work/outputs"))
    assert (
        not provider.run(line).removeprefix(str(provider.place)).startswith("/home/featurize/work")
    )
