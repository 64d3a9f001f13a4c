"""O21: LoRA adapters that sit on no layer, and a head that is not saved. Needs peft."""

import pytest
import torch
from torch import nn

peft = pytest.importorskip("peft")


class Net(nn.Module):
    def __init__(self, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.query = nn.Linear(4, 4)
        self.value = nn.Linear(4, 4)
        self.my_head = nn.Linear(4, 2)

    def forward(self, x):
        return self.my_head(self.value(self.query(x)))


def adapt(**config):
    return peft.get_peft_model(Net(), peft.LoraConfig(**config))


def trainable(model) -> set[str]:
    return {n for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("names", [["q_proj", "v_proj"], ".*q_proj"])
def test_names_that_match_nothing_stop_with_the_signature(says, names):
    with pytest.raises(ValueError) as error:
        adapt(target_modules=names)
    says("O21", str(error.value))


def test_no_names_for_an_unknown_architecture_stop_with_the_signature(says):
    with pytest.raises(ValueError) as error:
        adapt()
    says("O21", str(error.value))


def test_a_name_that_matches_nothing_is_dropped_silently_while_another_matches():
    half, whole = (
        adapt(target_modules=["query", "v_proj"]),
        adapt(target_modules=["query", "value"]),
    )
    assert not any("value" in n for n in trainable(half))
    assert len(trainable(whole)) == 2 * len(trainable(half))


def test_a_new_head_is_neither_trained_nor_saved(tmp_path):
    model = adapt(target_modules=["query", "value"])
    assert not any("my_head" in n for n in trainable(model))
    model.get_base_model().my_head.requires_grad_(True)  # trained by hand, still not saved
    nn.init.constant_(model.get_base_model().my_head.weight, 7.0)
    model.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(Net(seed=1), tmp_path)
    assert torch.equal(again.get_base_model().my_head.weight, Net(seed=1).my_head.weight)


def test_the_fix_modules_to_save_trains_saves_and_restores_the_head(tmp_path):
    model = adapt(target_modules=["query", "value"], modules_to_save=["my_head"])
    assert any("my_head" in n for n in trainable(model))
    x = torch.randn(3, 4)
    for p in model.parameters():
        if p.requires_grad:
            nn.init.normal_(p)
    model.save_pretrained(tmp_path)
    other_head = Net(seed=1)
    other_head.load_state_dict(
        {k: v for k, v in Net().state_dict().items() if "my_head" not in k}, strict=False
    )
    torch.testing.assert_close(peft.PeftModel.from_pretrained(other_head, tmp_path)(x), model(x))


def test_all_linear_wraps_the_head_of_ones_own_model_and_saves_its_base_only_when_it_is_listed():
    alone = adapt(target_modules="all-linear")
    assert any("my_head.lora_A" in n for n in trainable(alone))
    listed = adapt(target_modules="all-linear", modules_to_save=["my_head"])
    assert not any("my_head.lora_A" in n for n in trainable(listed))
    assert "base_model.model.my_head.weight" in peft.get_peft_model_state_dict(listed)
    assert not any(n.endswith("my_head.weight") for n in peft.get_peft_model_state_dict(alone))


def test_a_wrong_name_in_modules_to_save_is_dropped_silently():
    wrong = adapt(target_modules=["query"], modules_to_save=["score"])
    assert trainable(wrong) == trainable(adapt(target_modules=["query"]))


def test_a_loaded_adapter_has_nothing_to_train_until_is_trainable_is_given(says, tmp_path, capsys):
    adapt(target_modules=["query"]).save_pretrained(tmp_path)
    peft.PeftModel.from_pretrained(Net(), tmp_path).print_trainable_parameters()
    says("O21", capsys.readouterr().out)
    model = peft.PeftModel.from_pretrained(Net(), tmp_path, is_trainable=True)
    assert len(trainable(model)) == 2


def test_the_check_shows_what_was_wrapped_and_what_was_left_out(printed, tmp_path):
    right = printed("O21", model=adapt(target_modules=["query"], modules_to_save=["my_head"]))
    assert all(part in right for part in ("query.lora_A", "query.lora_B", "modules_to_save"))
    half = printed("O21", model=adapt(target_modules=["query", "v_proj"]))
    assert "lora_A" in half and "value" not in half and "my_head" not in half
    adapt(target_modules=["query"]).save_pretrained(tmp_path)
    assert printed("O21", model=peft.PeftModel.from_pretrained(Net(), tmp_path)) == "[]"
