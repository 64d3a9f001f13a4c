"""Questions that no entry answers: the command or the platform's fact that does.

`answer_question` puts it into an answer. Of a platform's bill and data its page speaks, by
`platforms.questions`. For all else `KINDS` is one table of what people ask before anything has
failed. Each row has what must stand in a question of it, in English or Chinese, an example in
both, a text near it that it doesn't answer, and what answers it. Numbers are read by
`asked_numbers.read_numbers` alone, and a command holds nothing else of a question. A question that
no row answers begins with the fix of its nearest entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date

from ..catalogue import bundle
from ..platforms import questions as platform_questions
from . import asked_changed, asked_memory, asked_normal, asked_time
from .asked_numbers import Numbers, read_numbers
from .budget import first_sentence, opening
from .state import BY_LIKENESS, BY_WORDS, Answer
from .writer import FURTHER, WHOLE, shorten

CLOSEST = "None of these is sure; closest, each with the first step of its fix or check:"
CHECK_FIRST = "Run the check of this entry before you change anything:"
BESIDE = 2  # matches beside facts, so that titles have room too
ANY_BOX = "profiles/generic-ssh.md"  # the page of what holds for a box of any provider
NO_PAGE = (
    "There is no page on {name}. What holds for any Linux box is in the profile generic-ssh; "
    "what {name} bills after a stop, and what it deletes, only its own pages say."
)
WHICH = (
    "Name the platform (such as autodl, runpod or aws) for what it bills and deletes; "
    "`rgt profile` lists those that have a page."
)
# Words of somebody whose run has failed: an entry may explain that.
_FAILED = re.compile(
    r"\b(?:why|error|\w*exception|fail\w*|die[sd]?|dying|crash\w*|killed|oom|out of memory|panics?"
    r"|can't|cannot|deadlock\w*|stopped|restarted|rebooted|nothing is|traceback|doesn't|didn't)\b"
    r"|报错|失败|停了|(?<!卡)死了|装不下|为什么|为啥|爆了",
    re.I,
)
LONGEST = 600  # characters of a question, with what it tells beside
MOST_LINES = 6
LONGEST_ALONE = 160  # characters of a question that a kind which `tells` answers beside any claim
# No question: an error or a log stands in the text.
_REPORTS = re.compile(
    r"\w(?:Error|Exception)\b|Traceback|\b(?:error|failed):|\bFATAL\b|\[ERROR\]|"
    r"Tried to allocate|报错[:：]|重启了|被 ?kill"
)
_ASKS = re.compile(
    r"[?？]|\b(?:how (?:much|many|long|often|fast|expensive|do|can|to)|when (?:will|does)|"
    r"is it (?:normal|possible|ok|enough)|"
    r"please (?:explain|tell|help)|what(?:'s| is| are)|(?:v?ram|memory|hardware) requirements?)\b|"
    r"请问|求助|请教|吗|多少|多久|怎么|怎样|如何|够不够|能不能|几[张块个天]",
    re.I,
)
_END = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")  # of a sentence
_WITHOUT_ERROR = re.compile(r"\b(?:no|without(?: any)?) errors?\b|(?:没有?|不|未)报错", re.I)
# No news for long.
_SILENT = re.compile(
    r"\b(?:hours?|days?|night|morning)\b|\bis (?:it|this) normal|小时|半天|一天|一晚|很久|正常吗",
    re.I,
)
# Per cent of utilisation: from BUSY on nothing is said by it; below IDLE the card waits.
BUSY, IDLE = 90, 60


@dataclass(frozen=True)
class Kind:
    """One kind of question: the pattern of each language, a question of each, and its answer.

    `counter` is a text near it that another kind, an entry or nothing answers. `answer` takes the
    line and its numbers, and returns sentences; none where it can't tell. With `names_failures` a
    question may speak of a failure. With `describes` a text that asks nothing is answered too,
    where no entry is claimed. With `tells` a report may also be long, and hold an error or rows of
    a log, where no entry is claimed by a signature.
    """

    name: str
    english: re.Pattern[str]
    chinese: re.Pattern[str]
    examples: tuple[str, str]
    counter: str
    answer: Callable[[str, Numbers], list[str]]
    names_failures: bool = False
    describes: bool = False
    tells: bool = False

    def is_in(self, line: str) -> bool:
        """Whether a line is a question of this kind."""
        return bool(self.english.search(line) or self.chinese.search(line))


def answer_question(answer: Answer, text: str, today: date) -> Answer:
    """Return the answer with what a question asks for as its facts, or with the fix of its nearest
    entry as its lead; any other answer as it is.

    Such a question needs no log, so none is asked for.
    """
    asked = platform_questions.read(text)
    if asked:
        return _answer_about_platform(answer, asked, today)
    if any(match["confidence"] == "high" for match in answer.matches[:1]):
        return answer
    is_unproven = all(map(_rests_on_words, answer.matches))
    sentences = sentences_on(text, is_unsure=not answer.matches, is_unproven=is_unproven)
    if sentences:
        if sentences[0].startswith(asked_normal.NORMAL):
            # What only words speak for would contradict it.
            answer = replace(answer, matches=[m for m in answer.matches if not _rests_on_words(m)])
        return _with_facts(answer, sentences)
    return _with_lead(answer, text) if asked_in(text) else answer


def _rests_on_words(match: dict) -> bool:
    """Whether only words of an entry speak for a match."""
    return match["why"].startswith(BY_WORDS) or match["why"] == BY_LIKENESS


def _with_lead(answer: Answer, text: str) -> Answer:
    """The answer to a question that only an entry is near to: it begins with the entry's fix.

    Where the ranking claims nothing, the titles stand below with a sentence of each fix.
    """
    ask = answer.ask if _FAILED.search(text) else ""
    if not answer.matches:
        return replace(answer, lead=CLOSEST, ask=ask) if answer.also else answer
    first = answer.matches[0]
    action = first_sentence(opening(bundle.load().get(first["id"]).fix)).rstrip(".:")
    if first["confidence"] != "low":
        lead = f"Most likely “{first['title']}”: {action}."
    elif _rests_on_words(first):
        words = first["why"].removeprefix(BY_WORDS)
        named = "similar wording speaks" if words == BY_LIKENESS else f"the words {words} speak"
        lead = f"{CHECK_FIRST} only {named} for it. Where it holds: {action}."
    else:
        return answer
    return replace(answer, lead=lead, ask=ask)


def _with_facts(answer: Answer, facts: list[str]) -> Answer:
    decision = answer.decision if answer.first_failure else None
    brief = replace(answer, matches=answer.matches[:BESIDE], facts=facts, ask="", decision=decision)
    shorten(brief, WHOLE + FURTHER * max(0, len(brief.matches) - 3))
    return brief


def _answer_about_platform(
    answer: Answer, asked: platform_questions.Question, today: date
) -> Answer:
    """The platform's own facts. Without one the answer asks for its name, first of all where no
    entry is near: those of other platforms, and titles about failures, would lead away from it."""
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
    ask = NO_PAGE.format(name=asked.without_page) if asked.without_page else WHICH
    matches = [match for match in answer.matches if _is_general(match["id"])]
    near = _is_general if matches else _is_of_any_box
    return replace(
        answer,
        matches=matches,
        also=[title for title in answer.also if near(title["id"])],
        lead=answer.lead if matches else ask,
        ask=ask,
        decision=None if asked.without_page else answer.decision,
    )


def _is_general(entry_id: str) -> bool:
    """Whether an entry isn't about one platform of its own."""
    in_references = not bundle.load().get(entry_id).path.startswith("profiles/")
    return in_references or _is_of_any_box(entry_id)


