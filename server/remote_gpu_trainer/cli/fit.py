"""The command `fit`: does training a model fit a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.core import ParameterSource

from ..fit import training_memory, training_run
from ..fit.solve import UNITS
from ..fit.traced_model import check_run
from ..fit.traced_report import traced_report, traced_solution
from ..runs import fit_report
from ..text import BadRequest
from ..text.masking import shown
from . import fit_module, terminal
from .boxes import print_json
from .completion import files, gpus
from .parsing import JSON, OneOf, command

OPEN = (training_memory.TIGHT, training_memory.NOT_KNOWN)
EITHER_WAY = "the card's memory lies within what the estimate may be off"
REHEARSE = "rehearse it: `rgt rehearse JOB --on BOX` measures it until it has saved"


def whole(name: str, default: int | None, text: str, metavar: str = "N") -> Callable[..., Any]:
    """An option that takes a whole number."""
    return click.option(f"--{name}", type=int, default=default, metavar=metavar, help=text)


def kind(name: str, choices: Iterable[str], default: str, text: str) -> Callable[..., Any]:
    """An option that takes one of several words."""
    about = f"{text}: {', '.join(choices)} (default: {default})"
    return click.option(
        f"--{name}", type=OneOf(choices), default=default, metavar="KIND", help=about
    )


@command("fit")
@click.argument(
    "config",
    required=False,
    metavar="[MODEL]",
    shell_complete=files,
    help="the model's config.json, which the options to --vocabulary stand for; its name on the "
    "Hub, such as Qwen/Qwen2.5-7B or black-forest-labs/FLUX.1-dev; or FILE.py:NAME: a class or "
    "function of yours that gives a torch model",
)
@click.option("--parameters", metavar="N", help="number of weights, such as 7B")
@whole("layers", None, f"as {fit_report.SHAPE['layers']}")
@whole("hidden", None, f"as {fit_report.SHAPE['hidden']}")
@whole("heads", None, f"as {fit_report.SHAPE['heads']}")
@whole("kv-heads", None, f"as {fit_report.SHAPE['kv_heads']}")
@whole("intermediate", None, f"as {fit_report.SHAPE['intermediate']}")
@whole("vocabulary", None, f"as {fit_report.SHAPE['vocabulary']}")
@whole("batch", 1, "samples on each GPU (default: 1)")
@whole("sequence", None, "tokens of each (default: an image's, or 2048 if the model takes so many)")
@whole("accumulation", 1, "batches per step (default: 1)")
@kind(
    "precision",
    (*training_run.PRECISIONS, *training_run.CALLED),
    "bf16-mixed",
    "8bit, 4bit: LoRA's base; 4bit-bf16: all else in bf16; fp16 is fp16-mixed",
)
@kind(
    "optimizer",
    training_memory.OPTIMIZERS,
    "adamw",
    "adamw is the fused one, adamw-foreach torch's own default",
)
@kind("sharding", training_run.SHARDINGS, "none", "how GPUs divide the states")
@kind("attention", training_run.ATTENTIONS, "sdpa", "what computes attention")
@kind("targets", training_run.TARGETS, "all-linear", "which matrices get LoRA")
@whole("lora", 0, "train adapters only", metavar="RANK")
@click.option(
    "--transformers",
    type=OneOf(("4", "5")),
    metavar="N",
    help="the version, which decides how experts are stored: 4 or 5 (default: the one installed)",
)
@whole("gpus", 1, "GPUs that share the run (default: 1)")
@click.option("--checkpointing", is_flag=True, help="keep only the inputs of layers")
@click.option("--chunked-loss", is_flag=True, help="logits in eight pieces, as Liger does")
@click.option("--liger", is_flag=True, help="Liger's loss, gated layers and RMS norms")
@click.option("--dpo", is_flag=True, help="pairs of samples, and a reference model")
@click.option("--offload", is_flag=True, help="optimizer state on the host")
@click.option(
    "--gpu",
    metavar="NAME",
    shell_complete=gpus,
    help="a card, such as H100-80GB, or the GiB that nvidia-smi shows for it",
)
@click.option(
    "--solve",
    type=OneOf(fit_report.SOLVED),
    metavar="WHAT",
    help=f"the largest that fits --gpu, or the smallest card and the cheapest of the dated prices: "
    f"{', '.join(fit_report.SOLVED)}",
)
@click.option("--model-args", metavar="JSON", help="arguments of NAME, such as '{\"width\": 512}'")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SIDES",
    help="one sample that NAME's model takes: 3x224x224, or int:512 for words; repeatable",
)
@click.option(
    "--python",
    default="",
    metavar="PATH",
    shell_complete=files,
    help="the Python that has NAME's torch (default: python3)",
)
@JSON
@click.option(
    "--measure",
    is_flag=True,
    help="run the program after -- here for a few steps, and tell what it takes of the cards",
)
@click.argument(
    "program",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[-- PROGRAM ...]",
    shell_complete=files,
    help="for --measure, as you start it: -- python train.py --batch 8",
)
def fit(
    config: str | None,
    parameters: str | None,
    gpu: str | None,
    solve: str | None,
    model_args: str | None,
    inputs: tuple[str, ...],
    python: str,
    as_json: bool,
    measure: bool,
    program: tuple[str, ...],
    transformers: str | None,
    **options: Any,
) -> int:
    """Reckon the memory of weights, gradients, optimizer state, activations and logits on each GPU,
    line by line, and what each change would save, with its entry. Weights are those that
    transformers counts, for the types that it knows; what isn't covered is said. Of experts, LoRA
    trains what the named versions of peft and transformers make of "all-linear"; those of 2025 make
    another number.

    A name on the Hub is looked up among the models that are known here, on this disk, and on
    huggingface.co, or HF_ENDPOINT, with HF_TOKEN. Of a diffusion pipeline the denoiser is trained.

    FILE.py:NAME runs your code, in a process of its own without a GPU. The model is built on
    torch's meta device, where weights take no memory, and run on --input to count what it keeps.

    --measure rehearses a program without a job: it trains until it has saved or for some steps, its
    saves are moved away, and the peak is told by card and by torch's allocator, with what it didn't
    reach. rgt rehearse does so with a job, and on a box. Both are remembered here, and shown for
    like runs, as are published figures.

    Exit 0: fits. Exit 1: doesn't fit. Exit 2: tight, the card's memory is between the least and the
    most that it may need; or not known; or the request can't be used.
    """
    options["precision"] = training_run.CALLED.get(options["precision"], options["precision"])
    if measure:
        from . import measuring

        _refuse_others()
        return measuring.measure([config, *program] if config else program)
    if program:
        raise BadRequest(f"{program[0][:80]!r} is one too many; only --measure runs a program")
    shape = {field: options.pop(option) for option, field in fit_report.SHAPE.items()}
    card = fit_report.card_of(gpu) if gpu is not None else None
    if own := fit_module.named(config or ""):
        given = [option for option, field in fit_report.SHAPE.items() if shape[field] is not None]
        given += ["parameters"] * bool(parameters) + ["sequence"] * bool(options["sequence"])
        if given:
            raise BadRequest(
                f"--{given[0].replace('_', '-')} is for a config.json; give --model-args or --input"
            )
        run = check_run(training_run.check(training_run.Run(**{**options, "sequence": 1})))
        with terminal.waiting(f"building {own[1]} of {shown(own[0], 80)}, and counting …"):
            traced = fit_module.counted(*own, model_args, inputs, run, python)
        report = traced_report(traced, run, card, own[1])
        if solve:
            report["solved"] = fit_report.with_prices(
                solve, traced_solution(traced, run, solve, card), report
            )
        report["measured"] = fit_report.measured_like(own[1], traced.weights, run, 0)
        return _print_report(report, as_json)
    if model_args or inputs or python:
        raise BadRequest("--model-args, --input and --python are for FILE.py:NAME; name the model")
    shape = {name: size for name, size in shape.items() if size is not None}
    asked = fit_report.Asked(config, shape, parameters, transformers, solve)
    return _print_report(fit_report.reckon(asked, card, options), as_json)


def _refuse_others() -> None:
    """Raise BadRequest for an option beside --measure: the program says itself how it trains."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and name not in ("config", "program", "measure"):
            raise BadRequest(f"{option.opts[0]} says nothing of a program that runs; leave it out")


