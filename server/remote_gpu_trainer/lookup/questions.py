"""Questions that no entry answers: the command or the platform's fact that does.

`answer_question` puts it into an answer. Of a platform's bill and data its page speaks, by
`platforms.questions`. For all else `KINDS` is one table of what people ask before anything has
failed. Each kind has what must stand in a question of it, in English or Chinese, an example in
both, and what answers it. Numbers are read by the patterns of `read_numbers` alone, and a command
holds nothing else of a question.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from ..catalogue import bundle
from ..platforms import questions as platform_questions
from ..platforms.cards import GPUS
from .state import Answer
from .writer import FURTHER, WHOLE, shorten

if TYPE_CHECKING:
    from ..fit.usual_shapes import Assumed

BESIDE = 2  # matches beside facts, so that titles have room too
NO_PAGE = (
    "There is no page on {name}. What holds for any Linux box is in the profile generic-ssh; "
    "what {name} bills after a stop, and what it deletes, only its own pages say."
)
WHICH = (
    "Name the platform (such as runpod or aws) for what it bills and deletes; "
    "`rgt profile` lists those that have a page."
)
MOST_CARDS = 1024
WORDS_OF_NUMBERS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "a single": 1,
    "一": 1, "单": 1, "两": 2, "二": 2, "双": 2, "三": 3, "四": 4, "八": 8,
}  # fmt: skip
# Words of somebody whose run has failed: an entry may explain that.
_FAILED = re.compile(
    r"\b(?:why|error|\w*exception|fail\w*|die[sd]?|dying|crash\w*|killed|oom|out of memory|panics?"
    r"|can't|cannot|deadlock\w*|stopped|traceback|doesn't|didn't)\b|报错|失败|停了|(?<!卡)死了|装不下|为什么|为啥|爆了",
    re.I,
)
# 13B, 350M; neither the 80 of 80GB nor the 8 of 8bit.
_PARAMETERS = re.compile(r"(?<![a-z\d.])(\d{1,4}(?:\.\d{1,2})?) ?([bm])(?![a-z])", re.I)
_SIZE = re.compile(r"(\d{2,3}) ?g(?:i?b)?(?![a-z])", re.I)
_WORD = re.compile(r"[A-Za-z0-9]+")
_COUNT = re.compile(
    rf"(?<![a-z\d.])(\d{{1,4}}|{'|'.join(WORDS_OF_NUMBERS)}) ?(?:[x×*]|张|块|片|个|台)? ?"
    r"(?:nvidia |tesla |geforce |rtx[ -]?)?(?=[abhlvtp]\d{1,3}|\d0\d0|gpus?|cards?|卡|显卡)",
    re.I,
)
_TIMES = re.compile(r"(?<=\d) ?[x×*] ?(?=[a-z])", re.I)  # 4xH100
_PERCENT = re.compile(r"(?<![\d.])(\d{1,3})(?:\.\d+)? ?(?:%|％|per ?cent)")
_SECONDS = re.compile(
    r"(?<![\d.])(\d{1,4}) ?(s|secs?|seconds?|秒|min|minutes?|分钟)(?![a-z])", re.I
)
_ASKS_HOW_MANY = re.compile(r"\bhow many (?:gpus?|cards?|[abhl]\d{2,3}|\d0\d0)|几[张块个片]", re.I)
_ABOUT_ROOM = re.compile(
    r"\bfits?\b|\benough\b|\bbatch\b|\bv?ram\b|memory|够|显存|放得下|装得下", re.I
)
_HOURS = re.compile(r"(?<![\d.])(\d{1,4}) ?(h|hrs?|hours?|小时|个小时)(?![a-z])", re.I)
# Bytes of each weight in a checkpoint: a float32 copy and the two moments of Adam; and in bf16.
OF_CHECKPOINT, OF_BF16 = 12, 2
USUAL_SAVE, USUAL_KILL = 30, 6  # seconds and hours of the example where a question says none
USUAL_CARD = "H100-80GB"  # for which a number of cards is reckoned where a question names none
COUNTS = (1, 2, 4, 8, 16, 32, 64)  # of cards
BUSY, IDLE = (
    90,
    60,
)  # per cent of utilisation: from here nothing is said by it; below, the card waits


@dataclass(frozen=True)
class Numbers:
    """What a question says in numbers; 0 or "" for what it doesn't say.

    `parameters` is written as `rgt fit` takes it, `gpu` is a name of `platforms.cards.GPUS`, and
    `gpu_is_assumed` says that its size wasn't said.
    """

    parameters: str = ""
    gpus: int = 1
    gpu: str = ""
    gpu_is_assumed: bool = False
    percent: int = -1
    save_seconds: int = 0
    kill_hours: int = 0


@dataclass(frozen=True)
class Kind:
    """One kind of question: the pattern of each language, a question of each, and its answer.

    `answer` takes the line and its numbers, and returns sentences; none where it can't tell. With
    `names_failures` a question may speak of a failure that is to come.
    """

    name: str
    english: re.Pattern[str]
    chinese: re.Pattern[str]
    examples: tuple[str, str]
    answer: Callable[[str, Numbers], list[str]]
    names_failures: bool = False


def answer_question(answer: Answer, text: str, today: date) -> Answer:
    """Return the answer with what a question asks for as its facts; any other answer as it is.

    Such a question needs no log, so none is asked for.
    """
    asked = platform_questions.read(text)
    if asked:
        return _answer_about_platform(answer, asked, today)
    sentences = sentences_on(text)
    if not sentences or any(match["confidence"] == "high" for match in answer.matches[:1]):
        return answer
    return _with_facts(answer, sentences)


def _with_facts(answer: Answer, facts: list[str]) -> Answer:
    told = replace(answer, matches=answer.matches[:BESIDE], facts=facts, ask="", decision=None)
    shorten(told, WHOLE + FURTHER * max(0, len(told.matches) - 3))
    return told


def _answer_about_platform(
    answer: Answer, asked: platform_questions.Question, today: date
) -> Answer:
    """The platform's own facts. Entries of other platforms would lead away from one that has no
    page, and aren't named then."""
    if asked.platform:
        from ..platforms import profile, showing  # a dozen models, which few look-ups need

        page = profile.get(asked.platform)
        facts = [
            showing.in_a_sentence(page.name, name, getattr(page.facts, name), today)
            for name in asked.facts
        ]
        return _with_facts(answer, facts)
    is_sure = bool(answer.matches) and answer.matches[0]["confidence"] == "high"
    if is_sure and not asked.without_page:
        return answer
    return replace(
        answer,
        matches=[match for match in answer.matches if _is_general(match["id"])],
        also=[title for title in answer.also if _is_general(title["id"])],
        ask=NO_PAGE.format(name=asked.without_page) if asked.without_page else WHICH,
        decision=None if asked.without_page else answer.decision,
    )


