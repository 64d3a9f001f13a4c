"""U45: arguments that transformers 5 and Lightning 2 no longer take, and those that stand for them. Needs transformers and accelerate."""

import inspect

import pytest
import torch

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from check_code import span, typed
from line_model import DATA, Config, Line

pytestmark = pytest.mark.filterwarnings("ignore")

GONE = {
    "evaluation_strategy": "no",
    "warmup_ratio": 0.1,
    "logging_dir": "logs",
    "overwrite_output_dir": True,
    "no_cuda": True,
}
NOW = {"eval_strategy": "no", "warmup_steps": 0.1, "use_cpu": True}


def arguments(folder, **given):
    return transformers.TrainingArguments(
        str(folder),
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        **({"use_cpu": True} | given),
    )


def refused(call) -> str:
    with pytest.raises(TypeError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("name", GONE)
def test_an_argument_of_an_older_release_is_refused_with_the_signature(tmp_path, says, name):
    says("U45", refused(lambda: arguments(tmp_path, **{name: GONE[name]})))


def test_the_arguments_that_stand_for_them_are_taken(tmp_path):
    assert arguments(tmp_path, **NOW).eval_strategy == "no"


def test_warmup_steps_below_one_are_a_share_and_from_one_on_steps(tmp_path):
    assert arguments(tmp_path, warmup_steps=0.1).get_warmup_steps(200) == 20
    assert arguments(tmp_path, warmup_steps=1.0).get_warmup_steps(200) == 1


def test_trainer_takes_processing_class_in_place_of_tokenizer(tmp_path, says):
    model, given = Line(Config()), arguments(tmp_path)
    says("U45", refused(lambda: transformers.Trainer(model, given, tokenizer=None)))
    transformers.Trainer(model, given, processing_class=None)


def test_the_check_says_false_for_a_name_that_is_gone_and_true_for_one_that_is_there():
    for given, there in (
        ("t.Trainer tokenizer", "False"),
        ("t.Trainer processing_class", "True"),
        ("t.TrainingArguments evaluation_strategy", "False"),
        ("t.TrainingArguments eval_strategy", "True"),
    ):
        kind, name = given.split()
        code = span("U45", "inspect").replace("t.Trainer", kind).replace("'tokenizer'", f"'{name}'")
        assert typed(code) == f"{transformers.__version__} {there}"


def test_an_own_compute_loss_needs_room_for_new_arguments(tmp_path, says):
    class Old(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):
            return super().compute_loss(model, inputs, return_outputs)

    class New(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            return super().compute_loss(model, inputs, return_outputs, **kwargs)

    given = arguments(tmp_path, max_steps=2)
    says("U45", refused(Old(Line(Config()), given, train_dataset=DATA).train))
    assert New(Line(Config()), given, train_dataset=DATA).train().global_step == 2


def test_four_bits_are_asked_for_in_a_quantization_config(tmp_path, says):
    Line(Config()).save_pretrained(tmp_path)
    says("U45", refused(lambda: Line.from_pretrained(tmp_path, load_in_4bit=True)))
    assert "quantization_config" in inspect.getsource(transformers.PreTrainedModel.from_pretrained)
    assert transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16
    ).load_in_4bit


def test_a_name_that_moved_away_is_an_import_error(says):
    with pytest.raises(ImportError) as error:
        from transformers import AdamW  # noqa: F401
    says("U45", str(error.value))


def test_lightning_takes_devices_in_place_of_gpus(says):
    lightning = pytest.importorskip("lightning.pytorch")
    says("U45", refused(lambda: lightning.Trainer(gpus=1)))
    lightning.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
