"""C16: averaged weights after a resume."""

import copy
import re

import pytest
import torch
from check_code import shown, span
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def network(seed: int = 0):
    torch.manual_seed(seed)
    return nn.Linear(4, 4)


def averaged(model):
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))


def apart(a, b) -> float:
    return sum((x - y).abs().sum().item() for x, y in zip(a.parameters(), b.parameters()))


def noisy_steps(model, ema, steps: int) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for p in model.parameters():
            p.data += 0.1 * torch.randn(p.shape, generator=generator)
        ema.update_parameters(model)


@pytest.fixture
def trained():
    model = network()
    ema = averaged(model)
    noisy_steps(model, ema, 200)
    return model, ema, copy.deepcopy({"model": model.state_dict(), "ema": ema.state_dict()})


def test_left_out_it_starts_again_from_the_raw_weights(trained):
    model, ema, saved = trained
    new = network()
    new.load_state_dict(saved["model"])
    again = averaged(new)
    assert apart(again.module, model) == 0 and apart(again.module, ema.module) > 1
    assert again.n_averaged == 0


def test_built_before_the_weights_are_loaded_it_evaluates_a_random_network(trained):
    _, _, saved = trained
    new = network(seed=7)
    again = averaged(new)
    new.load_state_dict(saved["model"])
    assert apart(again.module, network(seed=7)) == 0


def test_without_its_counter_the_first_update_throws_the_average_away(trained):
    _, ema, saved = trained
    new = network()
    new.load_state_dict(saved["model"])
    again = averaged(new)
    again.module.load_state_dict(
        {name[7:]: value for name, value in saved["ema"].items() if name.startswith("module.")}
    )
    assert apart(again.module, ema.module) == 0
    again.update_parameters(new)
    assert apart(again.module, new) == 0


def test_saved_and_loaded_as_a_whole_it_continues(trained):
    model, ema, saved = trained
    new = network()
    new.load_state_dict(saved["model"])
    again = averaged(new)
    again.load_state_dict(saved["ema"])
    assert apart(again.module, ema.module) == 0 and again.n_averaged == 200
    noisy_steps(model, ema, 5)
    noisy_steps(new, again, 5)
    assert apart(again.module, ema.module) == 0


@pytest.mark.filterwarnings("ignore")
def test_lightning_stores_the_average_as_state_dict_and_the_raw_weights_beside_it(tmp_path):
    pl = pytest.importorskip("lightning.pytorch")
    callbacks = pytest.importorskip("lightning.pytorch.callbacks")
    if not hasattr(callbacks, "EMAWeightAveraging"):
        pytest.skip("Lightning 2.6 brought it")

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 1)

        def training_step(self, batch, _):
            return self.layer(batch.float().view(-1, 1)).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    kept = callbacks.ModelCheckpoint(tmp_path, filename="end")
    trainer = pl.Trainer(
        default_root_dir=str(tmp_path),
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=1,
        callbacks=[kept, callbacks.EMAWeightAveraging(decay=0.9)],
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(list(range(10)), batch_size=2))
    state = torch.load(tmp_path / "end.ckpt", weights_only=False)
    assert not torch.equal(
        state["state_dict"]["layer.weight"], state["current_model_state"]["layer.weight"]
    )


def test_the_check_tells_a_fresh_average_a_random_one_and_a_restored_one_apart(trained):
    _, _, saved = trained

    def told(made_before: bool, restored: bool):
        new = network(seed=7)
        if made_before:
            ema = averaged(new)
        new.load_state_dict(saved["model"])
        if not made_before:
            ema = averaged(new)
        if restored:
            ema.load_state_dict(saved["ema"])
        apart, count = shown(span("C16", "n_averaged"), ema=ema, model=new).split(" ", 1)
        return float(apart), int(re.search(r"\d+", count)[0])

    assert told(made_before=False, restored=False) == (0.0, 0)
    random, restored = told(made_before=True, restored=False), told(False, restored=True)
    assert random[1] == 0 and random[0] > 1
    assert restored[1] == 200 and restored[0] > 1
