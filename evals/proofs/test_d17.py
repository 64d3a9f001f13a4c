"""D17: which of two places for a DeepSpeed setting counts."""

import pytest
from check_code import span
from launch import run_ranks

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


ENGINES = """
    import os
    os.environ["DS_ACCELERATOR"] = "cpu"
    import logging, torch, deepspeed
    logging.disable(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it compiles one
    deepspeed.init_distributed(dist_backend="gloo")
    for section in ("zero_optimization", "zero_optimisation"):
        net = torch.nn.Linear(4, 4)
        config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
                  section: {"stage": 1}, "bf16": {"enabled": True}, "gradient_clipping": 0.5,
                  "zero_allow_untested_optimizer": True}
        engine, *_ = deepspeed.initialize(
            model=net, optimizer=torch.optim.SGD(net.parameters(), 0.1), config=config)
        print("ENGINE", end=" ")
        {engine}
"""


def test_the_lines_of_the_check_show_what_runs_in_place_of_what_was_written():
    script = ENGINES.replace("{engine}", span("D17", "engine.zero_optimization_stage"))
    finished = run_ranks(script, nproc=1, timeout=60)
    found = [line for line in finished.output.splitlines() if line.startswith("ENGINE ")]
    assert found == [
        "ENGINE 1 4 2 0.5 True [0.1]",
        "ENGINE 0 4 2 0.5 True [0.1]",
    ], finished.output


@pytest.mark.parametrize(("norm", "refused"), [(0.0, False), (1.0, True)])
def test_clipping_off_in_the_file_needs_the_trainers_norm_off_too(tmp_path, norm, refused):
    transformers = pytest.importorskip("transformers")
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        use_cpu=True,
        report_to=[],
        max_grad_norm=norm,
        deepspeed={"zero_optimization": {"stage": 2}, "gradient_clipping": 0.0},
    )
    if refused:
        with pytest.raises(ValueError, match="gradient_clipping=0.0 vs hf max_grad_norm=1.0"):
            arguments.hf_deepspeed_config.trainer_config_finalize(arguments, None, 10)
    else:
        arguments.hf_deepspeed_config.trainer_config_finalize(arguments, None, 10)
