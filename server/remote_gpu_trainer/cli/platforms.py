"""The commands `profile`, `staleness` and `fit`: arguments in, text out."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path


def add_to(commands) -> None:
    """Add the commands to the parser's commands."""
    told = commands.add_parser(
        "profile",
        help="show what a platform bills, deletes and allows, or which platforms suit a run",
        description="Print the facts of a platform, list the platforms that have what a run needs, "
        "or compute how often to save. Exit 1 when no platform qualifies.",
    )
    told.add_argument("name", nargs="?", help="a platform, such as runpod (default: list all)")
    told.add_argument(
        "--need",
        action="append",
        default=[],
        metavar="NEED",
        help="what the run needs; repeatable: spot, steady, notice=SECONDS, resume, stop, "
        "self-stop, disk=GB, inodes=N, hours=N, ssh, free-egress",
    )
    told.add_argument(
        "--save-seconds",
        type=float,
        metavar="S",
        help="seconds that one save takes; prints the best interval between saves",
    )
    told.add_argument(
        "--kill-hours",
        type=float,
        metavar="H",
        help="mean hours between kills of one box (with --save-seconds)",
    )
    told.add_argument(
        "--boxes",
        type=int,
        default=1,
        metavar="N",
        help="number of boxes that fail together (default: 1)",
    )
    told.add_argument("--json", action="store_true", help="print JSON")
    told.set_defaults(run=profile)

    stale = commands.add_parser(
        "staleness",
        help="show what was checked too long ago, or is about other versions than yours",
        description="Show what was checked too long ago, is about other versions than yours, may "
        "have changed with a release, or has different values on different pages. "
        "Exit 1 if there is any.",
    )
    stale.add_argument(
        "--on", metavar="DATE", help="the day to judge by, YYYY-MM-DD (default: today)"
    )
    stale.add_argument(
        "--installed",
        metavar="FILE",
        help="what you have: 'pip freeze' text, requirements.txt, uv.lock, an interpreter or a "
        "virtual environment",
    )
    stale.add_argument(
        "--released",
        metavar="TEXT",
        help="a new release: 'torch 2.14', or with its date 'torch 2.14 2026-12-01'",
    )
    stale.add_argument(
        "--scope", metavar="WHAT", help="only this id, family, page, folder or platform"
    )
    stale.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="KIND=DAYS",
        help="another limit for price, quota, platform, library or mechanism; repeatable",
    )
    stale.add_argument(
        "--all", action="store_true", help="print every finding (default: a summary and the first)"
    )
    stale.add_argument(
        "--json", action="store_true", help="print the object that the MCP tool returns"
    )
    stale.add_argument("--markdown", action="store_true", help="print a page for an issue")
    stale.set_defaults(run=staleness)
    _add_fit(commands)


SHAPE = {  # options that stand for fields of a config.json
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "intermediate": "intermediate_size",
    "vocabulary": "vocab_size",
}


def _add_fit(commands) -> None:
    """Add the command `fit`."""
    from ..fit import training_memory, training_run

    told = commands.add_parser(
        "fit",
        help="reckon whether training a model fits a GPU, and what would save memory",
        description="Reckon the memory of weights, gradients, optimizer state, activations and "
        "logits on each GPU, line by line, and what each change would save, with its entry. "
        "Exit 0: fits. Exit 1: doesn't fit. Exit 2: the request can't be used.",
    )
    told.add_argument("config", nargs="?", metavar="FILE", help="the model's config.json")
    shape = told.add_argument_group("the model, without a config.json or instead of a field of it")
    shape.add_argument("--parameters", metavar="N", help="number of weights, such as 7B")
    for option, field in SHAPE.items():
        shape.add_argument(
            f"--{option.replace('_', '-')}", type=int, metavar="N", help=f"as {field}"
        )
    run = told.add_argument_group("the run")
    whole = {"type": int, "metavar": "N"}
    run.add_argument("--batch", default=1, **whole, help="samples on each GPU (default: 1)")
    run.add_argument("--sequence", default=2048, **whole, help="tokens of each (default: 2048)")
    run.add_argument("--accumulation", default=1, **whole, help="batches per step (default: 1)")
    for option, choices, default, text in (
        (
            "precision",
            training_run.PRECISIONS,
            "bf16-mixed",
            "8bit, 4bit: LoRA's base; 4bit-bf16: all else in bf16",
        ),
        ("optimizer", training_memory.OPTIMIZERS, "adamw", "adamw is the fused one"),
        ("sharding", training_run.SHARDINGS, "none", "how GPUs divide the states"),
        ("attention", training_run.ATTENTIONS, "sdpa", "what computes attention"),
        ("targets", training_run.TARGETS, "all-linear", "which matrices get LoRA"),
    ):
        told_of = f"{text}: {', '.join(choices)} (default: {default})"
        run.add_argument(
            f"--{option}", choices=choices, default=default, metavar="KIND", help=told_of
        )
    run.add_argument("--lora", default=0, metavar="RANK", type=int, help="train adapters only")
    run.add_argument("--gpus", default=1, **whole, help="GPUs that share the run (default: 1)")
    run.add_argument("--checkpointing", action="store_true", help="keep only the inputs of layers")
    run.add_argument(
        "--chunked-loss", action="store_true", help="logits in eight pieces, as Liger does"
    )
    run.add_argument("--offload", action="store_true", help="optimizer state on the host")
    told.add_argument(
        "--gpu", metavar="NAME", help="a card, such as H100-80GB, or its memory in GiB"
    )
    told.add_argument("--json", action="store_true", help="print JSON")
    told.set_defaults(run=fit)