def _is_of_any_box(entry_id: str) -> bool:
    return bundle.load().get(entry_id).path == ANY_BOX


def sentences_on(text: str, *, is_unsure: bool = False, is_unproven: bool = False) -> list[str]:
    """Return the sentences that answer a question of one of KINDS; none for any other text.

    With `is_unsure` no entry is claimed for the text, and what only describes may be answered.
    With `is_unproven` none is claimed by a signature, and a kind may tell of a longer report.
    """
    line = " ".join(text.split())
    asked = asked_in(text)
    described = line if is_unsure and _is_prose(text) else ""
    unproven = line if is_unproven and len(text) <= platform_questions.LONGEST_COMPARED else ""
    if not (asked or described or unproven):
        return []
    is_failed = bool(_FAILED.search(_WITHOUT_ERROR.sub(" ", line)))
    numbers = read_numbers(line)
    for kind in KINDS:
        if is_failed and not kind.names_failures:
            continue
        if (
            (kind.is_in(asked) and (len(line) <= LONGEST_ALONE or not kind.tells))
            or (kind.describes and kind.is_in(described))
            or (kind.tells and kind.is_in(unproven))
        ):
            sentences = kind.answer(line, numbers)
            if sentences:
                return sentences
    return []


def asked_in(text: str) -> str:
    """The sentences of a text that ask something, '' where it holds an error or a log."""
    if not _is_prose(text):
        return ""
    if platform_questions.is_question(text) or platform_questions.names_sizes(text):
        return " ".join(text.split())
    sentences = [" ".join(part.split()) for part in _END.split(text)]
    return " ".join(part for part in sentences if _ASKS.search(part))


