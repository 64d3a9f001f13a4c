"""Questions in words about a platform's bill, or about what becomes of data there.

`read` recognises one and names the platform and the facts that answer it. Reads no page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_OF_A_LINE = 200  # characters of one question
LONGEST = 160  # characters of a question; longer texts are reports
LONGEST_TOLD = 600  # and of one with what somebody tells beside
_ERROR = re.compile(r"\w(?:Error|Exception)\b|Traceback")
_SILENT = re.compile(
    r"\b(?:stuck|hangs?|hanging|hung|frozen|no (?:new |more )?\w+ (?:since|for))\b", re.I
)
# A model and a card in a few words, as one types them into a search box: SDXL on a 3090.
_SIZED = re.compile(
    r"""\A[^.!?:;]{0,40}(?<![\w.])(?:\d{1,3}(?:\.\d)?\ ?b|sd[ -]?xl|sd\ ?1\.5|flux)\b[^!?:;]{0,40}
    (?:\bon\b|@|\bwith\b|,)[^.!?:;]{0,24}
    (?:\d{2,3}\ ?gi?b|(?<![a-z])[abhlvt]\d{1,3}s?|\d0\d0)\b[^.!?:;]{0,16}\Z""",
    re.I | re.X,
)
# What people call a platform, beside the name of its page. The first that a question names counts.
CALLED = {
    "runpod": r"run ?pods?",
    "vastai": r"vast\.?ai|vast ai|on vast|vast(?=[上的\s]*[\u4e00-\u9fff])",
    "lambda": r"lambda(?: ?labs| cloud)?",
    "aws": r"aws|ec2|amazon|亚马逊云(?:科技)?",
    "gcp": r"gcp|gce|google cloud|google compute(?: engine)?|谷歌云",
    "autodl": r"auto ?dl|seeta ?cloud|视拓云|gpuhub",  # its company, and its overseas site
    "china": r"matpool|gpushare|矩池云?|恒源云?",
    "lanrui": r"lanrui|揽睿(?:星舟)?",
    "featurize": r"featurize",
    "colab": r"colab",
    "notebooks": r"kaggle",
    "paperspace": r"paperspace|digital ?ocean",
    "modal": r"modal",
    "nebius": r"nebius",
    "scaleway": r"scaleway",
    "slurm": r"slurm",
    "kubernetes": r"kubernetes|k8s|kubectl",
}
# Words of one platform, where none is named.
OF_ITS_OWN = {"runpod": r"pods?", "autodl": r"无卡(?:模式|开机)|弹性部署"}
# Rented GPUs, of which this catalogue has no page.
WITHOUT_PAGE = (
    "Alibaba Cloud", "Aliyun", "Azure", "Baseten", "Cerebrium", "CoreWeave", "Crusoe",
    "Cudo", "Databricks", "DataCrunch", "Exoscale", "FluidStack", "Genesis Cloud",
    "Hetzner", "Huawei Cloud", "Hyperbolic", "Hyperstack", "IBM Cloud", "JarvisLabs",
    "Lightning AI", "Linode", "Massed Compute", "Novita", "Oracle Cloud", "OVH", "OVHcloud",
    "Prime Intellect", "Replicate", "SaladCloud", "Shadeform", "Tencent Cloud",
    "TensorDock", "Thunder Compute", "Together AI", "Verda", "Vertex AI", "Voltage Park",
    "Vultr", "Compshare", "DAMODEL", "OpenBayes", "UCloud", "Volcengine",
    "阿里云", "百度智能云", "晨涧云", "丹摩", "共绩算力", "华为云", "火山引擎", "极链云", "京东云",
    "趋动云", "潞晨云", "模力方舟", "算家云", "腾讯云", "天翼云", "仙宫云", "优云智算", "智星云",
)  # fmt: skip
# A question as it is said, and one that is typed as into a search box.
_ASKS = re.compile(
    r"\s*(?:does|do|did|is|are|am|can|could|will|would|what|whats|how|which|when|where|who|why|"
    r"must|should|has|have|may)\b|.*[?？吗么嘛]\s*\Z",
    re.I | re.S,
)
_SEEKS = re.compile(
    r"""\b(?:do|does|will|can|is|are)\ (?:i|my|it|they|the)\b
    | \b(?:what|how|why|when|whether)\b
    | \ (?:billing|costs?|pricing|fees?|charges|retention)\s*\Z
    | [呢不]\s*\Z | ([\u4e00-\u9fff])[不没]\1  # 收不收, 会不会
    | 多少|多久|多长|几天|几个?小时|几个?月|怎么|怎样|如何|是否|为什么|为啥
    | (?:标准|规则|政策|方式|价格|费用|时限|期限)\s*\Z""",
    re.I | re.X,
)
_SENTENCE = re.compile(r"[.!。！;；]\s+\S|[。！；]\S")
_BREAK = re.compile(r"[.!?]\s+\S|[。！？；]\S")  # between two sentences: no single question
_CHOOSES = re.compile(r"还是|需要?多[大少]|要多[大少]")  # a question without a mark
_MONEY = re.compile(
    r"""\b(?:costs?(?!\ function)|bill(?:ed|ing|s|able)?|charg(?:es?|ed|ing)|
    pay(?:ing|s)?(?!\ attention)|paid|money|fees?|price[ds]?|pricing|expensive|cheap|credits?|
    refund)\b
    | (?<![浪消免])费(?![时劲力解])|免费[吗么]|(?<![省烧费])钱|价格|定价|单价|计价
    | 账单|算力金|退款""",
    re.I | re.X,
)
_AMOUNT = re.compile(
    r"""多少钱|价格|单价|定价|[一每]个?小时 | \bhow\ much\b | \bpric(?:es?|ing)\b
    | \bwhat\ (?:does|do|is|are)\b.*\bcosts?\b""",
    re.I | re.X,
)
_FREE = re.compile(
    r"\b(?:is|are)\b.{0,40}\bfree(?=\s*(?:[?？.,]|while|when|after|if|once|\Z))", re.I
)
_EMPTY = re.compile(
    r"""欠费|余额(?:不足|不够|用[完光]|为?零|没)|没钱了|\barrears\b|\boverdue\b
    | \bbalance\ (?:hits|is|at|of|reaches|runs|goes)\b
    | \bout\ of\ (?:money|credits?|funds|balance)\b""",
    re.I | re.X,
)
# What may be kept or lost, and what becomes of it.
_KEPT = re.compile(
    r"""\b(?:data(?:sets?)?|files?|folders?|director(?:y|ies)|disks?|drives?|volumes?|storage|
    checkpoints?|weights|outputs?|results?|work|everything|anything|instances?|pods?|box(?:es)?|
    machines?|vms?|env(?:s|ironments?)?|images?|snapshots?|home|rentals?)\b
    | (?<!\S)~?/\w | \bwhat\ (?:surviv|persist|remain|stays|is\ (?:kept|lost|deleted))
    | 数据|文件|盘|实例|主机|机器|服务器|环境|镜像|目录|权重|结果|代码|存储|东西|进程|checkpoint""",
    re.I | re.X,
)
_FATE = re.compile(
    r"""\b(?:surviv\w+|ke(?:ep|pt|eps)(?!\ \w+ing)|los[et]|deleted?s?|wiped?|gone|persist\w*|
    vanish\w*|disappear\w*|remains?|stays?(?!\ (?:pending|stuck|in|at|on|open|idle))|retain\w*|
    retention|happens?\ to|outlives?|erased?)\b
    | (?:会|能|被|自动|多久|几天|什么时候|是否)[^，。,;；]{0,8}
      (?:留|保存|丢|没[了吗么]?|清[空除理]|删|释放|回收|消失)
    | (?:留|保存|丢失?|没了?|清[空除理]|删[除掉]?|释放)
      (?:吗|么|不|嘛|多久|多长|几[天个]|的?时[间长限])
    | 还能[^，。,;；]{0,4}(?:恢复|找回) | 还在(?:吗|么|不|嘛|[?？]|\Z) | 在不在""",
    re.I | re.X,
)
# A program that fails, or a person who asks how to do something: no question on what is kept.
_ELSE = re.compile(
    r"""\b(?:error|exception|traceback|failed|fails|oom|nan|nccl|connection|loss|accuracy)\b
    | out\ of\ memory | 报错|错误|异常|失败|显存|内存|超时|拒绝|卡[住死在]
    | (?:怎么|怎样|如何|how\ (?:do|can|to)\b.{0,9}\b).{0,4}(?:删|清|释放|保存|delete|keep|save)""",
    re.I | re.X,
)
_TRAFFIC = re.compile(
    r"egress|traffic|bandwidth|download(?:ing)? (?:cost|fee)|流量.{0,4}[费钱]|[费钱].{0,6}流量",
    re.I,
)
_STORAGE = re.compile(
    r"\b(?:disks?|drives?|volumes?|storage|filesystems?|snapshots?|ebs)\b|盘|存储|镜像|环境", re.I
)
_RENTED = re.compile(
    r"\b(?:instances?|box(?:es)?|vms?|machines?|servers?|notebooks?|rentals?)\b|实例|主机", re.I
)
_MACHINE = re.compile(r"机器|服务器", re.I)
_STOP = re.compile(r"\bstop\w*|\bpaus\w+|\bshut|\boff\b|\bdealloc|关[机了掉]|停", re.I)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
# What people in China call a fact of a platform, in a few words and without asking.
_NAMED = {
    "term": re.compile(r"到期|包年包月|(?:包|按)[日周月年](?:付|计费)?"),
    "no gpu": re.compile(
        r"空闲\s?(?:gpu|显卡|卡)\s?不足|没有空闲(?:的)?\s?(?:gpu|显卡|卡)"
        r"|(?:gpu|显卡|卡)\s?(?:不足|不够|没了)[^，。]{0,6}(?:开不了机|无法开机|不能开机)"
        r"|(?:开不了机|无法开机|不能开机)[^。]{0,8}(?:gpu|显卡|卡)\s?(?:不足|不够|没了)",
        re.I,
    ),
    "proxy": re.compile(r"学术(?:资源)?加速|(?:自带|内置|默认)[^，。]{0,4}代理"),
    "elastic": re.compile(r"弹性部署"),
    "self stop": re.compile(r"(?:自动|定时|跑完|训练完(?:成)?(?:后|就)?)\s?(?:关机|停机)"),
}
_FAILS = re.compile(r"报错|错误|异常|失败|error|traceback|exception|不生效|没用", re.I)
BARE = 12  # characters of such words where no platform is named; more may be a report
WIDE = 3  # letters that a Chinese character counts for: it says about as much
# The facts that answer each kind of question, most telling first. What a disk costs stands with its
# limits.
FACTS = {
    "traffic": ("egress",),
    "nothing paid": ("limits", "survives", "stop_billing"),
    "stop": ("stop_billing", "survives", "quota"),
    "storage": ("quota", "stop_billing", "survives"),
    "bill": ("stop_billing", "price"),
    "amount": ("price", "stop_billing"),
    "bill and data": ("stop_billing", "survives", "price"),
    "data": ("survives", "quota", "paths"),
    "term": ("survives", "stop_billing"),
    "no gpu": ("survives", "price"),
    "proxy": ("network",),
    "elastic": ("scheduler",),
    "self stop": ("self_stop", "limits"),
}


@dataclass(frozen=True)
class Question:
    """What a question asks: the page's name ('' for none), the facts, most telling first.

    `without_page` is a provider that it names and that has no page. With neither, it is about the
    bill of a rented machine, and the answer hangs on whose it is.
    """

    platform: str
    facts: tuple[str, ...]
    without_page: str = ""


def read(text: str) -> Question | None:
    """The question that a text is; None for a report, an error, or a question of another kind."""
    if len(text) > 2 * LONGEST:
        return None
    line = " ".join(text.split())
    if named := _named_fact(line):
        return named
    length = len(line) + (WIDE - 1) * len(_CHINESE.findall(line))
    if length > LONGEST or not is_asked(line):
        return None
    facts = FACTS.get(_kind(line), ())
    if not facts:
        return None
    unknown = next((name for name in WITHOUT_PAGE if _named(line, re.escape(name))), "")
    platform = "" if unknown else _platform(line)
    is_rented = _RENTED.search(line) or (_STOP.search(line) and _MACHINE.search(line))
    is_off = facts in (FACTS["data"], FACTS["stop"]) and _STOP.search(line) and len(line) <= BARE
    if not (unknown or platform or ("stop_billing" in facts and is_rented) or is_off):
        return None
    return Question(platform, facts, unknown)


# Words of somebody whose run goes in one place and fails in another, and of a frequent warning.
_COMPARES = re.compile(
    r"\b(?:upgrad\w+|updating|downgrad\w+|git pull|no problem|as expected|all right|original setup"
    r"|same (?:code|script|environment|env|config\w*|hardwares?|settings?)|(?:are|is|runs?) fine"
    r"|(?:can )?work(?:s|ed|ing)? (?:fine|well|perfectly|great|ok|with|on|before|for me)"
    r"|(?:decreas\w+|converg\w+|runs?|trains?|behave\w*) (?:\w+ )?(?:normally|well|fine|the same)"
    r"|differently|incompatible with gradient checkpointing|do not match bucket)\b"
    r"|升级|没(?:有)?(?:任何)?问题|可以跑|能跑",
    re.I,
)
LONGEST_COMPARED = 4_000  # characters


def may_ask(text: str) -> bool:
    """Whether a text may be a question of any kind, tell of a run that is silent, or compare two
    runs; in Chinese a few words may be a question."""
    if len(text) <= LONGEST_COMPARED and _COMPARES.search(text):
        return True
    if len(text) > LONGEST_TOLD or _ERROR.search(text):
        return False
    is_short = len(text) <= 2 * LONGEST
    if not text.isascii() and is_short:
        return True
    return (
        "?" in text
        or "？" in text
        or names_sizes(text)
        or bool(_SILENT.search(text))
        or (is_short and is_asked(" ".join(text.split())))
    )


def names_sizes(text: str) -> bool:
    """Whether a text is a model and a card alone."""
    return len(text) <= LONGEST and bool(_SIZED.search(text.strip()))


def is_question(text: str) -> bool:
    """Whether a text is one short question, in a single line."""
    line = " ".join(text.split())
    if not line or len(line) > MOST_OF_A_LINE or "\n" in text.strip() or _BREAK.search(line):
        return False
    return is_asked(line) or bool(_CHOOSES.search(line))


def is_asked(line: str) -> bool:
    """Whether a line asks, by its first word or its end, or seeks as in a search box."""
    return bool(_ASKS.match(line) or (_SEEKS.search(line) and not _SENTENCE.search(line)))


def _named_fact(line: str) -> Question | None:
    """The question in words that name a fact of a platform, such as `autodl 学术加速`."""
    kind = next((kind for kind, words in _NAMED.items() if words.search(line)), "")
    if not kind:
        return None
    platform = _platform(line)
    if _FAILS.search(line) or len(line) > (LONGEST // WIDE if platform else BARE):
        return None
    if platform and kind == "term" and _MONEY.search(line):
        return None  # what a term costs is asked of the bill
    return Question(platform, FACTS[kind])


def _kind(line: str) -> str:
    """What a question is about, as a key of FACTS; '' for neither money nor data."""
    is_kept = _KEPT.search(line) and _FATE.search(line) and not _ELSE.search(line)
    is_stopped = _STOP.search(line)
    is_paid = _MONEY.search(line) or (is_stopped and _FREE.search(line))
    if _TRAFFIC.search(line):
        return "traffic"
    if _EMPTY.search(line) and (is_kept or is_paid):
        return "nothing paid"
    if not is_paid:
        return "data" if is_kept else ""
    if is_stopped:
        return "stop"
    if _STORAGE.search(line):
        return "storage"
    if is_kept:
        return "bill and data"
    return "amount" if _AMOUNT.search(line) else "bill"


def provider_without_page(name: str) -> str:
    """The provider that a name means and that has no page, as it is written; '' for any other."""
    return next((known for known in WITHOUT_PAGE if known.lower() == name.strip().lower()), "")


def page_called(name: str) -> str:
    """The page of the platform that people call by this name; '' for any other name."""
    named = (page for page, words in CALLED.items() if re.fullmatch(words, name.strip(), re.I))
    return next(named, "")


def _platform(line: str) -> str:
    """The page of the platform that a question names first; '' if it names none."""
    for words in (CALLED, OF_ITS_OWN):
        places = {name: found.start() for name in words if (found := _named(line, words[name]))}
        if places:
            return min(places, key=lambda name: places[name])
    return ""


def _named(line: str, words: str) -> re.Match[str] | None:
    return re.search(rf"(?<![a-z])(?:{words})(?![a-z])", line, re.I)