def _print_report(report: dict[str, Any], as_json: bool) -> int:
    """Print the report, and return the exit code."""
    if as_json:
        print_json(report)
    else:
        print(_as_text(report))
    return _exit_code(report)


def _exit_code(report: dict[str, Any]) -> int:
    """0 where the run, or what was solved for, fits, 1 where it doesn't, 2 where it's open."""
    if solved := report.get("solved"):
        found = solved.get("least") or solved.get("largest")
        return 0 if found and found.get("value", 1) else 1
    return {training_memory.DOES_NOT_FIT: 1, **dict.fromkeys(OPEN, 2)}.get(report["verdict"], 0)


def _as_text(report: dict[str, Any]) -> str:
    """The estimate for a person: the verdict, the arithmetic, the changes, the verdict again."""
    lines = [_headline(report), "", f"most is taken {report['moment']}, in GiB:"]
    lines += _arithmetic(report)
    if report["levers"]:
        lines += ["", "each of these alone would save, in GiB:"]
        lines += [_lever(lever) for lever in report["levers"]]
    if report["not_counted"]:
        lines += ["", f"not counted: {', '.join(report['not_counted'])}"]
    if together := report["together"]:
        lines += ["", f"{together['options']} together: {together['need_gib']:.1f} GiB"]
    lines += [f"note: {remark}" for remark in report.get("remarks", [])]
    if report["measured"]:
        lines += ["", "measured of like runs, by others or here:"]
        lines += [f"  {line}" for line in report["measured"]]
    lines += ["", f"weights: {report['weights']:,}, by {report['weights_by']}"]
    lines += [_solved(report)] if "solved" in report else []
    return "\n".join([*lines, _last_line(report)])