def _is_prose(text: str) -> bool:
    """Whether a text is short and holds neither an error nor a log."""
    is_short = 0 < len(text.strip()) <= LONGEST and text.strip().count("\n") < MOST_LINES
    return is_short and not _REPORTS.search(text)


def _alive(line: str, numbers: Numbers) -> list[str]:
    lead = ""
    if _SILENT.search(line):
        lead = "No, that isn't normal unless its output is buffered or goes elsewhere. "
    elif numbers.busy_percent == 0:
        lead = "At 0 % the card computes nothing: the program waits. "
    return [
        f"{lead}Look whether anything still changes: the times of the log and of the newest "
        "checkpoint (`ls -lt`), power in `nvidia-smi`, and the use of processor and network, which "
        "a download or tokenising shows.",
        "Then `py-spy dump --pid PID` twice, a minute apart, for every rank: other lines mean that "
        "it works; the same line in a wait is what it hangs on, a loader, a lock or another rank "
        "(`rgt lookup --id T21`).",
        "Of a run of `rgt start`, `rgt status BOX` says its step and the age of its last line and "
        "checkpoint, and `rgt snapshot BOX` where each rank stands; take it before you end "
        "anything, then go on from the newest complete checkpoint.",
    ]


def _slower(line: str, numbers: Numbers) -> list[str]:
    return [
        "Compare samples a second, not the time of a step: with the same batch on each GPU, N of "
        "them do N batches a step, and with the same global batch each has less work for the same "
        "traffic. So a step never gets N times faster.",
        "If samples a second hardly rise, the traffic sets the pace. `NCCL_DEBUG=INFO` says what "
        "carries it: between machines `NET/IB`, not `NET/Socket` (`rgt lookup --id MN2`); within "
        "one, `nvidia-smi topo -m` shows NVLink or PCIe. `all_reduce_perf` of nccl-tests measures "
        "it.",
        "Then less traffic: a larger batch on each GPU, accumulation under `no_sync()`, and shards "
        "only within a machine (`rgt lookup --id D13`). Or the loader can't feed so many: time it "
        "alone (`rgt lookup --id U24`).",
    ]


def _time_limit(line: str, numbers: Numbers) -> list[str]:
    return [
        "Yes: save at intervals far shorter than the limit, to a folder that the next job sees, "
        "with optimizer, schedule and step, and let each job begin with the newest complete "
        "checkpoint (`resume_from_checkpoint`; `rgt lookup --id C3`).",
        "Slurm: `#SBATCH --signal=USR1@600` warns the program in time for a last save "
        "(`rgt lookup --id SLURM2`), and `sbatch --dependency=afterany:JOBID job.sh` or "
        "`scontrol requeue` starts the next part.",
        "Right after the start compare step, learning rate and loss with the last lines before.",
    ]


def _cost(line: str, numbers: Numbers) -> list[str]:
    hours = asked_time.duration(line, numbers)
    return [
        "Costs are hours × GPUs × the price of one for an hour, and storage. " + hours[0],
        "`rgt profile` lists the platforms with their prices and the day on which they were read.",
        *hours[1:],
    ]


def _need(line: str, numbers: Numbers) -> list[str]:
    return asked_memory.fit(line, numbers) or asked_memory.rule(line, numbers)