def _is_general(entry_id: str) -> bool:
    """Whether an entry isn't about one platform of its own."""
    path = bundle.load().get(entry_id).path
    return not path.startswith("profiles/") or path == "profiles/generic-ssh.md"


def sentences_on(text: str) -> list[str]:
    """Return the sentences that answer a question of one of KINDS; none for any other text."""
    if not platform_questions.is_question(text):
        return []
    line = " ".join(text.split())
    for kind in KINDS:
        if _FAILED.search(line) and not kind.names_failures:
            continue
        if kind.english.search(line) or kind.chinese.search(line):
            sentences = kind.answer(line, read_numbers(line))
            if sentences:
                return sentences
    return []


def read_numbers(line: str) -> Numbers:
    """Return what a question says in numbers."""
    parameters = _PARAMETERS.search(line)
    percent = _PERCENT.search(line)
    gpu, is_assumed = _card(line)
    hours = _HOURS.search(line)
    return Numbers(
        f"{parameters[1]}{parameters[2].upper()}" if parameters else "",
        _count(line),
        gpu,
        is_assumed,
        int(percent[1]) if percent and int(percent[1]) <= 100 else -1,
        _save_seconds(line),
        int(hours[1]) if hours else 0,
    )


def _count(line: str) -> int:
    """How many GPUs a question names: 1 where it names none, or more than anybody has."""
    found = _COUNT.search(line)
    if not found:
        return 1
    number = found[1].lower()
    count = WORDS_OF_NUMBERS.get(number) or int(number)
    return count if 1 <= count <= MOST_CARDS else 1


def _card(line: str) -> tuple[str, bool]:
    """The card of the table that a question names, and whether its size is assumed."""
    named = _cards(line)
    if not named:
        return "", False
    _, _, card, is_assumed = max(named, key=lambda row: row[:2])
    return card, is_assumed


