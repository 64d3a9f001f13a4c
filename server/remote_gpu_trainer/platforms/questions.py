"""Questions in words about a platform's bill, or about what becomes of data there.

`read` recognises one and names the platform and the facts that answer it. Reads no page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 160  # characters of a question; longer texts are reports
MOST_FACTS = 3
# What people call a platform, beside the name of its page. The first that a question names counts.
CALLED = {
    "runpod": r"run ?pods?",
    "vastai": r"vast\.?ai|vast ai|on vast",
    "lambda": r"lambda(?: ?labs| cloud)?",
    "aws": r"aws|ec2|amazon",
    "gcp": r"gcp|gce|google cloud|google compute(?: engine)?",
    "autodl": r"auto ?dl",
    "china": r"matpool|gpushare|lanrui|矩池云|恒源云|揽睿(?:星舟)?",
    "featurize": r"featurize",
    "colab": r"colab",
    "notebooks": r"kaggle",
    "paperspace": r"paperspace|digital ?ocean",
    "modal": r"modal",
    "nebius": r"nebius",
    "slurm": r"slurm",
    "kubernetes": r"kubernetes|k8s|kubectl",
}
OF_ITS_OWN = {"runpod": r"pods?"}  # words of one platform, where none is named
# Rented GPUs, of which this catalogue has no page.
WITHOUT_PAGE = (
    "Alibaba Cloud", "Aliyun", "Azure", "Baseten", "Cerebrium", "CoreWeave", "Crusoe",
    "Cudo", "Databricks", "DataCrunch", "Exoscale", "FluidStack", "Genesis Cloud",
    "Hetzner", "Huawei Cloud", "Hyperbolic", "Hyperstack", "IBM Cloud", "JarvisLabs",
    "Lightning AI", "Linode", "Massed Compute", "Novita", "Oracle Cloud", "OVH", "OVHcloud",
    "Prime Intellect", "Replicate", "SaladCloud", "Scaleway", "Shadeform", "Tencent Cloud",
    "TensorDock", "Thunder Compute", "Together AI", "Verda", "Vertex AI", "Voltage Park",
    "Vultr", "阿里云", "华为云", "腾讯云",
)  # fmt: skip
_ASKS = re.compile(
    r"\s*(?:does|do|did|is|are|am|can|could|will|would|what|whats|how|which|when|where|who|why|"
    r"must|should|has|have|may)\b|.*[?？吗]\s*\Z",
    re.I | re.S,
)
# What is asked about, and the facts that say it. Their order is that of an answer.
TOPICS = (
    (re.compile(r"egress|traffic|bandwidth|download(?:ing)? (?:cost|fee)|流量", re.I), ("egress",)),
    (
        re.compile(
            r"\b(?:costs?|bill(?:ed|ing|s)?|charg(?:es?|ed|ing)|pay(?:ing|s)?|paid|money|fees?|"
            r"price[ds]?|pricing|expensive|cheap|credits?|refund)\b|扣费|计费|收费|价格|多少钱|费用",
            re.I,
        ),
        ("stop_billing", "price"),
    ),
    (
        re.compile(
            r"\b(?:surviv\w+|ke(?:ep|pt|eps)|los[et]|deleted?s?|wiped?|gone|persist\w*|vanish\w*|"
            r"disappear\w*|remains?|happens? to|outlives?|erased?)\b|保留|丢|没了|清空|删除",
            re.I,
        ),
        ("survives", "quota", "paths"),
    ),
)
_RENTED = re.compile(
    r"\b(?:instances?|box(?:es)?|vms?|machines?|servers?|notebooks?|rentals?)\b|实例|主机", re.I
)
_STOP = re.compile(r"\bstop\w*|\bpaus\w+|\bshut|关机|停", re.I)


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
    if len(line) > LONGEST or not _ASKS.match(line):
        return None
    topics = [facts for pattern, facts in TOPICS if pattern.search(line)]
    if not topics:
        return None
    facts = [topic[at] for at in range(3) for topic in topics if at < len(topic)]
    if "egress" in facts:
        facts = ["egress"]
    elif "stop_billing" in facts and _STOP.search(line):
        facts = ["stop_billing", "survives", "quota"]  # what a disk costs stands with its limits
    unknown = next((name for name in WITHOUT_PAGE if _named(line, re.escape(name))), "")
    platform = "" if unknown else _platform(line)
    if not (unknown or platform or ("stop_billing" in facts and _RENTED.search(line))):
        return None
    return Question(platform, tuple(dict.fromkeys(facts))[:MOST_FACTS], unknown)


def provider_without_page(name: str) -> str:
    """The provider that a name means and that has no page, as it is written; '' for any other."""
    return next((known for known in WITHOUT_PAGE if known.lower() == name.strip().lower()), "")


def _platform(line: str) -> str:
    """The page of the platform that a question names first; '' if it names none."""
    for words in (CALLED, OF_ITS_OWN):
        places = {name: found.start() for name in words if (found := _named(line, words[name]))}
        if places:
            return min(places, key=lambda name: places[name])
    return ""


def _named(line: str, words: str) -> re.Match[str] | None:
    return re.search(rf"(?<![a-z])(?:{words})(?![a-z])", line, re.I)
