"""U39: TensorBoard shows what lies below one folder. `Runs()` is what its page `/data/runs` lists."""

import pytest
from torch.utils.tensorboard import SummaryWriter

multiplexer = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_multiplexer")


def runs(folder) -> list:
    """The runs that a TensorBoard with this --logdir lists."""
    server = multiplexer.EventMultiplexer()
    server.AddRunsFromDirectory(str(folder))
    server.Reload()
    return sorted(server.Runs())


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Two folders: where the viewer was started, and where the job wrote its events."""
    (tmp_path / "home").mkdir()
    (tmp_path / "job").mkdir()
    monkeypatch.chdir(tmp_path / "job")
    with SummaryWriter() as writer:
        writer.add_scalar("loss", 2.3, 0)
    return tmp_path


def test_a_relative_folder_of_another_place_holds_no_run(trained, monkeypatch):
    monkeypatch.chdir(trained / "home")
    assert runs("runs") == []


def test_the_folder_of_the_events_and_any_above_it_holds_the_run(trained):
    [written] = (trained / "job/runs").iterdir()
    assert runs(trained / "job/runs") == [written.name]
    assert runs(trained) == [f"job/runs/{written.name}"]
