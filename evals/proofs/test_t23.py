"""T23: when DDP sends its gradients, and how often. Eight layers of 0.25 MiB, two ranks."""

import pytest
from launch import run_ranks

SCRIPT = """
    import contextlib, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.profiler import profile
    dist.init_process_group("gloo")
    x = torch.ones(2, 256)

    def net():
        return torch.nn.Sequential(*(torch.nn.Linear(256, 256, bias=False) for _ in range(8)))

    for label, options in (("default", {}), ("given", {"bucket_cap_mb": 25}), ("one", {"bucket_cap_mb": 100}), ("small", {"bucket_cap_mb": 0.5})):
        model, order = DDP(net(), **options), []
        def hook(state, bucket):
            order.append("S")
            return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0])
        model.register_comm_hook(None, hook)
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(lambda p: order.append("g"))
        for _ in range(3):
            order.clear()
            model(x).sum().backward()
        print("order", label, "".join(order), flush=True)

    def accumulate(way):
        for i in range(4):
            quiet = model.no_sync() if i < 3 and way != "plain" else contextlib.nullcontext()
            with quiet if way == "whole" else contextlib.nullcontext():
                loss = model(x).sum()
                with quiet if way == "backward" else contextlib.nullcontext():
                    loss.backward()

    model = DDP(net())
    for _ in range(12):
        model(x).sum().backward()
    times = model._get_ddp_logging_data()
    print("times", times["avg_backward_comm_time"] > 0, times["avg_backward_compute_comm_overlap_time"] > 0, flush=True)
    for way in ("plain", "backward", "whole"):
        accumulate(way)
        with profile() as seen:
            accumulate(way)
        print("sent", way, sum(e.count for e in seen.key_averages() if e.key == "c10d::allreduce_"), flush=True)
    print("default find_unused", DDP(net()).find_unused_parameters, flush=True)
    DDP(net(), find_unused_parameters=True)(x).sum().backward()
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def printed():
    return run_ranks(SCRIPT, timeout=90).ranks[0]


def test_one_bucket_is_sent_after_the_last_gradient_and_smaller_ones_in_between(printed):
    assert "order one ggggggggS" in printed
    assert (
        "order default ggggSggggS" in printed
    )  # the first bucket holds 1 MiB whatever the default cap is
    assert "order small ggSggSggSggS" in printed
    assert (
        "order given ggggggggS" in printed
    )  # the default, given: now the first bucket holds 25 MiB as well


def test_without_no_sync_each_of_four_micro_batches_sends_two_buckets(printed):
    assert "sent plain 8" in printed


def test_no_sync_around_backward_alone_saves_nothing_and_around_both_a_quarter_is_left(printed):
    assert "sent backward 8" in printed
    assert "sent whole 2" in printed


def test_ddp_measures_the_exchange_and_its_overlap_itself(printed):
    assert "times True True" in printed


def test_the_search_for_unused_parameters_is_off_by_default_and_warns_where_it_finds_none(printed):
    assert "default find_unused False" in printed
    assert "did not find any unused parameters in the forward pass" in printed


@pytest.mark.parametrize("recompute, searches", [(False, True), (True, False)])
def test_the_trainer_searches_unless_activations_are_recomputed_or_it_is_told_not_to(
    recompute, searches, small_llama, tmp_path
):
    transformers = pytest.importorskip("transformers")

    def setting(**more):
        args = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none",
                                              activation_checkpointing=recompute, **more)  # fmt: skip
        trainer = transformers.Trainer(model=transformers.LlamaForCausalLM(small_llama), args=args)
        return trainer._build_accelerator_args()["kwargs_handlers"][0].find_unused_parameters

    assert setting() is searches
    assert setting(ddp_find_unused_parameters=False) is False


def test_the_trainer_searches_a_model_that_is_not_one_of_transformers_in_any_case(
    small_llama, tmp_path
):
    transformers, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")
    model = peft.get_peft_model(
        transformers.LlamaForCausalLM(small_llama),
        peft.LoraConfig(r=2, target_modules="all-linear"),
    )
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, report_to="none", activation_checkpointing=True
    )
    trainer = transformers.Trainer(model=model, args=args)
    assert trainer._build_accelerator_args()["kwargs_handlers"][0].find_unused_parameters


def test_deepspeed_overlaps_by_default_at_stage_3_alone():
    zero = pytest.importorskip("deepspeed.runtime.zero.config")
    assert [zero.DeepSpeedZeroConfig(stage=stage).overlap_comm for stage in (1, 2, 3)] == [
        False,
        False,
        True,
    ]
    assert zero.DeepSpeedZeroConfig(stage=2, overlap_comm=True).overlap_comm