def fit(args: argparse.Namespace) -> int:
    """`fit`: 0 fits or no GPU was named, 1 doesn't fit."""
    from ..fit import memory_levers, training_memory

    model, run = _model(args), _run(args)
    card = _card(args.gpu) if args.gpu is not None else None
    found = training_memory.estimate(model, run)
    changes = memory_levers.levers(model, run)
    gib, context = training_memory.GIB, training_memory.CONTEXT
    verdict = training_memory.verdict(found.peak, card[1]) if card else ""
    ways = memory_levers.plan(model, run, card[1]) if card else None
    told = {
        "verdict": verdict or None,
        "gpu": {"name": card[0], "gib": card[1]} if card else None,
        "need_gib": round(found.peak / gib + context, 2),
        "peak_gib": round(found.peak / gib, 2),
        "context_gib": context,
        "moment": found.moment,
        "lines": [
            {"what": line.what, "arithmetic": line.how, "gib": round(line.size / gib, 3)}
            for line in found.lines
        ],
        "levers": [
            {
                "change": lever.what,
                "options": lever.options,
                "entry": lever.entry,
                "saves_gib": round(lever.saves / gib, 2),
                "need_gib": round(lever.peak / gib + context, 2),
                "verdict": training_memory.verdict(lever.peak, card[1]) if card else None,
            }
            for lever in changes
        ],
        "together": {"options": ways[0], "need_gib": round(ways[1] / gib + context, 2)}
        if ways
        else None,
        "weights": model.total(),
        "not_counted": list(model.unknown),
        "run": asdict(run),
    }
    print(json.dumps(told, ensure_ascii=False, indent=1) if args.json else _as_text(told))
    return 1 if verdict == training_memory.DOES_NOT_FIT else 0


def _as_text(told: dict) -> str:
    """The estimate for a person: the verdict, the arithmetic, the changes."""
    card = told["gpu"]
    head = f"needs about {told['need_gib']:.1f} GiB on each GPU"
    if card:
        head = f"{told['verdict']}: {head}, {card['name']} has {card['gib']:.1f}"
    width = max(len(line["what"]) for line in [*told["lines"], {"what": "CUDA context"}])
    rows = [
        f"  {line['what']:{width}} {line['gib']:9.2f}  {line['arithmetic']}"
        for line in told["lines"]
    ]
    rows.append(f"  {'CUDA context':{width}} {told['context_gib']:9.2f}  the most that is usual")
    rows.append(f"  {'together':{width}} {told['need_gib']:9.2f}")
    out = [head, "", f"most is taken {told['moment']}, in GiB:", *rows]
    if told["levers"]:
        out += ["", "each of these alone would save, in GiB:"]
    for lever in told["levers"]:
        then = f", then {lever['verdict']}" if lever["verdict"] else ""
        out.append(
            f"  {lever['saves_gib']:9.2f}  {lever['change']} [{lever['entry']}]: "
            f"{lever['options']}{then}"
        )
    if told["not_counted"]:
        out += ["", f"not counted: {', '.join(told['not_counted'])}"]
    if told["together"]:
        out += ["", f"{told['together']['options']} together: {told['together']['need_gib']:.1f}"]
    return "\n".join(out)


