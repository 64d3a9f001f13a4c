"""`rgt fit`: does training a model fit a GPU."""

import json
import re
from dataclasses import replace

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.fit.known_configs import known_config
from remote_gpu_trainer.fit.memory_levers import levers, plan
from remote_gpu_trainer.fit.model_config import model_of, read_config, weight_count
from remote_gpu_trainer.fit.training_memory import DOES_NOT_FIT, GIB, Margins, estimate, verdict
from remote_gpu_trainer.fit.training_run import Run
from remote_gpu_trainer.gpu_health.box_check.names import NAME_TABLE
from remote_gpu_trainer.logs.kernel.tables import rows_of
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.budget import tokens_of_json
from remote_gpu_trainer.platforms.cards import GPUS, SeveralCards, gpu_named
from remote_gpu_trainer.text import BadRequest

from evals.fit import page
from tests.conftest import ROOT, module

LLAMA = page.LLAMA3


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    return str(path)


def asked(capsys, *words: str) -> tuple[int, dict]:
    code = main(["fit", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def refused(capsys, *words: str) -> str:
    try:
        code = main(["fit", *words])
    except SystemExit as end:
        code = end.code
    told = capsys.readouterr()
    assert code == 2 and not told.out
    [line] = [line for line in told.err.splitlines() if line]
    assert re.fullmatch(r"error: .+; .+", line)
    return line


def test_sound_and_images_have_a_length_of_their_own(capsys, tmp_path):
    path = tmp_path / "config.json"

    def activations(config, *words):
        path.write_text(json.dumps(config))
        _, report = asked(capsys, str(path), "--batch", "64", *words)
        return next(line["arithmetic"] for line in report["lines"] if line["what"] == "activations")

    told = activations(known_config("openai/whisper-small").config)
    assert "64 × 448 tokens × (12 layers" in told and "64 × 1500 tokens × (12 layers" in told
    clip = known_config("openai/clip-vit-large-patch14").config
    told = activations(clip)
    assert "64 × 77 tokens × (12 layers" in told and "64 × 257 tokens × (24 layers" in told
    assert "--sequence is 78" in refused(capsys, str(path), "--sequence", "78")
    parts = {"text_config": {"num_attention_heads": 8}, "vision_config": {"patch_size": 16}}
    told = activations({**clip, **parts}, "--sequence", "20")
    assert "64 × 20 tokens" in told and "64 × 197 tokens" in told


# What was counted, and what others published.


def recorded(name: str) -> dict:
    return json.loads((ROOT / f"tests/records/{name}.json").read_text(encoding="utf-8"))


def test_a_tenth_of_the_runs_takes_what_the_record_says(campaign):
    module("torch", "pip install '.[proofs]'")
    module("transformers", "pip install '.[proofs]'")
    from evals.fit import runs

    record = campaign("fit")
    results = []
    for name in record.live(list(runs.RUNS)):
        plain = {"precision": "fp32", **runs.RUNS[name][2]}
        told = {"config": runs.config_of(name), "asked": plain, "counted": runs.measured(name)}
        results.append({"run": name, **told})
    known = {row["run"]: row for row in record.recorded(results)}
    assert list(known) == list(runs.RUNS)
    for row in results:
        assert row["counted"]["peak"] == pytest.approx(known[row["run"]]["counted"]["peak"], 0.02)
        assert row["asked"] == known[row["run"]]["asked"]


def test_every_estimate_is_within_15_percent_of_the_peak_that_was_counted(campaign):
    rows = page.compared(campaign("fit").recorded())
    assert len(rows) >= 12
    assert not {
        name: reckoned / counted
        for name, counted, reckoned in rows
        if abs(reckoned / counted - 1) > page.COUNTED
    }


def test_estimates_are_within_20_percent_of_figures_from_five_sources():
    rows = page.published()
    close = [row for row in rows if abs(row[4] / row[3] - 1) <= page.PUBLISHED]
    assert len({source for _, source, _, _, _ in close}) >= 5
    assert len(rows) - len(close) == 1  # the page says why


def test_the_page_is_up_to_date(campaign, request):
    place = ROOT / "evals/FIT.md"
    records = (recorded(f"fit_{name}") for name in ("limits", "rows", "before"))
    text = page.page(campaign("fit").recorded(), *records)
    if request.config.getoption("--update") or request.config.getoption("--record"):
        place.write_text(text, encoding="utf-8")
    assert place.read_text(encoding="utf-8") == text, "run pytest --update tests/fit/test_fit.py"


# The arithmetic.


def test_a_4_bit_base_with_all_else_in_bf16_takes_no_byte_of_fp32():
    model = model_of(LLAMA)
    run = Run(precision="4bit-bf16", lora=16, checkpointing=True)
    lines = {line.what: line for line in estimate(model, run).lines}
    tables = model.total() - model.linear()
    assert lines["weights"].size == pytest.approx(2 * tables + 0.515869 * model.linear(), rel=1e-5)
    trained = lines["adapters"].size / 2
    assert lines["optimizer state"].size == 4 * trained  # two moments in bf16, as torch keeps them
    assert estimate(model, run).peak < estimate(model, replace(run, precision="4bit")).peak


def test_weights_gradients_and_adam_take_16_bytes_a_weight():
    model = model_of(LLAMA)
    assert model.total() == pytest.approx(8.03e9, rel=0.001)
    for precision, each in (("fp32", 16), ("bf16-mixed", 16), ("bf16", 8)):
        assert estimate(model, Run(precision=precision)).states == each * model.total()


def test_sharding_divides_what_it_says():
    model = model_of(LLAMA)
    per = {
        kind: estimate(model, Run(sharding=kind, gpus=8)).states / model.total()
        for kind in ("ddp", "zero1", "zero2", "zero3", "fsdp")
    }
    assert per == pytest.approx(
        {"ddp": 16, "zero1": 4 + 12 / 8, "zero2": 2 + 14 / 8, "zero3": 2, "fsdp": 2}
    )


@pytest.mark.parametrize("gpus, copies", [(1, 0), (2, 1), (8, 1)])
def test_only_several_gpus_of_ddp_exchange_a_second_copy_of_the_gradients(gpus, copies):
    found = estimate(model_of(LLAMA), Run(sharding="ddp", gpus=gpus)).lines
    lines = [line for line in found if line.what == "buckets of DDP"]
    assert [line.size for line in lines] == [4 * model_of(LLAMA).total()] * copies


def test_smaller_batches_of_a_plan_add_up_to_the_batch_that_was_asked_for():
    """Gradients that wait for the next batch take memory, so the promise has to count them."""
    model, run = model_of(LLAMA), Run(32, 4096, "bf16", attention="sdpa", chunked_loss=True)
    whole = replace(run, checkpointing=True, batch=1, accumulation=32)
    alone = replace(whole, accumulation=1)
    assert estimate(model, whole).peak > estimate(model, alone).peak
    options, peak = plan(model, run, estimate(model, whole).peak / GIB + 1.1)
    assert options.endswith("--batch 1") and peak == estimate(model, whole).peak


def reckoned(how: str) -> float:
    """The bytes to which the arithmetic of a line leads."""
    units = {"k": "e3", "M": "e6", "B": "e9", "T": "e12", "": ""}
    how = re.sub(r": (all|no) experts.*|,", "", how)
    numbers = re.sub(r"(?<=\d)([kMBT]?)\b", lambda unit: units[unit[1]], how)
    return eval(re.sub(r"\b[a-zA-Z]\w*|:", " ", numbers).replace("×", "*"))


EXPERTS = {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
MODELS = {"dense": LLAMA, "tied": {**LLAMA, "tie_word_embeddings": True}, "experts": EXPERTS}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("options", [
    {}, {"checkpointing": True, "batch": 64}, {"precision": "bf16", "chunked_loss": True, "batch": 8},
    {"precision": "4bit", "lora": 8}, {"precision": "8bit", "lora": 8, "sharding": "fsdp", "gpus": 2},
    {"sharding": "zero1", "gpus": 2}, {"sharding": "zero2", "gpus": 4, "accumulation": 2},
    {"sharding": "zero3", "gpus": 4, "batch": 16, "attention": "eager"},
    {"sharding": "ddp", "gpus": 2, "precision": "fp32"}, {"sharding": "fsdp", "gpus": 8, "batch": 9},
    {"optimizer": "muon"}, {"optimizer": "adafactor", "lora": 16, "targets": "qv"},
    {"optimizer": "adamw-foreach", "sharding": "zero3", "gpus": 4}, {"offload": True},
])  # fmt: skip
def test_the_arithmetic_of_a_line_gives_its_bytes_and_the_lines_the_peak(model, options):
    found = estimate(model_of(model), Run(**options))
    told = [line for line in found.lines if " × " in line.how]
    assert len(told) > 1 and {line.what: reckoned(line.how) for line in told} == pytest.approx(
        {line.what: line.size for line in told},
        rel=2e-3,  # 0.562 B is 9/16
    )
    assert sum(line.size for line in found.lines) == pytest.approx(found.peak)


def test_the_lines_add_up_to_the_peak(config, capsys):
    for words in ((), ("--checkpointing",), ("--lora", "8"), ("--attention", "eager")):
        _, told = asked(capsys, config, "--batch", "2", *words)
        together = sum(line["gib"] for line in told["lines"])
        assert together == pytest.approx(told["peak_gib"], abs=0.05)
        assert told["need_gib"] == pytest.approx(told["peak_gib"] + told["context_gib"], abs=0.02)


@pytest.mark.parametrize(
    "words",
    [
        ("--batch", "4", "--sequence", "4096"),
        ("--batch", "4", "--precision", "fp32", "--attention", "eager"),
        ("--batch", "2", "--precision", "4bit", "--lora", "16"),
        ("--batch", "2", "--sharding", "ddp", "--gpus", "4"),
        ("--batch", "8", "--optimizer", "sgd-momentum", "--checkpointing"),
    ],
)
def test_a_change_saves_what_its_options_save(config, capsys, words):
    _, now = asked(capsys, config, *words)
    assert now["levers"]
    for lever in now["levers"]:
        _, then = asked(capsys, config, *words, *lever["options"].split())
        assert then["need_gib"] == pytest.approx(lever["need_gib"], abs=0.02)
        assert now["need_gib"] - then["need_gib"] == pytest.approx(lever["saves_gib"], abs=0.03)


def test_changes_together_fit_as_promised(config, capsys):
    words = (config, "--batch", "4", "--sequence", "4096", "--gpu", "H100-80GB")
    code, told = asked(capsys, *words)
    assert (code, told["verdict"]) == (1, "doesn't fit")
    code, then = asked(capsys, *words, *told["together"]["options"].split())
    assert then["need_gib"] == told["together"]["need_gib"] <= told["gpu"]["gib"]
    assert (code, then["verdict"]) == (2, "tight")


def test_each_change_names_an_entry_of_the_catalogue():
    entries = bundle.load_cache()
    model = model_of(LLAMA)
    found = levers(model, Run(8, 4096, "fp32"))
    found += levers(model, Run(8, 4096, attention="eager"))
    found += levers(model, Run(8, 4096))
    assert {lever.entry for lever in found} >= {"M5", "M6", "M7", "M9", "M10", "M11", "M12", "M13"}
    assert not [lever for lever in found if lever.entry not in entries]


# Cards.


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("H100-80GB", "H100-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("4090", "RTX-4090"),
        ("Tesla T4", "T4"),
        ("l40s", "L40S"),
        ("NVIDIA L40", "L40"),
    ],
)
def test_a_card_is_known_by_its_names(name, card):
    assert gpu_named(name) == (card, GPUS[card])


def test_a_card_has_less_than_its_name_promises():
    for name, gib in GPUS.items():
        promised = re.search(r"(\d+)GB", name)
        assert not promised or 0.9 * int(promised[1]) < gib < int(promised[1]), name


def test_a_name_of_several_cards_is_asked_back(capsys, config):
    with pytest.raises(SeveralCards):
        gpu_named("A100")
    assert "A100-40GB" in refused(capsys, config, "--gpu", "A100")


def test_a_card_of_the_box_check_and_a_number_are_taken_too(config, capsys):
    _, told = asked(capsys, config, "--gpu", "NVIDIA RTX A4000")
    assert told["gpu"] == {"name": "RTX A4000", "gib": 14.7}
    assert asked(capsys, config, "--gpu", "500")[0] == 0
    assert asked(capsys, config, "--gpu", "24GiB")[1]["gpu"]["gib"] == 24.0
    assert "H200" in refused(capsys, config, "--gpu", "Voodoo 2")


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("H100", ("H100-80GB", 79.10)),
        ("H100 SXM5", ("H100-80GB", 79.10)),
        ("H100-SXM", ("H100-80GB", 79.10)),
        ("H100 PCIe", ("H100 PCIe", 73.6)),
        ("RTX4090", ("RTX-4090", 23.52)),
        ("4090 D", ("RTX 4090 D", 22.1)),
        ("MI300X", ("MI300X", 176.6)),
        ("RTX PRO 6000", ("RTX PRO 6000", 88.3)),
        ("RTX 3060 12GB", ("RTX 3060 12GB", 11.0)),
        ("RTX 3060 8GB", ("RTX 3060 8GB", 7.4)),
        ("GH200 480GB", ("GH200 96GB", 88.3)),
    ],
)
def test_a_card_is_known_by_the_names_that_health_expects(config, capsys, name, card):
    _, told = asked(capsys, config, "--gpu", name)
    assert (told["gpu"]["name"], told["gpu"]["gib"]) == card


