"""D17: which of two places for a DeepSpeed setting counts."""

import pytest

deepspeed = pytest.importorskip("deepspeed")
accelerate = pytest.importorskip("accelerate")


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")


def plugin(config, **settings):
    return accelerate.DeepSpeedPlugin(
        hf_ds_config={"zero_optimization": {"stage": 2}, **config}, **settings
    )


def test_a_value_in_the_file_wins_over_the_plugin_without_a_word():
    taken = plugin({"gradient_accumulation_steps": 1}, gradient_accumulation_steps=4, zero_stage=3)
    assert (taken.gradient_accumulation_steps, taken.zero_stage) == (1, 2)


def test_a_key_absent_from_the_file_means_one_step_not_the_plugins_four():
    assert plugin({}, gradient_accumulation_steps=4).gradient_accumulation_steps == 1


def test_auto_in_the_file_takes_the_plugins_value():
    taken = plugin(
        {"gradient_accumulation_steps": "auto", "zero_optimization": {"stage": "auto"}},
        gradient_accumulation_steps=4,
        zero_stage=3,
    )
    assert taken.deepspeed_config["gradient_accumulation_steps"] == 4
    assert taken.deepspeed_config["zero_optimization"]["stage"] == 3


def test_the_yaml_of_accelerate_may_not_set_what_the_file_sets(monkeypatch, says):
    monkeypatch.setenv("ACCELERATE_CONFIG_DS_FIELDS", "deepspeed_config_file,zero_stage")
    with pytest.raises(ValueError) as error:
        plugin({})
    says("D17", str(error.value))


def test_the_trainer_refuses_a_file_that_contradicts_its_arguments(tmp_path, says):
    transformers = pytest.importorskip("transformers")
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        use_cpu=True,
        report_to=[],
        gradient_accumulation_steps=4,
        deepspeed={"zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 1},
    )
    with pytest.raises(ValueError) as error:
        arguments.hf_deepspeed_config.trainer_config_finalize(arguments, None, 10)
    says("D17", str(error.value))


def test_three_batch_sizes_that_do_not_multiply_are_refused(says):
    with pytest.raises(AssertionError) as error:
        deepspeed.DeepSpeedConfig(
            {
                "train_batch_size": 32,
                "train_micro_batch_size_per_gpu": 4,
                "gradient_accumulation_steps": 4,
            }
        )
    says("D17", str(error.value))


def test_auto_means_nothing_to_deepspeed_alone():
    with pytest.raises(TypeError, match="'>' not supported between instances of 'str' and 'int'"):
        deepspeed.DeepSpeedConfig(
            {
                "train_batch_size": "auto",
                "train_micro_batch_size_per_gpu": "auto",
                "gradient_accumulation_steps": "auto",
            }
        )


def test_a_misspelt_section_is_taken_and_does_nothing():
    config = deepspeed.DeepSpeedConfig({"train_batch_size": 4, "zero_optimisation": {"stage": 3}})
    assert config.zero_optimization_stage == 0


def test_a_misspelt_key_inside_the_zero_section_is_refused():
    with pytest.raises(Exception, match="offload_optimzer"):
        deepspeed.DeepSpeedConfig(
            {"train_batch_size": 4, "zero_optimization": {"offload_optimzer": {"device": "cpu"}}}
        )


def test_clipping_is_on_although_nobody_set_it():
    pytest.importorskip("deepspeed", minversion="0.19.3")
    assert deepspeed.DeepSpeedConfig({"train_batch_size": 4}).gradient_clipping == 1.0
