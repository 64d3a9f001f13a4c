"""O5: dropout and batch norm in the wrong mode."""

import re

import torch
from remote_gpu_trainer.catalogue import bundle
from torch import nn
from torch.nn.functional import dropout
from torch.optim.swa_utils import update_bn


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)
    )


def test_evaluation_in_training_mode_is_random_and_depends_on_the_batch():
    model, x = network(), torch.randn(16, 4)
    with torch.no_grad():
        assert not torch.equal(model(x), model(x))
        model[3].eval()  # dropout off, batch norm still in training mode
        assert not torch.allclose(model(x)[:4], model(x[:4]))


def test_evaluation_in_training_mode_writes_the_data_into_the_running_statistics():
    model = network()
    before = model[1].running_mean.clone()
    with torch.no_grad():  # stops gradients, not batch norm
        model(torch.randn(16, 4) + 3)
    assert not torch.equal(model[1].running_mean, before)


def test_evaluation_mode_is_repeatable_and_leaves_the_statistics_alone():
    model, x = network().eval(), torch.randn(16, 4)
    before = model[1].running_mean.clone()
    with torch.no_grad():
        assert torch.equal(model(x), model(x))
        assert torch.allclose(model(x)[:4], model(x[:4]))
    assert torch.equal(model[1].running_mean, before)


def train(forget_train: bool) -> tuple[nn.Module, torch.Tensor]:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(64, 4) * 5 + 10
    y = (x[:, 0] > 10).long()
    for epoch in range(3):
        if not forget_train:
            model.train()
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        if epoch == 0:
            counted = model[1].num_batches_tracked.clone()
        model.eval()
    return model, counted


def test_a_forgotten_train_call_freezes_batch_norm_after_the_first_validation():
    model, after_one_epoch = train(forget_train=True)
    assert after_one_epoch == 20 and model[1].num_batches_tracked == 20
    model, _ = train(forget_train=False)
    assert model[1].num_batches_tracked == 60


def test_the_check_sees_a_part_that_was_switched_on_its_own():
    model = network()
    assert {m.training for m in model.modules()} == {True}
    assert {m.training for m in model.eval().modules()} == {False}
    model[1].train()
    assert {m.training for m in model.modules()} == {True, False}


def test_statistics_that_do_not_fit_spoil_evaluation_mode_until_they_are_measured_afresh():
    torch.manual_seed(0)
    model, data = nn.BatchNorm1d(4), torch.randn(8, 64, 4) * 5 + 10
    with torch.no_grad():
        model(data[0])  # one step only: the statistics are still near 0 and 1
        assert (model.eval()(data[1]) - model.train()(data[1])).abs().mean() > 1
        update_bn(data, model)
        assert (model.eval()(data[1]) - model.train()(data[1])).abs().mean() < 0.3


def test_functional_dropout_is_on_unless_told_otherwise():
    x = torch.ones(1000)
    assert (dropout(x, 0.5) == 0).any()
    assert torch.equal(dropout(x, 0.5, training=False), x)


def test_the_check_in_evaluation_sees_each_wrong_mode_and_passes_the_right_one(printed):
    x = torch.randn(16, 4)

    def checked(model):
        code = re.search(r"`(torch\.allclose\([^`]*)`", bundle.load().get("O5").check)[1]
        with torch.no_grad():
            return printed("O5", model=model), eval(code, {"torch": torch, "model": model, "x": x})

    assert checked(network()) == ("{True}", False)  # nobody called eval()
    half = network().eval()
    half[3].train()  # dropout alone
    assert checked(half) in {("{False, True}", False), ("{True, False}", False)}
    assert checked(network().eval()) == ("{False}", True)