def test_every_name_of_healths_table_is_known_or_asked_for_its_memory(config, capsys):
    known = 0
    for sku, *_ in rows_of(NAME_TABLE):
        code = main(["fit", config, "--gpu", sku, "--json"])
        told = capsys.readouterr()
        known += not told.err
        choice = f"{sku[:40]!r} names several cards"
        assert not told.err or f"the memory of {sku[:40]!r}" in told.err or choice in told.err
        assert not told.err or code == 2
    assert known > 100


def test_a_card_with_less_memory_under_a_like_name_isnt_taken_for_it(config, capsys):
    assert "GiB" in refused(capsys, config, "--gpu", "RTX 4090 Laptop GPU")
    assert "did you mean H100?" in refused(capsys, config, "--gpu", "H10O")


# Requests that can't be used.


def test_without_a_config_the_shape_comes_from_options(capsys, config):
    shape = ("--layers", "32", "--hidden", "4096", "--heads", "32", "--kv-heads", "8")
    _, told = asked(capsys, *shape, "--intermediate", "14336", "--vocabulary", "128256")
    assert told["peak_gib"] == asked(capsys, config)[1]["peak_gib"]
    _, named = asked(capsys, *shape, "--vocabulary", "1000", "--parameters", "7B")
    assert named["weights"] == 7_000_000_000
    assert "--layers" in refused(capsys)
    assert "--vocabulary" in refused(capsys, *shape)


