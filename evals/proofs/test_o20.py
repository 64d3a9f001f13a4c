"""O20: a checkpoint whose classifier has another number of classes."""

import pytest
import torch
from torch import nn


def model(classes: int) -> nn.Module:
    torch.manual_seed(classes)
    net = nn.Sequential()
    net.add_module("body", nn.Linear(4, 4))
    net.add_module("fc", nn.Linear(4, classes))
    return net


@pytest.mark.parametrize("strict", [True, False])
def test_another_shape_under_the_same_name_fails_whatever_strict_says(says, strict):
    with pytest.raises(RuntimeError) as error:
        model(3).load_state_dict(model(1000).state_dict(), strict=strict)
    says("O20", str(error.value))


def test_a_head_missing_from_the_checkpoint_is_what_strict_false_forgives():
    checkpoint = {k: v for k, v in model(1000).state_dict().items() if not k.startswith("fc.")}
    with pytest.raises(RuntimeError, match="Missing key"):
        model(3).load_state_dict(checkpoint)
    model(3).load_state_dict(checkpoint, strict=False)


def test_the_fix_loads_the_body_and_names_the_head_as_missing():
    source, target = model(1000), model(3)
    own, checkpoint = target.state_dict(), source.state_dict()
    for name in [n for n in checkpoint if n in own and own[n].shape != checkpoint[n].shape]:
        del checkpoint[name]
    missing, unexpected = target.load_state_dict(checkpoint, strict=False)
    assert missing == ["fc.weight", "fc.bias"] and unexpected == []
    assert torch.equal(source.body.weight, target.body.weight)


def test_transformers_stops_too_and_its_switch_loads_the_rest(says, tmp_path, caplog):
    transformers = pytest.importorskip("transformers")
    transformers.logging.enable_propagation()
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=5,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    with pytest.raises(RuntimeError) as error:
        transformers.BertForSequenceClassification.from_pretrained(tmp_path, num_labels=3)
    says("O20", str(error.value))
    says("O20", next(line for line in caplog.text.splitlines() if "classifier.weight" in line))
    loaded = transformers.BertForSequenceClassification.from_pretrained(
        tmp_path, num_labels=3, ignore_mismatched_sizes=True
    )
    assert loaded.classifier.weight.shape == (3, 16)


def test_the_check_names_the_head_alone_many_layers_or_nothing(printed):
    head = printed("O20", model=model(3), checkpoint=model(1000).state_dict())
    assert head == "[('fc.weight', (1000, 4), (3, 4)), ('fc.bias', (1000,), (3,))]"
    assert printed("O20", model=model(3), checkpoint=model(3).state_dict()) == "[]"
    wider = nn.Sequential()
    wider.add_module("body", nn.Linear(4, 8))
    wider.add_module("fc", nn.Linear(8, 3))
    assert "body.weight" in printed("O20", model=model(3), checkpoint=wider.state_dict())