def _elsewhere(line: str, numbers: Numbers) -> list[str]:
    return [
        "Yes, from a whole checkpoint: weights, optimizer, schedule, step and random states, "
        "compared by hash after the copy, with the same data, config and packages; start with the "
        "trainer's option to resume, and compare step and loss with the last lines before.",
        "`rgt resume NEW_BOX --from OLD_BOX` does it with the copy at the durable place, which "
        "`durable` in the job names; add `--old-is-gone` for a box that is gone. Without such a "
        "place `rgt pull OLD_BOX` fetches the files while the old box exists; put the checkpoint "
        "into the job's `checkpoint.folder` there, and `rgt start NEW_BOX job.yaml`.",
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
    share = numbers.busy_percent
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


def _apart(line: str, numbers: Numbers) -> list[str]:
    return [
        "Yes, if the run doesn't hang on your login: `rgt start BOX job.yaml` runs it on the box "
        "by itself, and `rgt status BOX --wait` says from anywhere how it is.",
        "What you started by hand in an ssh session or a notebook ends with it. Start it in tmux: "
        "`tmux new -d -s train 'python -u train.py > run.log 2>&1'` (`rgt lookup --id GEN2`).",
    ]


# What a question about the time or the price of a training names, and words of other things.
_OF_TRAINING = (
    r"(?:\b(?:train\w*|fine-?tun\w*|pre-?train\w*|q?lora|sft|dpo|grpo|rlhf|epochs?|iters?)\b"
    r"|\b\d[\d,.]*k?\ steps\b|\bits?/s\b|\bs/it\b)"
)
_NO_TRAINING = (
    r".*\b(?:load|sav|download|upload|copy|compil|start\ up|wait|keep|kept|context|checkpoint"
    r"|warm|evaluat|tokeni[sz]|silent|stuck|hang|hung|slow|why)(?:\w*)\b"
)
_OF_TRAINING_ZH = r"(?:训|微调|lora|sft|dpo|epoch|[一每\d]\s?轮|跑(?:完|多久|要))"
# What a question asks that is about a number or a curve of a healthy run, perhaps.
_IS_NORMAL = (
    r"(?:\b(?:is|are|does|do|was)\b[^.?!]{0,60}\b(?:normal|expected|common|right|okay|ok|supposed|healthy|correct"
    r"|abnormal|a\ bug)\b|\bnormal\ ?\?|\bis\ (?:it|this|that)\b|\bsupposed\ to\b|\bbad\ sig\w+"
    r"|\bnormal\ running\b|\bany(?:one|body)?\ (?:has\ |have\ |meet\ |idea|clue)|\bexplanations?\b"
    r"|\bdid\ you\ also\b|\bwhy\b|\bwhat\ is\ the\b|\bshould\b)"
)
_IS_NORMAL_ZH = r"(?:正常|是不是|什么原因|原因|怎么回事|影响|為什麼|为什么|BUG|吗)"
_BOX = r"(?:box|machine|server|node|gpus?|instance|pod|provider|host|cloud|platform|cluster|card)"


def _kind(
    name: str,
    english: str,
    chinese: str,
    examples: tuple[str, str],
    counter: str,
    answer: Callable[[str, Numbers], list[str]],
    **options: bool,
) -> Kind:
    patterns = [re.compile(pattern, re.I | re.X) for pattern in (english, chinese)]
    return Kind(name, patterns[0], patterns[1], examples, counter, answer, **options)


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
        "how do I move the optimizer to the GPU?",
        _elsewhere,
    ),
    _kind(
        "time limit",
        r"""\b(?:time[ -]limit|wall[ -]?time|runs?\ out\ of\ (?:its\ )?time|
        max(?:imum)?\ (?:run)?time|
        (?:job|queue|slurm)\b.{0,30}\b(?:hours?|time)\b.{0,10}\blimit)\b.{0,120}\b(?:resum\w+|continu\w+|
        restart\w*|longer|finish\w*|split|requeue\w*|how)\b|
        \b(?:resum\w+|continu\w+|restart\w*|requeue\w*)\b.{0,60}
        \b(?:time[ -]limit|wall[ -]?time)\b""",
        r"""(?:时间限制|时长限制|最长(?:运行)?时间|跑不完|限时).{0,40}(?:继续|续训|接着|怎么|恢复)""",
        (
            "my slurm time limit is 24 hours, how do I continue the training?",
            "集群限时 24 小时，训练跑不完怎么继续？",
        ),
        "how do I set a time limit for the dataloader workers?",
        _time_limit,
        names_failures=True,
    ),
    _kind(
        "again",
        r"""\bhow\ (?:do|can|to|would|should)\b.{0,14}\b(?:resume|continue)\b.{0,24}
        \b(?:train\w*|run|fine-?tun\w*)\b|\b(?:can|could)\ (?:i|we|it)\ (?:resume|continue)\b.{0,24}
        \b(?:train\w*|run)\b.{0,30}\b(?:interrupt\w*|stopped|checkpoint|left\ off)\b|
        \bis\ it\ possible\ to\ (?:resume|continue)\b.{0,40}\b(?:train\w*|epoch|checkpoint)""",
        r"""(?:断了|中断|断掉|停了|打断|到一半).{0,8}(?:怎么|如何|怎样|可以|能不能|能否|想|希望|打算)
        .{0,10}(?:继续|接着|续训|恢复)
        |(?:怎么|如何|怎样|怎么样).{0,4}(?:断点续[训传]|续训|接着训|继续训练|恢复训练|从断点)
        |(?:断点续[训传]|续训|接着训|继续训练|恢复训练).{0,4}(?:怎么|如何|怎样).{0,3}(?:操作|做|弄|用|设置)?\s*[?？]?\Z""",
        ("how do I resume training after an interruption?", "训练断了，怎么接着训？"),
        "is the loss normal after resume?",
        _again,
        names_failures=True,
        describes=True,
    ),
    _kind(
        "interval",
        r"""\b(?:how\ (?:often|frequently)|(?:what|which|best|good)\ (?:interval|frequency)|
        every\ how\ many)\b.{0,60}(?:sav|checkpoint|ckpt)|
        \b(?:what|which|best|good)\b.{0,10}\b(?:sav\w+|checkpoint\w*)\ (?:interval|frequency)|
        \bhow\b.{0,20}\b(?:set|choose|pick)\b.{0,12}\b(?:save_steps|save_every|save_interval|
        save_strategy|every_n_\w+)""",
        r"""(?:(?<!没)多久|多长时间|多少分钟|几分钟|多少步|几步|间隔|频率).{0,10}(?:(?<![显内])存|保存|checkpoint|ckpt|检查点)
        |(?:(?<![显内])存|checkpoint|ckpt|检查点).{0,12}(?:多久|多长时间|间隔|频率|多少步|几步|几次)""",
        (
            "how often should I save checkpoints on spot instances?",
            "抢占式实例上多久存一次 checkpoint 合适？",
        ),
        "how often should I evaluate?",
        asked_time.interval,
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
        "which platforms notify before they take a spot box?",
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
        "how much disk did the last job write?",
        asked_memory.disk,
    ),
    _kind(
        "slower",
        r"""\b(?:multi(?:ple)?[ -]?(?:gpus?|nodes?)|(?:\d|two|four|eight|more|several)[ ]
        (?:gpus?|nodes?|cards|machines)|ddp|distributed)\b.{0,60}
        \b(?:slow(?:er)?|no\ (?:faster|speed-?up)|not\ (?:any\ )?
        faster|same\ (?:speed|time)|longer)\b.{0,40}\b(?:one|single|1|than|speed|gpu|node)\b|
        \b(?:slower|no\ faster|not\ (?:any\ )?faster|no\ speed-?up)\b.{0,40}\b(?:multi(?:ple)?[ -]?
        (?:gpus?|nodes?)|(?:\d|two|four|eight|more)\ (?:gpus|nodes|cards|machines))\b""",
        r"""(?:多卡|多机|双卡|多gpu|[两二四八248]张?卡|分布式|ddp).{0,24}(?:慢|没(?:有)?(?:加速|变快)|不比单卡快|一样快|更久)
        |单卡.{0,8}比.{0,4}多卡.{0,4}快""",
        ("why is training on 2 GPUs slower than on one?", "为什么多卡训练比单卡还慢？"),
        "why is validation on 2 GPUs worse than on one?",
        _slower,
        names_failures=True,
    ),
    _kind(
        "changed",
        r""".""",
        r""".""",
        (
            "the same code works on an A100 but fails on an H100, how do I find out why?",
            "同样的代码在 L40 上没问题，在 H100 上跑不起来，怎么查？",
        ),
        "does the same code also run on a single H100?",
        lambda line, numbers: asked_changed.answer(line),
        names_failures=True,
        tells=True,
    ),
    _kind(
        "memory at the start",
        rf"""\A(?=.*{_IS_NORMAL})(?=.*(?:\b(?:gpu|cuda|v?ram)\b.{{0,40}}\bmem\w*|\bmemory\b|\bvram\b).{{0,160}}
        \b(?:increas\w+|grow\w*|ris\w+|went\ up|goes\ up|chang\w+))""",
        rf"""\A(?=.*{_IS_NORMAL_ZH})(?=.*(?:显存|顯存).{{0,40}}(?:增加|上升|变大|涨|增长))""",
        (
            "GPU memory increases from 2400 MB to 2800 MB after the first iteration, "
            "is this normal?",
            "显存从 10G 增长到 12G，正常吗？",
        ),
        "does the memory of the host increase?",
        lambda line, numbers: asked_normal.memory(line),
        names_failures=True,
        tells=True,
    ),
    _kind(
        "flat start",
        rf"""\A(?=.*{_IS_NORMAL})
        (?=.*\b(?:flat|plateau\w*|stagnat\w+|stuck|not\ improv\w+|little\ to\ no\ decrease
        |learn\w*\ nothing)\b)(?=.*\b(?:loss|curve|accuracy|reward|score)\b)""",
        rf"""\A(?=.*{_IS_NORMAL_ZH})(?=.*loss.{{0,20}}(?:不动|不降|平台|没变))""",
        (
            "the loss is flat at 2.3 for 200 steps and then suddenly drops, is that normal?",
            "loss 前 200 步不动，然后突然下降，正常吗？",
        ),
        "the run is stuck in its first epoch, is it normal?",
        lambda line, numbers: asked_normal.plateau(line),
        names_failures=True,
        tells=True,
    ),
    _kind(
        "first loss",
        rf"""\A(?=.*{_IS_NORMAL})(?=.*\b(?:(?:start|begin|initial|first)\w*)\b.{{0,60}}\bloss|
        .*\bloss\b.{{0,60}}\b(?:start|begin|initial)\w*)
        (?=.*\b(?:llms?|pre-?train(?:ing)?|vocab\w*|tokens?
        |tokenizer|language\ models?|gpt\w*|llama\w*|qwen\w*|mla
        |projector|learning_rate)\b)(?!.*\b(?:grpo|ppo|rlhf)\b)""",
        rf"""\A(?=.*{_IS_NORMAL_ZH})(?=.*(?:初始|一开始|刚开始|起始).{{0,8}}loss)(?=.*(?:预训练|词表|llm|大模型|模型))""",
        (
            "pretraining a small LLM, the loss starts at 10.4, is this normal?",
            "预训练模型，初始 loss is 10.8，正常吗？",
        ),
        "why does the GRPO loss start at 0?",
        lambda line, numbers: asked_normal.first_loss(line),
        names_failures=True,
        tells=True,
    ),
    _kind(
        "gradient norm",
        rf"""\A(?=.*{_IS_NORMAL})(?=.*\bgrad\w*[_ ]norm\b)
        (?=.*\b(?:large|huge|inf|high|big|explod\w*|abnormal\w*))""",
        rf"""\A(?=.*{_IS_NORMAL_ZH})(?=.*(?:grad_norm|梯度范数).{{0,30}}(?:大|inf|爆))""",
        (
            "grad_norm is large, 800 at the beginning, and then decreases, is it normal?",
            "刚开始 grad_norm 很大，grad_norm 900，正常吗？",
        ),
        "what is the grad norm of a frozen layer?",
        lambda line, numbers: asked_normal.gradient_norm(line),
        names_failures=True,
        tells=True,
    ),
    _kind(
        "swings",
        rf"""\A(?=.*{_IS_NORMAL})(?=.*\b(?:utili[sz]ation|util(?:ity)?|gpu[ -]usage)\b)
        (?=.*\b(?:fluctuat\w*|jump\w*|swing\w*|chang\w+|spik\w+|oscillat\w+|varies|unstable))""",
        rf"""\A(?=.*{_IS_NORMAL_ZH})(?=.*(?:利用率|使用率).{{0,30}}(?:波动|跳|忽高忽低|不稳))""",
        (
            "gpu utilization fluctuates between 0% and 90%, is it normal?",
            "显卡利用率波动很大，正常吗？",
        ),
        "is 40 % accuracy normal?",
        lambda line, numbers: asked_normal.swings(line),
        names_failures=True,
        tells=True,
    ),
    _kind(
        "slow start",
        rf"""\A(?=.*{_IS_NORMAL})
        (?=.*\b(?:first|1st|initial)\ (?:few\ )?(?:steps?|iterations?|epochs?|batch(?:es)?)\b
        .{{0,60}}\b(?:slow\w*|long\w*|minutes?)\b)""",
        rf"""\A(?=.*{_IS_NORMAL_ZH})
        (?=.*第一(?:个|個)?\ ?(?:步|轮|輪|epochs?|steps?|iter\w*).{{0,12}}(?:慢|久))""",
        (
            "the first step takes two minutes, longer than all others, is this normal?",
            "第一个 epoch 特别慢，正常吗？",
        ),
        "is the first epoch of cosine decay right?",
        lambda line, numbers: asked_normal.slow_start(line),
        names_failures=True,
        tells=True,
    ),
    _kind(
        "warning",
        "|".join(words.replace(" ", r"\ ") for words, _ in asked_normal.WARNINGS),
        r"(?!)",
        (
            "may I ignore `use_cache=True` is incompatible with gradient checkpointing?",
            "`use_cache=True` is incompatible with gradient checkpointing，有影响吗？",
        ),
        "is the warning about lr_scheduler.step() harmless?",
        lambda line, numbers: asked_normal.warning(line),
        names_failures=True,
        describes=True,
    ),
    _kind(
        "alive",
        r"""\b(?:how|whether|if|is|are|tell|know|check|see)\b.{0,50}\b(?:alive|still\ (?:running|
        training|working|going|alive)|making\ progress|hung|stuck)\b|
        \bno(?:t?)\ (?:new|more|further|longer|any)?\b.{0,30}
        \b(?:logs?|outputs?|updates?|information|
        messages?|progress|lines?)\b.{0,50}\b(?:since|for|in)\b.{0,20}\b(?:hours?|day|days|minutes|
        night|morning)|
        \b(?:stuck|hangs?|hanging|hung|frozen|freezes)\b.{0,60}\b(?:no|without(?:\ any)?)\ error|
        \b(?:no|without(?:\ any)?)\ error.{0,40}\b(?:stuck|hangs?|hanging|hung|frozen|freezes)\b""",
        r"""(?:怎么|如何|怎样|是不是|有没有).{0,14}(?:卡住|卡死|还在(?:跑|训练|运行)|挂了|活着|死了|在动)
        |(?:卡住|卡死|还在(?:跑|训练|运行)|挂了|活着).{0,6}(?:怎么(?:看|判断|知道)|还是)
        |(?:几个?小时|半天|一天|一晚上?|很久|一直).{0,8}(?:没有?|不).{0,4}(?:输出|日志|更新|反应|动静|进度)
        |(?:卡住|卡着|卡死)(?:不动|了).{0,20}(?:没有?|不|也没)报错""",
        ("how do I know whether my training is alive or hung?", "怎么知道训练是卡死了还是还在跑？"),
        "is the learning rate still warming up?",
        _alive,
        describes=True,
    ),
    _kind(
        "utilisation",
        r"""\b(?:utili[sz]ation|gpu[ -]util|gpu\ (?:usage|use|load))\b""",
        r"(?:利用率|使用率|占用率|gpu[ -]?util)",
        ("is 40 % gpu utilisation bad?", "显卡利用率只有 40% 正常吗"),
        "is 40 % accuracy bad?",
        _utilisation,
    ),
    _kind(
        "apart",
        r"""\b(?:clos\w+|shut\w*|turn\w*\ off|sleep\w*|disconnect\w*|log\w*\ (?:out|off)|
        power\w*\ off)\b.{0,30}\b(?:laptop|computer|notebook|terminal|pc|mac\w*|ssh|lid)\b|
        \b(?:laptop|computer|terminal|lid)\b.{0,20}\b(?:clos\w+|off|sleep\w*|shut)""",
        r"(?:关|合上|断开|断网|休眠|退出).{0,6}(?:电脑|笔记本|终端|ssh|窗口|本机)|(?:电脑|笔记本).{0,6}(?:关|合上|休眠|断网)",
        ("can I close my laptop while it trains?", "电脑关了训练还会继续吗"),
        "how do I close a DataLoader?",
        _apart,
    ),
    _kind(
        "cost",
        rf"""\A(?!{_NO_TRAINING}|.*\bcosts?\ (?:in|of)\ (?!train|fine|a\b|an\b|the\b|lora|one\b|\d))
        (?=.*(?:\b(?:costs?|expensive|cheap\w*|price\w*|pay|dollars?|usd|euros?|money|budget)\b
        |[$€]))
        (?=.*{_OF_TRAINING})(?!.*\b(?:v?ram|memory)\b)""",
        rf"""\A(?=.*(?:多少钱|几块钱|花费|成本|费用|价格|贵不贵|预算))(?=.*{_OF_TRAINING_ZH})""",
        ("how much does it cost to fine-tune a 7B on an H100?", "在 H100 上微调一个 7B 要多少钱？"),
        "how much does a wrong learning rate cost in accuracy?",
        _cost,
    ),
    _kind(
        "duration",
        rf"""\A(?!{_NO_TRAINING})(?=.*{_OF_TRAINING})(?:
        (?=.*\bhow\ (?:long(?!\ (?:can|should|may|must|are)\b)|much\ time
        |many\ (?:gpu[ -]?)?(?:minutes|hours|days|weeks))\b)|
        (?!.*\b(?:v?ram|memory)\b)(?=.*(?:
        \bwhat(?:'s|\ is)\ (?:(?:the|my|its|our)\ )?eta\b|\bhow\ fast\ (?:is|are)\ (?:an?|one|\d)\b|
        \b(?:training|run)\ time\b|
        \bwhen\ (?:will|does|do|is|are)\b.{{0,60}}\b(?:finish\w*|done|ready|complete\w*|end)\b|
        \btime\b.{{0,12}}\b(?:to|for|of|does|needed|required)\b|
        \b(?:in|into|within|under)\ (?:a|one|two|\d+)\ ?
        (?:h|hours?|days?|nights?|weekends?|weeks?)\b|
        \b(?:a|one)\ (?:night|day|weekend|week)\b.{{0,20}}\benough\b)))""",
        rf"""\A(?!.*(?:下载|加载|保存|启动|排队|存一|等|慢|快|没多久|evaluat))
        (?=.*{_OF_TRAINING_ZH})(?=.*(?:
        多久|多长时间|多少时间|几个?小时|多少个?小时|几天|多少天|耗时|用时|时长))""",
        ("how long does it take to fine-tune 8B on a 4090?", "8B LoRA 一张 A100 要跑多久？"),
        "how long should my prompts be?",
        asked_time.duration,
        names_failures=True,
    ),
    _kind(
        "arithmetic",
        r"""\b(?:how|explain|derive[ds]?|where)\b.{0,60}\b(?:calculat\w+|comput\w+|deriv\w+|formula)\b.{0,60}
        (?<!out\ of\ )\b(?:v?ram|memory|gb)\b|
        \b(?:how|explain)\b.{0,30}\b(?:calculation|number|figure|formula)\b.{0,20}
        \b(?:deriv\w+|come|comes|made|obtained)\b|
        \bhow\b.{0,40}\b(?:v?ram|memory|gb)\b.{0,40}\b(?:calculat\w+|deriv\w+|formula)\b|\b(?:v?ram|memory|gb)\b.{0,90}\b(?:how|explain|derive[ds]?)\b
        .{0,40}\b(?:calculat\w+|deriv\w+|formula)\b""",
        r"(?:显存|内存).{0,12}(?:怎么|如何|怎样).{0,4}(?:算|计算|估算|推导)|(?:怎么|如何|怎样).{0,4}(?:算|计算|估算|推导).{0,12}显存",
        (
            "how is the memory of 112 GB for a 7B model calculated, by which formula?",
            "7B 全参微调的显存怎么算？",
        ),
        "how is the perplexity calculated?",
        asked_memory.arithmetic,
        names_failures=True,
    ),
    _kind(
        "need",
        r"""\bhow\ (?:much|many)\ (?:gpu\ |cuda\ |total\ )?(?:v?ram|memory|gpus?|cards?|gb)\b.{0,60}
        \b(?:need\w*|requir\w+|take\w*|consum\w+|necessary|enough|train\w*|fine-?tun\w*)|
        \b(?:v?ram|memory|gpu|hardware)\ (?:requirements?|needed|required|usage|consumption)\b
        .{0,60}\b(?:train\w*|fine-?tun\w*|lora|finetun\w*|model)\b|
        \b(?:train\w*|fine-?tun\w*|lora|finetun\w*)\b.{0,40}
        \b(?:v?ram|memory|gpu|hardware)\ requirements?\b|
        \b(?:is|are)\b.{0,40}\d\ ?gi?b?\b.{0,24}\benough\b|
        \bwhat\b.{0,20}\b(?:v?ram|memory|gpus?)\b.{0,20}\b(?:need\w*|requir\w+)\b""",
        r"""(?:训练|微调|lora|全参).{0,24}(?:需要|要|至少|占用?).{0,6}(?:多少|多大|几张?).{0,6}(?:显存|内存|卡|gpu)
        |(?:需要|要|至少).{0,4}(?:多少|多大)(?:的)?显存|显存(?:需求|要求|需要)""",
        (
            "how much VRAM is needed to fine-tune 7B? out of memory on 24 GB",
            "LoRA 微调 7B 需要多少显存？24G 爆了",
        ),
        "how many GPUs does the log name?",
        _need,
        names_failures=True,
    ),
    _kind(
        "choice",
        r"\b(?:or|vs\.?|versus|better|than)\b",
        r"还是|哪个|对比",
        ("one H100 or four 4090?", "一张 H100 还是四张 4090？"),
        "is AdamW better than SGD?",
        asked_memory.choice,
    ),
    _kind(
        "fit",
        r"""\bfits?\b|\benough\b|\bhow\ (?:much|many)\b.{0,30}\b(?:v?ram|memory|gpus?|cards?)\b|
        \b(?:can|could|will|would|possible)\b.{0,30}\b(?:(?:pre-?)?train|tune|q?lora|finetune|run)\b|
        \b(?:v?ram|memory|gpus?|cards?)\b.{0,24}\b(?:need|require)|
        \bneed\b.{0,20}\b(?:card|gpus?|v?ram|memory)\b|\bwhich\ (?:gpu|card)\b|
        \A[^?]{0,80}(?:\bon\b|@|\bwith\b|,)[^?]{0,24}(?:gi?b|[abhlvt]\d{1,3}s?|\d0\d0)\b[^?]{0,16}\Z|
        \bhow\ many\ (?:[abhl]\d{2,3}|\d0\d0)""",
        r"""够吗|够用|够不够|够么|跑得[动起]|跑不跑得|放得下|装得下|能不能[训跑微装]|能[训跑微装放]|
        能.{0,10}(?:微调|训练)|[要需]几[张块]|(?:多少|多大|几张).{0,6}(?:显存|卡|gpu)|(?:显存|卡).{0,6}(?:多少|多大|几张)|爆显存吗""",
        (
            "does full fine-tuning of a 13B model fit on 2 A100 80GB?",
            "13B 全参微调两张 A100 80G 够吗",
        ),
        "can I train with a frozen encoder?",
        asked_memory.fit,
    ),
)