@pytest.mark.parametrize(
    "words",
    [
        ("--batch", "0"),
        ("--sequence", "-1"),
        ("--batch", "99999999999"),
        ("--precision", "4bit"),
        ("--precision", "4bit-bf16"),
        ("--precision", "int3"),
        ("--sharding", "fsdp"),
        ("--gpus", "-2"),
        ("--lora", "-1"),
        ("--parameters", "many"),
        ("--parameters", "0"),
        ("--hidden", "-4096"),
        ("--gpu", ""),
    ],
)
def test_numbers_that_make_no_run_are_refused(capsys, config, words):
    refused(capsys, config, *words)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff\xfe",
        b"[]",
        b"3",
        b'"hidden_size"',
        b"{}",
        b"[" * 100_000,
        b'{"hidden_size": ' * 5000,
        b" " * 10_000_001,
        b'{"hidden_size": ' + b"9" * 5000 + b"}",
        *(
            json.dumps({**LLAMA, **swap}).encode()
            for swap in (
                {"hidden_size": -4096},
                {"hidden_size": "4096"},
                {"hidden_size": float("nan")},
                {"hidden_size": float("inf")},
                {"hidden_size": 4096.5},
                {"hidden_size": True},
                {"hidden_size": [[[]]]},
                {"hidden_size": 10**30},
                {"num_hidden_layers": 10**9},
                {"num_attention_heads": 0},
                {"num_key_value_heads": {"a": 1}},
                {"vocab_size": None},
            )
        ),
    ],
    ids=lambda data: repr(data[:30]),
)
def test_a_config_that_describes_no_model_is_refused(capsys, tmp_path, data):
    path = tmp_path / "config.json"
    path.write_bytes(data)
    assert len(refused(capsys, str(path))) < 400