def _model(args: argparse.Namespace):
    """The model that the arguments describe. Raises BadRequest."""
    from ..fit import model_config
    from ..text import BadRequest

    given = {field: getattr(args, option) for option, field in SHAPE.items()}
    given = {field: value for field, value in given.items() if value is not None}
    if args.config:
        try:
            with Path(args.config).expanduser().open("rb") as file:
                data = file.read(model_config.MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no file has such a name"
            raise BadRequest(
                f"can't read {args.config[:200]!r}: {why}; pass a model's config.json"
            ) from None
        model = model_config.read_config(data, given)
    elif given:
        named = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
        model = model_config.model_of({**named, **given})
    else:
        raise BadRequest("no model given; pass its config.json, or --layers, --hidden and others")
    if args.parameters:
        return replace(model, weights=model_config.weight_count(args.parameters))
    return model


def _run(args: argparse.Namespace):
    """How the arguments train it. Raises BadRequest."""
    from ..fit.training_run import Run, check

    names = Run.__dataclass_fields__
    return check(Run(**{name: getattr(args, name) for name in names}))


def _card(name: str) -> tuple[str, float]:
    """The card of a name, and its memory in GiB. Raises BadRequest."""
    from ..health.box_check.tables import sku_of
    from ..platforms.cards import GPUS, SeveralCards, gpu_named
    from ..text import BadRequest

    try:
        found = gpu_named(name)
    except SeveralCards as error:
        raise BadRequest(str(error)) from None
    if not found and (sku := sku_of(name)):
        return name, round(0.92 * sku["vram_gib"], 1)  # what the least of the known cards shows
    if not found:
        raise BadRequest(
            f"unknown GPU {name[:40]!r}; give its memory in GiB, or one of {', '.join(GPUS)}"
        )
    return found


def profile(args: argparse.Namespace) -> int:
    """`profile`: 0 shown or found, 1 no platform qualifies."""
    from ..platforms import choosing, showing
    from ..platforms import profile as profiles
    from ..text import BadRequest

    if args.save_seconds is not None or args.kill_hours is not None:
        if args.name or args.need:
            raise BadRequest(
                "--save-seconds and --kill-hours don't depend on a platform; "
                "leave out the platform and --need"
            )
        return show_interval(args)
    today = date.today()
    try:
        if args.name and not args.need:
            found = profiles.get(args.name)
            print(
                json.dumps(showing.as_dict(found, today), ensure_ascii=False, indent=1)
                if args.json
                else showing.as_text(found, today)
            )
            return 0
        asked = choosing.read_needs(args.need)
        candidates = [profiles.get(args.name)] if args.name else list(profiles.load().values())
    except (choosing.BadNeed, profiles.ProfileError) as error:
        raise BadRequest(str(error)) from None
    choices = choosing.choose(candidates, asked, today)
    if args.json:
        print(json.dumps([choice.as_dict() for choice in choices], ensure_ascii=False, indent=1))
    else:
        print("\n".join(choosing.as_lines(choices, bool(asked))))
    return 0 if any(choice.qualifies for choice in choices) else 1


def show_interval(args: argparse.Namespace) -> int:
    """`profile --save-seconds --kill-hours`: print the best interval between saves."""
    from ..platforms.saving import between_saves
    from ..text import BadRequest

    if args.save_seconds is None or args.kill_hours is None:
        raise BadRequest("one of --save-seconds and --kill-hours is missing; give both")
    try:
        found = between_saves(args.save_seconds, args.kill_hours, args.boxes)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if args.json:
        print(
            json.dumps(
                {
                    "young_seconds": found.young,
                    "daly_seconds": found.daly,
                    "overhead": found.overhead,
                }
            )
        )
    else:
        print(found.arithmetic)
    return 0


def staleness(args: argparse.Namespace) -> int:
    """`staleness`: 0 fresh, 1 something to look at."""
    from ..catalogue.freshness import BadQuestion, read_day
    from ..platforms import checking

    try:
        if args.json and args.markdown:
            raise BadQuestion("--json and --markdown can't be combined; give one of them")
        packages = None
        if args.installed:
            # importing packaging takes longer than everything else here
            from ..platforms.installed import read

            packages = read(args.installed)
        day = read_day(args.on)
        report = checking.check(
            day, packages=packages, released=args.released, scope=args.scope, limits=args.limit
        )
    except BadQuestion as error:
        from ..text import BadRequest

        raise BadRequest(str(error)) from None
    if args.json:
        print(json.dumps(report.as_dict(), ensure_ascii=False, indent=1))
    else:
        print(
            checking.as_markdown(report, day)
            if args.markdown
            else checking.as_text(report, everything=args.all)
        )
    return 0 if report.fresh else 1