def _cards(line: str) -> list[tuple[int, bool, str, bool]]:
    """The cards that a question names, each with how much of its name and whether its size is
    said, and whether that is assumed."""
    words = {word.upper() for word in _WORD.findall(_TIMES.sub(" ", line))}
    words |= {word.removeprefix("RTX").removeprefix("GTX") for word in words}
    sizes = {f"{size}GB" for size in _SIZE.findall(line)}
    named = []
    for card in GPUS:
        parts = set(card.split("-")) - {"RTX", "GTX"}
        size = {part for part in parts if part.endswith("GB")}
        if parts - size <= words:
            named.append((len(parts - size), bool(size & sizes), card, bool(size) and not sizes))
    return named


def _save_seconds(line: str) -> int:
    found = _SECONDS.search(line)
    if not found:
        return 0
    return int(found[1]) * (60 if found[2].lower().startswith(("min", "分")) else 1)


def _fit(line: str, numbers: Numbers) -> list[str]:
    """Whether training a model of so many weights fits the cards, reckoned."""
    if not numbers.parameters:
        if not numbers.gpu or not _ABOUT_ROOM.search(line):
            return []
        return [
            f"`rgt fit config.json --gpu {numbers.gpu}` reckons it from the model's config.json, "
            "line by line, with what each change saves; `--solve batch` finds the largest batch. "
            "Without a config: `--parameters 7B`, with your number."
        ]
    from ..fit.memory_report import memory_report
    from ..fit.model_config import weight_count
    from ..fit.training_run import Run, length_of
    from ..fit.usual_shapes import assumed_model
    from ..text import BadRequest

    is_quantized = bool(re.search(r"qlora|4[ -]?bit", line, re.I))
    lora = 16 if re.search(r"\bq?lora\b|adapter|(?<![a-z])lora|适配器", line, re.I) else 0
    options = [f"--parameters {numbers.parameters}"]
    options += [f"--gpus {numbers.gpus}"] if numbers.gpus > 1 else []
    options += ["--precision 4bit"] if is_quantized else []
    options += [f"--lora {lora or 16}"] if lora or is_quantized else []
    try:
        assumed = assumed_model(weight_count(numbers.parameters))
    except BadRequest as error:
        return [f"`rgt fit` can't reckon this from the number alone: {error}."]
    if _ASKS_HOW_MANY.search(line):
        return _how_many(assumed, numbers, options)
    run = Run(
        sequence=length_of(assumed.model, None),
        precision="4bit" if is_quantized else "bf16-mixed",
        lora=lora or (16 if is_quantized else 0),
        gpus=numbers.gpus,
    )
    how = f"batch {run.batch} of {run.sequence} tokens, {run.precision}, {run.optimizer}"
    how += f", LoRA of rank {run.lora}" if run.lora else ", all weights trained"
    if not numbers.gpu:
        need = memory_report(assumed.model, run, None)["need_gib"]
        roomy = [(gib, card) for card, gib in GPUS.items() if gib >= need]
        told = f"of the known cards {min(roomy)[1]} is the smallest with so much" if roomy else ""
        told = told or "no known card has so much"
        command = " ".join(["rgt fit", *options])
        return [f"About {need:.0f} GiB on each GPU ({how}); {told}.", _by(command, assumed)]
    card = (numbers.gpu, GPUS[numbers.gpu])
    command = " ".join(["rgt fit", *options, f"--gpu {numbers.gpu}"])
    report = memory_report(assumed.model, run, card)
    verdict = report["verdict"]
    told = (
        f"{verdict[0].upper()}{verdict[1:]}: about {report['need_gib']:.0f} GiB on each GPU, and "
        f"{numbers.gpu} has {card[1]:.0f} ({how})."
    )
    # Who has several cards asks whether the model fits when they share it.
    levers = sorted(
        report["levers"],
        key=lambda lever: not (numbers.gpus > 1 and f"--gpus {numbers.gpus}" in lever["options"]),
    )
    ways = [
        f"{lever['change']} (`{lever['options']}`, then {lever['verdict']})"
        for lever in levers
        if lever["verdict"] in ("fits", "tight")
    ]
    saved = [f"What would do: {'; '.join(ways[:3])}."] if ways and verdict != "fits" else []
    size = f" {numbers.gpu} was assumed for its size." if numbers.gpu_is_assumed else ""
    return [told, *saved, _by(command, assumed) + size]