@pytest.mark.parametrize(
    "swap",
    [
        {"model_type": 3, "hidden_act": ["silu"], "architectures": [None]},
        {"architectures": "Llama", "tie_word_embeddings": "no", "feed_forward_proj": {}},
        {"resid_pdrop": float("nan"), "dropout_rate": "half", "rms_norm_eps": "\x1b[31m"},
        {"num_local_experts": 0, "num_experts": None, "n_routed_experts": 1},
        {"text_config": [], "multi_query": "yes", "hidden_activation": None},
        {"num_attention_heads": 10**6, "head_dim": None},
    ],
)
def test_odd_values_of_fields_that_hardly_matter_do_no_harm(swap):
    model = read_config(json.dumps({**LLAMA, **swap}).encode())
    assert 0 < estimate(model, Run()).peak < 10**18


def test_what_is_not_counted_is_said(capsys, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "kv_lora_rank": 512, "vision_config": {"depth": 2}}))
    _, told = asked(capsys, str(path))
    assert told["not_counted"] == ["latent attention", "the part that sees"]
    main(["fit", str(path)])
    assert "not counted: latent attention, the part that sees" in capsys.readouterr().out
    assert "latent attention" in answer_for(text=FAILED, log=str(path)).ask


def test_a_file_that_cannot_be_read_is_told(capsys, tmp_path):
    assert "No such file" in refused(capsys, str(tmp_path / "nothing.json"))
    refused(capsys, str(tmp_path))


