"""Reports of what works in one place and fails in another: what differs by the text, and how to
find which of it does it.

Only versions, cards and counts are taken from a text, by patterns of their own.
"""

from __future__ import annotations

import re

_PACKAGE = (
    r"(?:torch(?:vision|audio)?|pytorch(?:[ -]lightning)?|lightning|transformers|trl"
    r"|peft|accelerate"
    r"|deepspeed|vllm|cuda|cudnn|python|numpy|bitsandbytes|flash[ -]attn|xformers|datasets|triton"
    r"|diffusers|unsloth|nccl|driver|tokenizers|timm|mmcv|megatron(?:[ -]core)?)"
)
_NUMBER = r"v?(\d{1,4}(?:\.\d{1,4}){1,4}(?:[.+-]?(?:post|dev|rc|cu|git)[\w.]{0,12})?)(?![\w]*\.\d)"
_IS = r"(?:[\s=:,(`*~]|version|is|to|from|of|with)*"
_VERSION = re.compile(rf"(?<![\w.-])({_PACKAGE}){_IS}{_NUMBER}", re.I)
# A second version behind the first: "1.6 to 1.7", "==1.10 **VS** torch==2.0".
_SECOND = re.compile(
    rf"\A[\s`*)]*(?:vs\.?|versus|to|->|→|and|or|到|升级到|和)[\s`*]*(?:{_PACKAGE})?{_IS}{_NUMBER}",
    re.I,
)
_BUILT_WITH = re.compile(r"used to build PyTorch", re.I)  # a row of collect_env
_PATHS = re.compile(r"\S*[\\/]\S*")
_BARE_PYTHON = re.compile(r"(?<!\w)py(?:thon)?\s?([23])(?![\d.])", re.I)
_SAME_NAME = {"pytorch": "torch", "pytorch-lightning": "lightning"}
MOST_DIFFERENCES = 4

# What a text of this kind says: that it goes in one place, and that it doesn't in another.
_GOES = re.compile(
    r"\b(?:work(?:s|ed|ing)?|fine|no (?:problems?|issues?)|normally|well|all right|as expected"
    r"|converg(?:es|ing|ed)|coverging|can run|ran|original setup|is faster)\b"
    r"|没(?:有)?(?:任何)?问题|正常(?!吗|嘛|么)|可以跑|能跑",
    re.I,
)
# What looks like it and says the contrary, or nothing.
_NOT_GOES = re.compile(
    r"(?:n't|n’t|\bnot|\bnever|\bno longer|\bnor|\bcannot|\bis it|\bas well|\bwell as|\bworkaround)"
    r"(?: \w+)? ?(?:work\w*|fine|converg\w+|normally|well)?|\bto work\b|\bworking on\b"
    r"|\bwork (?:with|on) (?:it|this)\b|不(?:能|可以)跑",
    re.I,
)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_FAILS = re.compile(
    r"\b(?:fail\w*|errors?|nan|oom|out of memory|hangs?|stuck|freez\w+|crash\w*|slow\w*"
    r"|issues?|problem"
    r"|broke\w*|breaks?|degradation|never|(?:doesn|don|can|won|isn|didn)'?t|(?:does|do|can|is)\s?not"
    r"|not working|bug|differen\w+|corrupt\w*|increas\w+)\b|报错|不行|跑不起来|卡|失败|不收敛|慢",
    re.I,
)
# That it is about two places: an upgrade, another card, another machine, more cards.
_UPGRADE = re.compile(
    r"\b(?:upgrad\w+|updat(?:e|ed|ing)|downgrad\w+|git pull|(?:old|new|newer|previous"
    r"|latest|older) versions?"
    r"|versions? (?:is|are) different|only (?:the )?\w+ version)\b|升级|降级|更新|新版|旧版",
    re.I,
)
_TWO_PLACES = re.compile(
    r"\b(?:same|exact|identical|also|but|while|whereas|however|only|vs\.?|versus|than|before|previous(?:ly)?"
    r"|instead|although)\b|但|而|只有|就在|同样|相同|之前|换",
    re.I,
)
# From one version to another, with another outcome.
_MOVED = re.compile(
    r"\b(?:upgrad\w+|updat\w+|downgrad\w+|changing|switch\w+)\b|升级|降级|\*\*vs\*\*", re.I
)
_BEFORE_AFTER = re.compile(
    r"\bbefore +(?:\w+ ){0,2}(?:upgrad|updat|pull)|\b(?:after|since) (?:\w+ ){0,2}"
    r"(?:upgrad\w*|updat\w*|git pull)|升级(?:之?后|完)|更新(?:之?后|完)",
    re.I,
)
_SAME = re.compile(r"\b(?:same|identical|exact|moved?|also)\b|同样|相同|一样|换", re.I)
_ONE_GPU = re.compile(r"\b(?:single|one|1)[ -](?:gpu|card)s?\b|单卡|一张卡", re.I)
_MANY_GPUS = re.compile(
    r"\b(?:multi(?:ple)?|two|several|more|[2-8])[ -]?(?:gpus?|cards)\b"
    r"|\bgpus? (?:is|are)? ?(?:larger|more|greater) than (?:1|one)\b|多卡|多张卡|双卡",
    re.I,
)
_MACHINES = {
    "Colab": r"\bcolab\b",
    "Kaggle": r"\bkaggle\b",
    "SageMaker": r"\bsagemaker\b",
    "Docker": r"\bdocker (?:image|container)\b|容器里",
    "Windows": r"\bwindows\b|\bwin(?:10|11)\b",
    "your own machine": r"\b(?:local(?:ly)?|laptop|my (?:own )?(?:pc|machine|desktop))\b"
    r"|本地|自己的电脑",
    "a server": r"\b(?:on|to|my|our|in) (?:a |the |my |our )?(?:\w+ )?(?:server|cluster|cloud)\b"
    r"|服务器|集群",
}
_SERVES = re.compile(r"\binference\b|\bserv(?:e|ing)\b|推理", re.I)  # no training
_SLOWER = re.compile(r"\bslow\w*|longer|degradation|training time|\bspeed\b|慢", re.I)
_MEMORY = re.compile(r"\boom\b|out of memory|memory|显存", re.I)
_HANGS = re.compile(r"\b(?:hangs?|stuck|freez\w+)\b|卡", re.I)
_VALUES = re.compile(r"\bnan\b|\bloss|accuracy|converg|corrupt|metric|result|收敛|精度", re.I)

