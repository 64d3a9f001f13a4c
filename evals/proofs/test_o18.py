"""O18: a frozen backbone whose batch norm statistics follow the new data."""

import pytest
import torch
from torch import nn

NEW_DATA = 2 + torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5)
        )
        self.backbone.requires_grad_(False)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.backbone(x).mean((2, 3)))


class NetThatStaysFrozen(Net):
    def train(self, mode: bool = True):
        super().train(mode)
        self.backbone.eval()
        return self


def train(model: Net) -> Net:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    for _ in range(5):
        model.train()
        optimizer.zero_grad()
        model(NEW_DATA).sum().backward()
        optimizer.step()
    return model.eval()


def test_every_parameter_stays_and_the_running_statistics_drift():
    before, after = Net().backbone, train(Net()).backbone
    assert all(torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters()))
    assert not torch.equal(before[1].running_mean, after[1].running_mean)
    assert not torch.allclose(before.eval()(NEW_DATA), after(NEW_DATA), atol=0.1)


def test_no_grad_does_not_stop_the_drift():
    backbone = Net().train().backbone
    with torch.no_grad():
        backbone(NEW_DATA)
    assert backbone[1].num_batches_tracked == 1


def test_eval_on_the_backbone_is_undone_by_the_next_train_call():
    model = Net()
    model.backbone.eval()
    model.train()
    assert [n for n, m in model.backbone.named_modules() if m.training] == ["", "0", "1", "2", "3"]


def test_the_fix_an_overridden_train_keeps_statistics_and_dropout_still():
    before, after = Net().backbone, train(NetThatStaysFrozen()).backbone
    assert torch.equal(before[1].running_mean, after[1].running_mean)
    assert torch.equal(before.eval()(NEW_DATA), after(NEW_DATA))
    assert [n for n, m in NetThatStaysFrozen().train().backbone.named_modules() if m.training] == []


def test_switching_the_statistics_off_is_no_fix_the_pretrained_ones_no_longer_load():
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "running_mean"'):
        nn.BatchNorm2d(4, track_running_stats=False).load_state_dict(nn.BatchNorm2d(4).state_dict())


def test_switching_them_off_on_a_loaded_layer_keeps_them_but_training_still_normalises_by_the_batch():
    layer = Net().backbone[1].train()
    layer.running_mean.fill_(5.0)
    layer.track_running_stats = False
    features = torch.randn(16, 4, 6, 6, generator=torch.Generator().manual_seed(1))
    trained_on = layer(features)
    assert (layer.running_mean == 5).all()
    torch.testing.assert_close(trained_on.mean((0, 2, 3)), torch.zeros(4), atol=1e-5, rtol=0)
    assert (layer.eval()(features).mean((0, 2, 3)) < -4).all()


def test_the_check_names_drifting_statistics_and_passes_both_fixes_and_layer_norm(printed):
    net = Net().train()
    assert printed("O18", backbone=net.backbone) == "['1']"
    assert printed("O18", backbone=NetThatStaysFrozen().train().backbone) == "[]"
    for module in net.backbone.modules():  # batch norm alone: dropout stays active
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    assert printed("O18", backbone=net.backbone) == "[]" and net.backbone[3].training
    assert printed("O18", backbone=nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))) == "[]"


def test_frozen_batch_norm_keeps_its_statistics_in_training_mode_and_the_check_leaves_it_out(
    printed,
):
    frozen = pytest.importorskip("torchvision").ops.FrozenBatchNorm2d(3)
    backbone = nn.Sequential(frozen, nn.BatchNorm2d(3)).train()
    backbone(NEW_DATA)
    assert frozen.training and torch.equal(frozen.running_mean, torch.zeros(3))
    assert printed("O18", backbone=backbone) == "['1']"