def _how_many(assumed: Assumed, numbers: Numbers, options: list[str]) -> list[str]:
    """How many cards that share all states train all weights, in steps of twice as many."""
    from ..fit.memory_report import memory_report
    from ..fit.training_run import Run, length_of

    gpu = numbers.gpu or USUAL_CARD
    sequence = length_of(assumed.model, None)
    for gpus in COUNTS:
        sharding = "fsdp" if gpus > 1 else "none"
        run = Run(sequence=sequence, gpus=gpus, sharding=sharding, checkpointing=True)
        report = memory_report(assumed.model, run, (gpu, GPUS[gpu]))
        if report["need_gib"] <= GPUS[gpu]:
            break
    else:
        return []
    is_open = "" if report["verdict"] == "fits" else ", tightly"
    command = (
        f"rgt fit {options[0]} --gpus {gpus} --sharding {sharding} --checkpointing --gpu {gpu}"
    )
    return [
        f"{gpus} × {gpu} for all weights{is_open}: about {report['need_gib']:.0f} GiB on each, of "
        f"{GPUS[gpu]:.0f}, with FSDP, checkpointing and a batch of 1. With LoRA fewer do.",
        _by(command, assumed),
    ]


def _by(command: str, assumed: Assumed) -> str:
    """The command that reckons, and what it assumes of the model."""
    return f"`{command}` shows the arithmetic and what each change saves; {assumed.told}."


def _alive(line: str, numbers: Numbers) -> list[str]:
    return [
        "`rgt status BOX` says whether the run trains: its step, its loss, the age of its last "
        "line and of its newest complete checkpoint.",
        "`rgt snapshot BOX` takes down where each rank stands, and names the one that differs; "
        "take it before you end anything.",
        "Of a program that was started otherwise: `py-spy dump --pid PID` twice, a minute apart. "
        "Other lines mean that it works, the same line in a wait that it hangs.",
    ]


def _elsewhere(line: str, numbers: Numbers) -> list[str]:
    return [
        "`rgt resume NEW_BOX --from OLD_BOX` goes on with a run from its copy at the durable "
        "place, which `durable` in the job names; add `--old-is-gone` for a box that is gone.",
        "Without a durable place: `rgt pull OLD_BOX` fetches files of the run, compared by hash, "
        "while the old box still exists. Take the newest complete checkpoint with its optimizer "
        "state, put it into the job's `checkpoint.folder` there, and `rgt start NEW_BOX job.yaml`.",
        "With another number of GPUs keep batch × GPUs × accumulation the same.",
    ]


def _again(line: str, numbers: Numbers) -> list[str]:
    return [
        "`rgt resume BOX` goes on with a run of `rgt start` from its newest complete checkpoint.",
        "Started otherwise: give the trainer the folder of the newest complete checkpoint "
        "(transformers and LLaMA-Factory `resume_from_checkpoint`, Lightning `ckpt_path`, YOLO "
        "`resume=True`). A file that holds only the weights starts the optimizer, the schedule and "
        "the order of the data anew (`rgt lookup --id C1`).",
        "Right after the start compare step, learning rate and loss with the last lines before the "
        "interruption; a run at step 0 hasn't resumed (`rgt lookup --id C3`).",
    ]


def _interval(line: str, numbers: Numbers) -> list[str]:
    """By Young and Daly, with what the question says of a save and of the box."""
    from ..platforms.saving import between_saves

    save, hours = numbers.save_seconds or USUAL_SAVE, numbers.kill_hours or USUAL_KILL
    found = between_saves(save, hours)
    is_said = numbers.save_seconds and numbers.kill_hours
    lead = "For" if is_said else "As an example, for"
    sentences = [
        f"{lead} a save of {save} s on a box that is lost every {hours} h: save about every "
        f"{found.daly / 60:.0f} minutes; saves and repeated work then cost "
        f"{found.overhead:.0%} of the time.",
        f"`rgt profile --save-seconds {save} --kill-hours {hours}` shows the arithmetic"
        + ("." if is_said else "; `rgt rehearse job.yaml` measures how long your save takes."),
    ]
    return sentences