# The compute capability of a card that names it: NVIDIA's table, read 2026-11-30.
# In words: a card's name may be that of an entry.
CAPABILITY = {
    "7.0": "V100",
    "7.5": "T4 RTX-2080",
    "8.0": "A100 A30",
    "8.6": "A10 A40 A6000 RTX-3090 RTX-3080 RTX-3060",
    "8.9": "L4 L40 L40S RTX-4090 RTX-4080",
    "9.0": "H100 H200 H20 GH200",
    "10.0": "B200",
    "12.0": "RTX-5090 RTX-5080",
}
_CARD = re.compile(
    r"(?<![a-z\d])(?:rtx[ -]?|gtx[ -]?|titan[ -]?)?"
    r"(a100|a10g?|a30|a40|a6000|b200|gh200|h100|h200|h20|l40s?|l4|t4|v100|[2-5]0[6-9]0)(?![a-z\d])",
    re.I,
)


def versions_in(line: str) -> dict[str, list[str]]:
    """The versions of each package that a text names, in the order of the text."""
    line = _BUILT_WITH.sub(" ", line)
    found: dict[str, list[str]] = {}
    for match in _VERSION.finditer(line):
        name = re.sub(r"\s", "-", match[1].lower())
        kept = found.setdefault(_SAME_NAME.get(name, name), [])
        second = _SECOND.match(line[match.end() :][:60])
        kept += [one for one in [match[2], second and second[1]] if one and one not in kept]
    bare = sorted({each[1] for each in _BARE_PYTHON.finditer(line)})
    if len(bare) > 1:
        found["python"] = bare
    return found


def _differs(versions: list[str]) -> bool:
    """Whether any two are not the same one, written shorter."""
    shortest = min(versions, key=len)
    return any(not one.startswith(shortest) for one in versions)


def cards_in(line: str) -> list[str]:
    """The cards that a text names, each once, in its order."""
    names = [found[1].upper() for found in _CARD.finditer(line)]
    return list(dict.fromkeys(f"RTX {name}" if name[0].isdigit() else name for name in names))


def _capability(card: str) -> str:
    name = card.replace(" ", "-").removesuffix("G")
    return next((number for number, cards in CAPABILITY.items() if name in cards.split()), "")


def answer(line: str) -> list[str]:
    """What differs between the place where it works and the one where it fails, and what to try;
    nothing where a text doesn't tell of two such places."""
    line = _PATHS.sub(" ", line)
    goes = " ".join(
        part for part in _SENTENCE.split(line) if _GOES.search(_NOT_GOES.sub(" ", part))
    )
    if not _FAILS.search(line):
        return []
    upgrade = bool(_UPGRADE.search(line))
    versions = {name: kept for name, kept in versions_in(line).items() if _differs(kept)}
    named = [one for kept in versions.values() for one in kept]
    if versions and (any(one in goes for one in named) or _MOVED.search(line)):
        return [_differ(_listed(versions)), *_try_versions(versions), _whole(line)]
    cards = cards_in(line)
    if len(cards) == 2 and cards_in(goes) and _TWO_PLACES.search(line):
        return [_differ(" and ".join(cards)), *_try_cards(cards), _whole(line)]
    is_about_number = _ONE_GPU.search(goes) and _MANY_GPUS.search(line) and not _SERVES.search(line)
    if is_about_number and (_HANGS.search(line) or not _VALUES.search(line)):
        return [_differ("one GPU and several"), *_try_several(), _whole(line)]
    places = _places(line)
    if len(places) == 2 and _places(goes) and _TWO_PLACES.search(line) and _SAME.search(line):
        return [_differ(" and ".join(places)), *_try_machines(), _whole(line)]
    if upgrade and goes and _BEFORE_AFTER.search(line):
        return [
            "Find out first what the upgrade moved: it takes other packages along. "
            "`pip freeze` in the environment that works, or the versions in an old log or W&B run, "
            "beside `pip freeze` of this one, and `diff` of both lists (`rgt lookup --id U29`).",
            *_try_versions({}),
            _whole(line),
        ]
    return []