def test_a_text_says_the_verdict_first(config, capsys):
    assert main(["fit", config, "--gpu", "H100-80GB", "--batch", "4"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("doesn't fit: needs about ")
    assert "8.03B × 4 B" in text and "[M7]: --checkpointing" in text


def test_tight_is_what_may_need_more_than_the_card_has():
    """A GiB of the card is CUDA's context."""
    told = {
        (peak, off): verdict(peak * GIB, 80, Margins(off, off))
        for peak, off in ((68, 0.15), (69, 0.15), (69, 0.1), (79.5, 0.15), (93, 0.15), (94, 0.15))
    }
    assert list(told.values()) == ["fits", "tight", "fits", "tight", "tight", DOES_NOT_FIT]


def test_without_a_bound_only_what_surely_does_not_fit_is_known():
    no_bound = Margins(0.15, None)
    assert verdict(1 * GIB, 80, no_bound) == "not known"
    assert verdict(100 * GIB, 80, no_bound) == DOES_NOT_FIT


def test_a_tight_run_says_up_to_what_it_may_need(config, capsys):
    options = ["--lora", "16", "--checkpointing", "--gpu", "20"]
    assert main(["fit", config, *options]) == 2
    head, why, *_, last = capsys.readouterr().out.strip().split("\n")
    need, least, most = (float(n) for n in re.findall(r"\d+\.\d", head)[:3])
    assert head.startswith("tight: needs about") and least < need < 20 < most
    assert f"{least} to {most} GiB" in last
    assert why.startswith("why: ") and "rgt rehearse" in why


def test_an_8_bit_base_has_wide_margins(config, capsys):
    """axolotl#814: 70.7 GiB where 37.5 are reckoned."""
    words = ["--lora", "16", "--sequence", "4096", "--gpu", "H100-80GB"]
    _, narrow = asked(capsys, config, *words)
    code, wide = asked(capsys, config, *words, "--precision", "8bit", "--batch", "2")
    assert narrow["uncertain"] == 0.15 and wide["uncertain"] == 0.9
    assert (code, wide["verdict"]) == (2, "tight") and "8-bit" in wide["why"]


ZERO = ["--sharding", "zero3", "--gpus", "2"]


@pytest.mark.parametrize(("words", "verdict", "why"), [
    # torchtune trains it on a 4090 in 18.9 GiB: paged, and with gradients that are used at once
    (["--optimizer", "adamw8bit"], DOES_NOT_FIT, ""),
    (["--optimizer", "paged-adamw8bit"], "tight", "a paged optimizer's state on the host"),
    (["--optimizer", "paged-adamw"], "tight", "a paged optimizer's state on the host"),
    (["--offload"], "tight", "gradients on the host"),
    (["--offload", "--precision", "bf16-mixed"], DOES_NOT_FIT, ""),  # its weights alone are more
    (["--offload", "--precision", "bf16-mixed", *ZERO], "tight", "gradients and weights on the host"),
])  # fmt: skip
def test_what_a_library_may_keep_on_the_host_is_no_sure_verdict(
    config, capsys, words, verdict, why
):
    common = ["--precision", "bf16", "--checkpointing", "--batch", "2", "--gpu", "RTX-4090"]
    _, told = asked(capsys, config, *common, *words)
    assert told["verdict"] == verdict and why in told["why"]


@pytest.mark.parametrize("name", ["llm_config", "language_config"])
def test_the_text_of_a_model_that_sees_is_known_by_the_names_of_its_makers(capsys, tmp_path, name):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "sees", name: LLAMA, "vision_config": {"depth": 2}}))
    _, told = asked(capsys, str(path))
    assert told["not_counted"] == ["the part that sees"]


def test_a_part_that_sees_by_img_processor_is_not_counted(capsys, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "img_processor": {"name": "clip_vision_model"}}))
    _, told = asked(capsys, str(path))
    assert told["not_counted"] == ["the part that sees"]


@pytest.mark.parametrize(
    ("name", "cards"),
    [
        ("RTX-3060", "RTX 3060 12GB, RTX 3060 8GB"),
        ("RTX 4060 Ti", "RTX 4060 Ti 16GB, RTX 4060 Ti 8GB"),
        ("RTX 3080", "RTX 3080 10GB, RTX 3080 12GB"),
    ],
)
def test_a_card_sold_in_two_sizes_is_a_choice(config, capsys, name, cards):
    assert f"give one of {cards}" in refused(capsys, config, "--gpu", name)
    smallest = cards.split(", ")[-1]
    _, told = asked(capsys, config, "--gpu", smallest)
    size = int(re.search(r"(\d+)GB", smallest)[1])
    assert 0.9 * size < told["gpu"]["gib"] < size