def _spot(line: str, numbers: Numbers) -> list[str]:
    return [
        "Yes, if the run saves to a place that outlives the box and resumes by itself: "
        "`rgt rehearse job.yaml` trains, saves, kills and resumes it, and shows whether it does.",
        "`rgt profile --need spot --need resume` lists the platforms that have such boxes, with "
        "the notice that each gives.",
        "Name a durable place in the job (`durable`). How often to save: `rgt profile "
        "--save-seconds S --kill-hours H`.",
    ]


def _utilisation(line: str, numbers: Numbers) -> list[str]:
    """What a share of utilisation says, and how to tell what the card waits for."""
    share = numbers.percent
    if share < 0:
        return []
    if share >= BUSY:
        return [
            f"{share} % says only that some kernel ran nearly all the time. Whether the card works "
            "shows its power: `nvidia-smi --query-gpu=power.draw,power.limit,clocks.sm "
            "--format=csv -l 1` (`rgt lookup --id U21`)."
        ]
    judged = "it is low" if share < IDLE else "there is room"
    return [
        f"At {share} % no kernel ran in {100 - share} % of the time: {judged}, and the card mostly "
        "waits for data or for the processor.",
        "Time 100 batches of the loader without the model. Near the time of your steps, the loader "
        "sets the pace: more workers (`rgt lookup --id U24`). Far below it, the batch or the "
        "kernels are too small: a bigger batch, `torch.compile` (`rgt lookup --id T18`).",
    ]


def _disk(line: str, numbers: Numbers) -> list[str]:
    """What checkpoints of a model of so many weights take."""
    if not numbers.parameters:
        return []
    from ..fit.model_config import weight_count
    from ..text import BadRequest

    try:
        weights = weight_count(numbers.parameters)
    except BadRequest:
        return []
    one, base = weights * OF_CHECKPOINT / 1e9, weights * OF_BF16 / 1e9
    room = _tens_up(3 * one + base)
    return [
        f"A checkpoint of {numbers.parameters} weights that are all trained takes about "
        f"{one:,.0f} GB: {OF_CHECKPOINT} bytes a weight, as float32 with the two moments of AdamW. "
        f"Two that are kept, one that is being written and the base in bf16 ({base:,.0f} GB) take "
        f"{room:,} GB. With LoRA a checkpoint has a few hundred MB, and the base stays.",
        f"`rgt profile --need disk={room}` lists the platforms whose boxes have so much.",
    ]