def _places(text: str) -> list[str]:
    return [name for name, words in _MACHINES.items() if re.search(words, text, re.I)]


def _differ(what: str) -> str:
    return f"By your text these differ between the run that works and the one that fails: {what}."


def _listed(versions: dict[str, list[str]]) -> str:
    most = list(versions.items())[:MOST_DIFFERENCES]
    return "; ".join(f"{name} {' and '.join(kept[:3])}" for name, kept in most)


def _try_versions(versions: dict[str, list[str]]) -> list[str]:
    if len(versions) == 1 and "python" not in versions and not {"cuda", "driver"} & set(versions):
        (name, kept) = next(iter(versions.items()))
        named = name.replace(" ", "-")
        first = (
            f"Change {named} alone, in a copy of the environment, and run 50 steps with each: if "
            f"it decides, halve the releases between the two (`pip index versions {named}`) until "
            "two neighbours are left, and read the notes of the later one. If it doesn't, another "
            "package moved with it."
        )
    else:
        first = (
            "Start from the environment that works and bring over half of what differs; run 50 "
            "steps; take the half that fails and halve again. Change torch with its CUDA wheel as "
            "one, and the trainer (transformers, TRL, Lightning) before it."
        )
    return [first, "Until it is found, train with the versions that work; write them down."]


def _try_cards(cards: list[str]) -> list[str]:
    numbers = [_capability(card) for card in cards]
    named = ""
    if all(numbers) and numbers[0] != numbers[1]:
        named = f" ({cards[0]} has {numbers[0]}, {cards[1]} {numbers[1]})"
    return [
        f"What is compiled is made for compute capabilities{named}: torch itself and each "
        'extension that was built on the other machine. `python -c "import torch; '
        "print(torch.__version__, "
        'torch.cuda.get_arch_list(), torch.cuda.get_device_capability())"`; build extensions anew '
        "on this card (`rgt lookup --id ENV1`).",
        "If it computes but otherwise: one batch, fixed seed and fp32 on both, once more with "
        "`NVIDIA_TF32_OVERRIDE=0` and with `torch.backends.cuda.enable_flash_sdp(False)`; the "
        "switch that makes the losses agree names the kernel. `rgt health BOX` says whether the "
        "card itself reckons wrongly.",
    ]


def _try_several() -> list[str]:
    return [
        "First without your program: `NCCL_DEBUG=INFO torchrun --nproc-per-node=2 t.py` with an "
        "`all_reduce` alone. If that hangs too, it is the machine: try `NCCL_P2P_DISABLE=1` "
        "(`rgt lookup --id HW3`).",
        "If it passes, it is the program: `py-spy dump` of each rank while it stands "
        "(`rgt lookup --id D19`), then two ranks with batch, loader and loss of the run on one "
        "GPU.",
    ]


def _try_machines() -> list[str]:
    return [
        "On both: `python -m torch.utils.collect_env`, `pip freeze`, the commit, and the number of "
        "files with `sha256sum` of a few; `diff` shows what else differs (`rgt lookup --id U29`).",
        "Then one fixed batch with fixed seed and loaded weights in both: another first loss means "
        "other data, preparation or weights; the same loss, and gradients that part, kernels or "
        "precision.",
    ]


def _whole(line: str) -> str:
    """What compares the two runs as a whole, and where this failure is explained."""
    compare = (
        "`rgt probe --json good.json -- python train.py` where it works and `rgt probe --compare "
        "good.json -- python train.py` where it doesn't list versions, settings and data that "
        "differ; `rgt lookup --good good.log --log bad.log` compares the logs."
    )
    if _SLOWER.search(line):
        return f"{compare} Slower with the same code: `rgt lookup --id T27`."
    if _MEMORY.search(line):
        return f"{compare} What fills the memory in each: `rgt lookup --id M18`."
    if _HANGS.search(line):
        return f"{compare} Where it stands: `py-spy dump` (`rgt lookup --id T21`)."
    if _VALUES.search(line):
        return f"{compare} Which layer differs first: `rgt lookup --id P9`."
    return compare