@pytest.mark.parametrize(
    ("name", "gib"),
    [("RTX 2080 Ti 22GB", 20.2), ("RTX 4090 48GB", 44.2), ("H100 141GB", 129.7)],
)
def test_gb_that_were_typed_are_those_of_the_card(config, capsys, name, gib):
    _, told = asked(capsys, config, "--gpu", name)
    assert told["gpu"] == {"name": name, "gib": gib}


# What is assumed, and what is fused.


def test_a_number_of_weights_alone_is_enough_and_says_what_is_assumed(capsys):
    words = ("--parameters", "13B", "--gpus", "2", "--gpu", "A100-80GB")
    code, told = asked(capsys, *words)
    assert (code, told["verdict"]) == (1, DOES_NOT_FIT)
    assert told["weights"] == 13 * 10**9
    assert "Llama-2-13b-hf" in told["remarks"][0] and "--sharding fsdp" in told["remarks"][1]
    code, told = asked(capsys, *words, "--lora", "16", "--precision", "4bit", "--sequence", "512")
    assert (code, told["verdict"]) == (0, "fits") and told["uncertain"] == 0.5
    assert "no model that fit knows" in refused(capsys, "--parameters", "3M")


def test_states_of_a_number_of_weights_that_was_given_are_never_called_tight(capsys):
    code, told = asked(capsys, "--parameters", "7B", "--gpu", "A100-80GB", "--checkpointing")
    assert (code, told["verdict"]) == (1, DOES_NOT_FIT)
    assert told["least_gib"] > 0.93 * 7e9 * 16 / 2**30
    code, told = asked(capsys, "--parameters", "7B", "--gpu", "A100-80GB", "--lora", "16")
    assert told["least_gib"] < 0.8 * told["need_gib"]


def test_liger_takes_less_at_each_of_its_kernels():
    model = model_of(LLAMA)
    plain = Run(batch=2, sequence=4096)
    pieces, fused = replace(plain, chunked_loss=True), replace(plain, liger=True)
    sizes = [estimate(model, run).peak for run in (plain, pieces, fused)]
    assert sizes == sorted(sizes, reverse=True) and sizes[2] < 0.97 * sizes[1]
    told = {name: kept(model, run) for name, run in (("plain", plain), ("liger", fused))}
    saved = told["plain"] - told["liger"]
    each = model.intermediate * 2 + 2 * model.hidden * 4  # an activation, two normalized tensors
    assert saved == pytest.approx(plain.tokens * (model.layers * each + model.hidden * 4), rel=0.01)


def kept(model, run):
    return estimate(model, run).kept


def test_dpo_holds_two_models_and_pairs_of_samples():
    model = model_of(LLAMA)
    sft, dpo = Run(batch=2, precision="bf16"), Run(batch=1, precision="bf16", dpo=True)
    assert kept(model, sft) == kept(model, dpo)
    assert estimate(model, dpo).states - estimate(model, sft).states == 2 * model.total()
    adapted = [replace(run, lora=16) for run in (sft, dpo)]
    first, second = (estimate(model, run).states for run in adapted)
    assert first == second


# Types that bring their own code.

QWEN_7B = {
    "model_type": "qwen", "auto_map": {"AutoConfig": "x"}, "hidden_size": 4096,
    "intermediate_size": 22016, "num_attention_heads": 32, "num_hidden_layers": 32,
    "layer_norm_epsilon": 1e-6, "vocab_size": 151936,
}  # fmt: skip
CHATGLM3_6B = {
    "model_type": "chatglm", "auto_map": {"AutoConfig": "x"}, "ffn_hidden_size": 13696,
    "hidden_size": 4096, "kv_channels": 128, "multi_query_attention": True, "rmsnorm": True,
    "multi_query_group_num": 2, "num_attention_heads": 32, "num_layers": 28,
    "padded_vocab_size": 65024, "seq_length": 8192,
}  # fmt: skip
BAICHUAN2_13B = {
    "model_type": "baichuan", "auto_map": {"AutoConfig": "x"}, "hidden_act": "silu",
    "hidden_size": 5120, "intermediate_size": 13696, "num_attention_heads": 40,
    "num_hidden_layers": 40, "rms_norm_eps": 1e-6, "vocab_size": 125696,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "billions"), [(QWEN_7B, 7.72), (CHATGLM3_6B, 6.24), (BAICHUAN2_13B, 13.9)]
)
def test_a_type_with_its_own_code_has_the_weights_of_its_public_model(fields, billions):
    model = model_of(fields)
    assert model.total() / 1e9 == pytest.approx(billions, rel=0.003)
    assert not model.guessed and model.own_code == fields["model_type"]