def _tens_up(size: float) -> int:
    """A number of GB, rounded up to tens."""
    return int(-(-size // 10) * 10)


def _apart(line: str, numbers: Numbers) -> list[str]:
    return [
        "Yes, if the run doesn't hang on your login: `rgt start BOX job.yaml` runs it on the box "
        "by itself, and `rgt status BOX --wait` says from anywhere how it is.",
        "What you started by hand in an ssh session or a notebook ends with it. Start it in tmux: "
        "`tmux new -d -s train 'python -u train.py > run.log 2>&1'` (`rgt lookup --id GEN2`).",
    ]


def _duration(line: str, numbers: Numbers) -> list[str]:
    return [
        "It follows from the time of a step: steps = samples × epochs / (batch × GPUs × "
        "accumulation), times the seconds of one.",
        "`rgt rehearse job.yaml` trains a few steps, here or with `--on BOX`, and says how long "
        "they take. Of a run that trains, `rgt status BOX` says the time to its end.",
    ]


def _choice(line: str, numbers: Numbers) -> list[str]:
    """What tells two cards apart: whether the model fits one of them."""
    cards = list(dict.fromkeys(card for *_, card, _ in _cards(line)))
    named = {re.sub(r"-\d+GB$|-NVL$", "", card): card for card in reversed(cards)}
    if len(named) < 2:
        return []
    shown = list(reversed(named.values()))[:3]
    told = ", ".join(f"{card} {GPUS[card]:.0f} GiB" for card in shown)
    weights = f"--parameters {numbers.parameters}" if numbers.parameters else "config.json"
    return [
        f"Memory isn't pooled: each card must hold its share, {told}. What one card can't hold has "
        "to be divided over several (`--sharding fsdp`), which costs traffic at each step.",
        " and ".join(f"`rgt fit {weights} --gpu {card}`" for card in shown)
        + " say whether your model fits, and what each change saves.",
    ]


_BOX = r"(?:box|machine|server|node|gpus?|instance|pod|provider|host|cloud|platform|cluster|card)"


def _kind(
    name: str,
    english: str,
    chinese: str,
    examples: tuple[str, str],
    answer: Callable[[str, Numbers], list[str]],
    **options: bool,
) -> Kind:
    patterns = [re.compile(pattern, re.I | re.X) for pattern in (english, chinese)]
    return Kind(name, patterns[0], patterns[1], examples, answer, **options)


KINDS = (
    _kind(
        "elsewhere",
        rf"""\b(?:resum\w+|continu\w+|go(?:ing)?\ on|carry\ on|pick\ up|mov(?:e|ing)|migrat\w+|
        switch\w*|transfer\w*)\b.{{0,60}}\b(?:another|a\ different|a\ new|other|a\ second|elsewhere)
        \b(?:.{{0,20}}\b{_BOX})?""",
        r"""(?:换|另一?[台个张块]|别的|新的?).{0,8}(?:机器|服务器|实例|平台|显卡|云|卡).{0,12}
        (?:继续|接着|恢复|续训|续跑)|(?:继续|接着|恢复|续训|续跑).{0,14}
        (?:换|另一?[台个]|别的|新的?).{0,6}(?:机器|服务器|实例|平台|卡)|迁移.{0,12}(?:训练|机器|任务)""",
        ("how do I resume training on another machine?", "怎么换一台机器继续训练？"),
        _elsewhere,
    ),
    _kind(
        "again",
        r"""\bhow\ (?:do|can|to|would|should)\b.{0,14}\b(?:resume|continue)\b.{0,24}
        \b(?:train\w*|run|fine-?tun\w*)\b|\b(?:can|could)\ (?:i|we|it)\ (?:resume|continue)\b.{0,24}
        \b(?:train\w*|run)\b.{0,30}\b(?:interrupt\w*|stopped|checkpoint|left\ off)\b""",
        r"""(?:断了|中断|断掉|停了|打断|到一半).{0,8}(?:怎么|如何|怎样|可以|能不能|能否).{0,10}(?:继续|接着|续训|恢复)
        |(?:怎么|如何|怎样|怎么样).{0,4}(?:断点续[训传]|续训|接着训|继续训练|恢复训练|从断点)
        |(?:断点续[训传]|续训|接着训|继续训练|恢复训练).{0,4}(?:怎么|如何|怎样).{0,3}(?:操作|做|弄|用|设置)?\s*[?？]?\Z""",
        ("how do I resume training after an interruption?", "训练断了，怎么接着训？"),
        _again,
        names_failures=True,
    ),
    _kind(
        "interval",
        r"""\b(?:how\ (?:often|frequently)|(?:what|which|best|good)\ (?:interval|frequency)|
        every\ how\ many)\b.{0,60}(?:sav|checkpoint|ckpt)|
        \b(?:what|which|best|good)\b.{0,10}\b(?:sav\w+|checkpoint\w*)\ (?:interval|frequency)""",
        r"""(?:(?<!没)多久|多长时间|多少分钟|几分钟|多少步|几步|间隔|频率).{0,10}(?:(?<![显内])存|保存|checkpoint|ckpt|检查点)
        |(?:(?<![显内])存|checkpoint|ckpt|检查点).{0,12}(?:多久|多长时间|间隔|频率|多少步|几步|几次)""",
        (
            "how often should I save checkpoints on spot instances?",
            "抢占式实例上多久存一次 checkpoint 合适？",
        ),
        _interval,
        names_failures=True,
    ),
    _kind(
        "spot",
        r"""\b(?:can|could|should|may)\ (?:i|we|you|one)\b.{0,40}
        \b(?:spot|preemptible|interruptible)\b
        |\b(?:is|are)\b.{0,20}\b(?:spot|preemptible|interruptible)\b.{0,40}
        \b(?:ok|okay|safe|good|worth\w*|fine|suitable|reliable|idea|on[ -]demand)\b
        |\b(?:spot|preemptible|interruptible)\b.{0,20}\bor\b|\bor\ (?:spot|preemptible)\b""",
        r"""(?:抢占式?|竞价|spot).{0,20}(?:能|可以|可不可以|适合|靠谱|划算吗|敢|行不行|行吗|值不值)
        |(?:能|可以|该|要不要|适合).{0,14}(?:抢占|竞价|spot)""",
        ("can I use spot instances for training?", "抢占式实例能用来训练吗"),
        _spot,
    ),
    _kind(
        "disk",
        r"""\b(?:how\ (?:much|many|big|large)|what\ size)\b.{0,30}
        \b(?:disks?|storage|space|volume|ssd)\b""",
        r"""(?:多大|多少|几个?T|够不够).{0,10}(?:硬盘|磁盘|数据盘|盘|存储|空间)
        |(?:硬盘|磁盘|数据盘|盘|存储).{0,8}(?:多大|多少|够)""",
        (
            "how much disk do I need for a 70B model with checkpoints?",
            "70B 模型存 checkpoint 要多大的硬盘？",
        ),
        _disk,
    ),
    _kind(
        "utilisation",
        r"""\b(?:utili[sz]ation|gpu[ -]util|gpu\ (?:usage|use|load))\b""",
        r"(?:利用率|使用率|占用率|gpu[ -]?util)",
        ("is 40 % gpu utilisation bad?", "显卡利用率只有 40% 正常吗"),
        _utilisation,
    ),
    _kind(
        "alive",
        r"""\b(?:how|whether|if|is|are|tell|know|check|see)\b.{0,50}\b(?:alive|still\ (?:running|
        training|working|going|alive)|making\ progress|hung|stuck)\b""",
        r"""(?:怎么|如何|怎样|是不是|有没有).{0,14}(?:卡住|卡死|还在(?:跑|训练|运行)|挂了|活着|死了|在动)
        |(?:卡住|卡死|还在(?:跑|训练|运行)|挂了|活着).{0,6}(?:怎么(?:看|判断|知道)|还是)""",
        ("how do I know whether my training is alive or hung?", "怎么知道训练是卡死了还是还在跑？"),
        _alive,
    ),
    _kind(
        "apart",
        r"""\b(?:clos\w+|shut\w*|turn\w*\ off|sleep\w*|disconnect\w*|log\w*\ (?:out|off)|
        power\w*\ off)\b.{0,30}\b(?:laptop|computer|notebook|terminal|pc|mac\w*|ssh|lid)\b|
        \b(?:laptop|computer|terminal|lid)\b.{0,20}\b(?:clos\w+|off|sleep\w*|shut)""",
        r"(?:关|合上|断开|断网|休眠|退出).{0,6}(?:电脑|笔记本|终端|ssh|窗口|本机)|(?:电脑|笔记本).{0,6}(?:关|合上|休眠|断网)",
        ("can I close my laptop while it trains?", "电脑关了训练还会继续吗"),
        _apart,
    ),
    _kind(
        "duration",
        r"""\bhow\ long\ (?:does|do|will|would|should)\b.{0,40}
        \b(?:train\w*|fine-?tun\w*|finetun\w*|epochs?|finish)\b""",
        r"(?:训练|微调|跑完|训完|一个?epoch).{0,24}要(?:多久|多长时间|几个?小时|几天)",
        ("how long does it take to fine-tune 8B on a 4090?", "8B 在 4090 上微调要多久？"),
        _duration,
    ),
    _kind(
        "choice",
        r"\b(?:or|vs\.?|versus|better|than)\b",
        r"还是|哪个|对比",
        ("one H100 or four 4090?", "一张 H100 还是四张 4090？"),
        _choice,
    ),
    _kind(
        "fit",
        r"""\bfits?\b|\benough\b|\bhow\ (?:much|many)\b.{0,30}\b(?:v?ram|memory|gpus?|cards?)\b|
        \b(?:can|could|will|would|possible)\b.{0,30}\b(?:train|tune|q?lora|finetune|run)\b|
        \b(?:v?ram|memory|gpus?|cards?)\b.{0,24}\b(?:need|require)|
        \bneed\b.{0,20}\b(?:card|gpus?|v?ram|memory)\b|\bwhich\ (?:gpu|card)\b|
        \bhow\ many\ (?:[abhl]\d{2,3}|\d0\d0)""",
        r"""够吗|够用|够不够|够么|跑得[动起]|跑不跑得|放得下|装得下|能不能[训跑微装]|能[训跑微装放]|
        能.{0,4}(?:微调|训练)|[要需]几[张块]|(?:多少|多大|几张).{0,6}(?:显存|卡|gpu)|(?:显存|卡).{0,6}(?:多少|多大|几张)|爆显存吗""",
        (
            "does full fine-tuning of a 13B model fit on 2 A100 80GB?",
            "13B 全参微调两张 A100 80G 够吗",
        ),
        _fit,
    ),
)