def _last_line(report: dict[str, Any]) -> str:
    """The verdict with unit and range."""
    need, card, off = report["need_gib"], report["gpu"], report["uncertain"]
    verdict = f"{report['verdict']}: " if card else ""
    of = f" of {card['gib']:.1f} GiB" if card else ""
    if off is None:
        on_top = ", ".join(report["on_top"])
        return f"{verdict}at least {need:.1f} GiB{of} on each GPU; on top: {on_top}"
    least, most = report["least_gib"], report["most_gib"]
    even = not report["why"] and f"give or take {off:.0%} ({least:.1f} to {most:.1f} GiB)"
    return f"{verdict}{need:.1f} GiB{of} on each GPU, {even or f'{least:.1f} to {most:.1f} GiB'}"


def _solved(report: dict[str, Any]) -> str:
    """What `--solve` found, by the estimate and with room for its uncertainty."""
    solved, off = report["solved"], f"{report['uncertain']:.0%}"
    if solved["what"] == "gpu":
        least, safe = solved["least"], solved["safe"]
        if not least:
            return "smallest card: none that fit knows has so much memory"
        text = f"smallest card: {least['gpu']} ({least['gib']:.1f} GiB)"
        text += f"; with {off} of room: {safe['gpu'] if safe else 'none'}"
        return "\n".join([text, *(_price(offer, off) for offer in solved["cheapest"])])
    largest, safe, what = solved["largest"], solved["safe"], solved["what"]
    if not largest["value"]:
        return f"largest {what}: none; 1 needs {largest['need_gib']:.1f} GiB"
    text = f"largest {what}: {_found(largest)} ({UNITS[what]}), needs {largest['need_gib']:.1f} GiB"
    return f"{text}; with {off} of room: {_found(safe)}"


def _found(solved: dict[str, Any]) -> str:
    """The largest value, and whether more may fit."""
    more = ", where the search ends: more may fit" if solved["capped"] else ""
    return f"{solved['value'] or 'none'}{more}"


def _price(offer: dict[str, Any], off: str) -> str:
    """One dated price, with what to think of it."""
    old = ", past 90 days: look again" if offer["past"] else ""
    whose = "" if offer["confirmed"] else ", not the platform's own word"
    return (
        f"cheapest dated price with {off} of room: {offer['gpu']} at {offer['platform']}, "
        f"{offer['an_hour']:g} {offer['currency']} an hour on {offer['day']}{old}{whose}"
    )


def _headline(report: dict[str, Any]) -> str:
    """The verdict with what it rests on; where it is open also why, and how to close it."""
    most = report["most_gib"]
    about = "at least" if most is None else "about"
    need = f"needs {about} {report['need_gib']:.1f} GiB on each GPU"
    if report["verdict"] == training_memory.TIGHT:
        need += f", {report['least_gib']:.1f} to {most:.1f}"
    if not (card := report["gpu"]):
        return need
    text = f"{report['verdict']}: {need}, {card['name']} has {card['gib']:.1f}"
    if report["verdict"] in OPEN:
        text += f"\nwhy: {report['why'] or EITHER_WAY}; {REHEARSE}"
    if report["verdict"] == training_memory.DOES_NOT_FIT:
        text += _if_checkpointing(report)
    return text


def _if_checkpointing(report: dict[str, Any]) -> str:
    """A line if checkpointing, which many recipes switch on unasked, changes the verdict."""
    for lever in report["levers"]:
        if lever["options"] == "--checkpointing" and lever["verdict"] != report["verdict"]:
            then = f"then {lever['verdict']}, with about {lever['need_gib']:.1f} GiB"
            return f"\nif the program checkpoints, add --checkpointing: {then}"
    return ""


def _arithmetic(report: dict[str, Any]) -> list[str]:
    """What each part takes, and how that is reckoned."""
    context = "CUDA context"
    width = max(len(name) for name in (context, *(line["what"] for line in report["lines"])))
    rows = [
        f"  {line['what']:{width}} {line['gib']:9.2f}  {line['arithmetic']}"
        for line in report["lines"]
    ]
    rows.append(f"  {context:{width}} {report['context_gib']:9.2f}  the most that is usual")
    rows.append(f"  {'together':{width}} {report['need_gib']:9.2f}")
    return rows


def _lever(lever: dict[str, Any]) -> str:
    then = f", then {lever['verdict']}" if lever["verdict"] else ""
    change = f"{lever['change']} [{lever['entry']}]: {lever['options']}"
    return f"  {lever['saves_gib']:9.2f}  {change}{then}"