# The length of a sample.

NARROW = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 200}
TABLES = ("bert", "bart", "codegen", "distilbert", "gpt2", "gpt_neo", "mpnet", "opt", "roberta",
          "xlm-roberta")  # fmt: skip


TABLED = (
    "albert bart bert bert-generation big_bird bigbird_pegasus biogpt blenderbot blenderbot-small codegen convbert "
    "distilbert electra ernie flaubert fnet gpt2 gpt_bigcode gpt_neo gptj layoutlm marian mbart megatron-bert mobilebert "
    "nystromformer openai-gpt opt pegasus plbart rembert roc_bert roformer squeezebert xlm"
)
FROM_PADDING = "camembert data2vec-text longformer mpnet roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl"


def test_each_family_that_looks_positions_up_in_a_table_ends_with_it():
    size = {**NARROW, "max_position_embeddings": 40, "n_positions": 40}
    for kinds, longest in ((TABLED, 40), (FROM_PADDING, 38), ("llama t5 xlnet", 0)):
        found = {kind: model_of({**size, "model_type": kind}).longest for kind in kinds.split()}
        assert found == dict.fromkeys(kinds.split(), longest)


@pytest.mark.parametrize("kind", TABLES)
def test_a_model_stops_behind_the_last_of_its_positions(kind):
    """The library runs what `fit` takes, and stops at one token more."""
    module("torch", "pip install '.[proofs]'")
    module("transformers", "pip install '.[proofs]'")
    from evals.fit import runs  # tells torch of torchvision's operators first

    torch, transformers = runs.torch, runs.transformers
    size = {"n_positions": 20} if kind in ("gpt2", "codegen") else {"max_position_embeddings": 20}
    odd = {"word_embed_proj_dim": 32, "rotary_dim": 4, "decoder_layers": 2, "bos_token_id": 0}
    odd["attention_types"] = [[["global"], 2]]
    config = transformers.AutoConfig.for_model(
        kind, **NARROW, **size, **odd, eos_token_id=2, pad_token_id=1
    )
    model = transformers.AutoModel.from_config(config).eval()
    longest = model_of(json.loads(config.to_json_string())).longest
    assert 15 < longest <= 20
    with torch.no_grad():
        model(input_ids=torch.full((1, longest), 5))
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.full((1, longest + 1), 5))


@pytest.mark.parametrize(
    ("kind", "fields", "most"),
    [
        ("gpt2", {}, 1024),
        ("bert", {}, 512),
        ("roberta", {"max_position_embeddings": 514, "pad_token_id": 1}, 512),
    ],
)
def test_a_sample_longer_than_a_table_of_positions_is_refused(kind, fields, most, capsys, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, **fields}))
    assert f"give at most {most}" in refused(capsys, str(path), "--sequence", str(most + 1))
    _, told = asked(capsys, str(path))
    assert told["run"]["sequence"] == most and f"samples of {most} tokens" in told["remarks"][0]
    _, told = asked(capsys, str(path), "--sequence", str(most))
    assert told["run"]["sequence"] == most and told["remarks"] == []
    _, told = asked(capsys, str(path), "--solve", "sequence", "--gpu", "H200")
    assert told["solved"]["largest"]["value"] == most


def test_a_sample_longer_than_a_rotary_model_was_made_for_is_remarked_on(capsys, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "max_position_embeddings": 8192}))
    assert asked(capsys, str(path), "--sequence", "8192")[1]["remarks"] == []
    _, told = asked(capsys, str(path), "--sequence", "8193")
    assert "more than the 8192" in told["remarks"][0] and "[L5]" in told["remarks"][0]
    main(["fit", str(path), "--sequence", "8193"])
    assert "note: 8193 tokens" in capsys.readouterr().out


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("fields", "reach"),
    [
        ({"rope_scaling": YARN}, 32768),
        ({"rope_parameters": {**YARN, "rope_theta": 1e6}}, 32768),
        ({"rope_parameters": {"full_attention": YARN, "sliding_attention": {}}}, 32768),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, 16384),
        ({"rope_scaling": {**YARN, "original_max_position_embeddings": 1024}}, 8192),
        ({"rope_scaling": {**YARN, "factor": float("nan")}}, 8192),
        ({"rope_scaling": {**YARN, "factor": "4"}}, 8192),
        ({"rope_scaling": {"rope_type": "longrope", "long_factor": [2.0]}}, 8192),
        ({"rope_scaling": None, "rope_parameters": []}, 8192),
    ],
)
def test_scaled_rotary_positions_reach_further(capsys, tmp_path, fields, reach):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "max_position_embeddings": 8192, **fields}))
    assert asked(capsys, str(path), "--sequence", str(reach))[1]["remarks"] == []
    _, told = asked(capsys, str(path), "--sequence", str(reach + 1))
    assert f"more than the {reach}" in told["remarks"][0]


@pytest.mark.parametrize("kind", ["t5", "mt5", "umt5", "longt5", "deberta-v2", "xlnet"])
def test_relative_positions_have_no_end_to_remark_on(capsys, tmp_path, kind):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, "n_positions": 512}))
    for words in ((), ("--sequence", "4096")):
        assert asked(capsys, str(path), *words)[1]["remarks"] == []


def test_a_count_of_weights_is_read():
    assert weight_count("7B") == 7 * 10**9
    assert weight_count("1.5b") == 1_500_000_000
    with pytest.raises(BadRequest):
        weight_count("7 billion")


# The same in a look-up.

FAILED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process "
    "has 78.03 GiB memory in use. Of the allocated memory 76.5 GiB is allocated by PyTorch, and "
    "200 MiB is reserved by PyTorch but unallocated."
)


def test_a_look_up_with_a_config_says_what_training_takes(config):
    answer = answer_for(text=FAILED, log=config)
    assert answer.matches
    assert "8.03B weights" in answer.ask and "doesn't fit in 79.1 GiB" in answer.ask
    without = answer_for(text=FAILED)
    assert tokens_of_json(answer.as_dict()) - tokens_of_json(without.as_dict()) < 200
    alone = answer_for(log=config)
    assert not alone.also and not alone.matches  # a config alone tells of no failure
    assert alone.ask.startswith("By its config.json")


def test_a_look_up_about_something_else_says_nothing_of_memory(config):
    assert "config.json" not in answer_for(text="the loss is nan after 100 steps", log=config).ask


def test_another_json_file_is_read_as_a_log(tmp_path):
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": [{"step": 1, "loss": 2.5}]}))
    assert "weights" not in answer_for(log=str(path)).ask


def test_a_config_that_is_damaged_is_refused_by_the_look_up_too(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "hidden_size": -1}))
    with pytest.raises(BadRequest, match="hidden_size"):
        answer_for(log=str(path))


def test_a_short_config_of_a_known_family_has_its_gated_layers():
    short = {k: v for k, v in LLAMA.items() if k not in ("hidden_act", "rms_norm_eps")}
    found = model_of(short | {"model_type": "llama"})
    assert found.total() == model_of(LLAMA).total() and found.norm == "rms" and found.gated


def test_a_look_up_says_that_a_guess_is_one(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "model_type": "nothing_like_it"}))
    ask = answer_for(text=FAILED, log=str(path)).ask
    assert "tight in 79.1 GiB" in ask and "a guess by the usual layers" in ask


def test_a_card_without_bf16_may_have_no_fused_attention(config, capsys):
    """FastChat#2556: QLoRA of a 7B model died at 2048 tokens on a V100 of 32 GB."""
    words = ["--precision", "4bit", "--lora", "8", "--sequence", "2048", "--gpu"]
    code, told = asked(capsys, config, *words, "V100-32GB")
    assert (code, told["verdict"]) == (2, "tight") and "fused attention" in told["why"]
    assert asked(capsys, config, *words, "RTX-5090")[1]["verdict"] == "fits"
    fp16 = ["--precision", "fp16-mixed", "--lora", "8", "--gpu", "V100-32GB"]
    assert "fused" not in asked(capsys, config, *fp16)[1]["why"]


def test_a_size_alone_is_a_card(config, capsys):
    _, told = asked(capsys, config, "--gpu", "16GB")
    assert told["gpu"]["gib"] == 16.0


def test_zero_may_run_on_one_gpu(config, capsys):
    """It then holds fp32 weights beside the 16-bit ones, and divides nothing."""
    _, told = asked(capsys, config, "--sharding", "zero2", "--gpu", "A100-80GB")
    assert "divides nothing" in told["remarks"][0] and told["run"]["sharding"] == "zero2"
    assert told["verdict"] == DOES_NOT_FIT and told["need_gib"] > 100


def test_what_does_not_fit_without_checkpointing_says_so(config, capsys):
    words = ["fit", config, "--precision", "4bit", "--lora", "16", "--batch", "2"]
    assert main([*words, "--gpu", "RTX-4090"]) == 1
    head, line, *_ = capsys.readouterr().out.split("\n")
    assert head.startswith(DOES_NOT_FIT) and "add --checkpointing: then fits" in line
    assert main([*words, "--gpu", "8"]) == 1
    assert "if the program checkpoints" not in capsys.readouterr().out
