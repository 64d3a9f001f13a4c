"""Questions in words about a platform's bill or data: recognised, and answered from its page."""

import re
from datetime import date, timedelta

import pytest
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.platforms import profile, questions, showing, teardown

BILL = ("stop_billing", "survives", "quota")
DAY = date(2026, 11, 27)
ASKED = [
    ("does a stopped pod cost", "runpod", BILL),
    ("Does powering off the VM from ssh stop the charges on Lambda?", "lambda", BILL),
    (
        "is my data on vast.ai kept when the instance is stopped?",
        "vastai",
        ("survives", "quota", "paths"),
    ),
    ("Lambda 关机后还收费吗", "lambda", BILL),
    ("is egress free on nebius", "nebius", ("egress",)),
    ("what does an H100 cost on GCP?", "gcp", ("price", "stop_billing")),
    ("do k8s pods cost when they are stopped", "kubernetes", BILL),
]
# As renters type them.
RENTERS = [
    ("AutoDL 关机后收不收费", "autodl"),
    ("autodl 无卡模式开机多少钱一小时", "autodl"),
    ("AutoDL欠费了数据还在吗", "autodl"),
    ("autodl 数据盘扩容怎么收费", "autodl"),
    ("autodl 包月到期忘了续费，数据盘会删吗", "autodl"),
    ("恒源云 停机 收费吗", "china"),
    ("恒源云 hy-tmp 数据能保存几天", "china"),
    ("矩池云停止之后还要钱吗", "china"),
    ("矩池云释放机器后 /mnt 里的数据会丢吗", "china"),
    ("揽睿 关机 数据还在吗", "lanrui"),
    ("featurize 关机还扣钱吗", "featurize"),
    ("featurize云盘超过免费额度怎么算钱", "featurize"),
    ("优云智算关机收费不", "without a page: 优云智算"),
    ("丹摩智算 停机还要收钱么", "without a page: 丹摩"),
    ("极链云关机之后数据会不会删", "without a page: 极链云"),
    ("runpod停掉pod以后还扣费不", "runpod"),
    ("vast上的实例停了，数据会保留多长时间", "vastai"),
    ("colab断开后文件还在吗", "colab"),
    ("租的服务器关机了还扣费吗", ""),
    ("想问下 autodl 余额不足 会删我的数据么", "autodl"),
    ("runpod stopped pod still charged?", "runpod"),
    ("autodl powered off billing", "autodl"),
    ("aws ec2 stopped instance ebs still billed?", "aws"),
    ("runpod what survives a terminate", "runpod"),
    ("featurize, do files outside work survive a return?", "featurize"),
    ("how long are colab files kept", "colab"),
    ("does modal bill idle containers", "modal"),
    ("vultr stopped instance, still billed?", "without a page: Vultr"),
    ("is gpushare free while powered off", "china"),
    ("azure vm deallocated do i pay for the disk", "without a page: Azure"),
]
FAILURES = [
    "autodl 训练到一半 CUDA out of memory 怎么办？",
    "矩池云 ssh 连接被拒绝，是不是密码错了？",
    "autodl 训练 loss 变成 nan 怎么回事",
    "autodl 上 dataloader worker 被 killed，丢失进程 怎么解决",
    "vast.ai nccl timeout 等了多久都不动",
    "训练结束后显存没有释放，为什么",
    "恒源云 保存 checkpoint 时报错 OSError 磁盘配额超限",
    "runpod cuda driver version is insufficient, why?",
    "colab runtime disconnected while training, how to resume from checkpoint",
    "why does the loss not keep decreasing on autodl?",
]
OTHERS = [
    "RuntimeError: CUDA out of memory. 20 MiB free",
    "Is it normal that the loss goes down and up again?",
    "how do I free the GPU memory of a killed process on my machine",
    "Trained with your data on colab, 4 hours, 70 epochs. The prediction is only black. Recommendations?",
    "Runpod charges for a stopped pod",  # a statement: it gets entries, and titles
    "does the vast majority of files survive a resize",
    "why " + "does a stopped pod cost " * 20,
]


@pytest.mark.parametrize(("text", "platform", "facts"), ASKED)
def test_a_question_names_its_platform_and_facts(text, platform, facts):
    assert questions.read(text) == questions.Question(platform, facts)


@pytest.mark.parametrize("text", OTHERS)
def test_a_report_and_another_question_are_none(text):
    assert questions.read(text) is None


@pytest.mark.parametrize(("text", "platform"), RENTERS)
def test_a_renters_question_on_money_or_data_is_routed(text, platform):
    asked = questions.read(text)
    assert asked is not None and asked.facts
    provider = platform.removeprefix("without a page: ")
    assert (asked.platform, asked.without_page) == (
        ("", provider) if provider != platform else (platform, "")
    )


@pytest.mark.parametrize("text", FAILURES)
def test_a_failure_on_a_platform_is_no_question_on_money_or_data(text):
    assert questions.read(text) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("AutoDL 关机后收不收费", "stop"),
        ("AutoDL 关机数据保留多久", "data"),
        ("无卡模式多少钱", "amount"),
        ("why does runpod charge me when no pod is running", "bill"),
        ("autodl欠费了数据还在吗", "nothing paid"),
        ("featurize云盘超过免费额度怎么算钱", "storage"),
        ("autodl 下载要流量费吗", "traffic"),
        ("autodl 包日 中途不用了可以退款吗", "bill"),
        ("autodl 包月提前退租能退钱吗", "bill"),
    ],
)
def test_each_kind_of_question_gets_its_facts(text, kind):
    assert questions.read(text).facts == questions.FACTS[kind]


@pytest.mark.parametrize(
    ("called", "page"), [("恒源云", "china"), ("视拓云", "autodl"), ("揽睿星舟", "lanrui")]
)
def test_a_page_is_found_by_what_people_call_the_platform(called, page):
    assert profile.get(called).name == page


@pytest.mark.parametrize("name", ["智星云", "Compshare", "晨涧云", "damodel"])
def test_a_chinese_provider_without_a_page_is_said_to_have_none(name):
    answer = answer_for(text=f"{name} 关机后还收费吗", today=DAY)
    assert answer.ask.lower().startswith(f"there is no page on {name.lower()}.")
    with pytest.raises(profile.ProfileError, match="^there is no page on "):
        profile.get(name)


def test_every_name_leads_to_a_page_and_every_fact_is_on_it():
    pages = profile.load()
    assert set(questions.CALLED) <= set(pages) and set(questions.OF_ITS_OWN) <= set(pages)
    # Where no provider can be named: the user's own machine, and any box.
    assert set(pages) - set(questions.CALLED) == {"local", "generic-ssh"}
    named = {fact for facts in questions.FACTS.values() for fact in facts}
    assert named <= set(profile.Facts.model_fields)


@pytest.mark.parametrize("text", ["空闲GPU不足", "自动关机", "关机以后还收费吗", "到期"])
def test_a_few_words_without_a_platform_begin_with_the_question_for_its_name(text):
    answer = answer_for(text=text, today=DAY)
    assert answer.lead.startswith("Name the platform (such as autodl")
    assert {title["id"][:3] for title in answer.also} <= {"GEN"} and not answer.facts


def test_what_is_called_without_a_page_has_none():
    titles = " ".join(page.title for page in profile.load().values())
    assert not [name for name in questions.WITHOUT_PAGE if name in titles]
    with pytest.raises(profile.ProfileError, match="^there is no page on Vultr; generic-ssh"):
        profile.get("vultr")


def test_an_answer_has_the_facts_first_and_asks_for_no_log():
    answer = answer_for(text="does a stopped pod cost", today=DAY)
    assert [fact.split(":")[0] for fact in answer.facts] == [f"runpod {name}" for name in BILL]
    assert "A stop is not the end of charges" in answer.facts[0]
    assert "https://github.com/runpod/docs/" in answer.facts[0]
    assert answer.ask == "" and answer.matches[0]["id"] == "RP4"


def test_a_provider_without_a_page_is_said_to_have_none_and_no_other_is_named():
    answer = answer_for(text="what does Vultr bill for a stopped H100?", today=DAY)
    assert answer.ask.startswith("There is no page on Vultr.") and not answer.facts
    assert "log" not in answer.ask
    assert [one["id"] for one in [*answer.matches, *answer.also]] == ["GEN1"]


def test_the_bill_of_a_machine_of_nobody_asks_whose_it_is():
    answer = answer_for(text="does a stopped instance cost anything?", today=DAY)
    assert answer.ask.startswith("Name the platform") and "log" not in answer.ask


def test_another_answer_has_no_facts_in_its_json():
    assert "facts" not in answer_for(text="loss is nan after step 100").as_dict()


@pytest.mark.parametrize("name", sorted(profile.load()))
def test_a_page_for_a_person_begins_with_bill_deletion_survival_and_login(name):
    page = profile.get(name)
    lines = showing.as_text(page, DAY).splitlines()
    heads = [re.split(r" \(|: a guess", line)[0] for line in lines[1:] if line and line[0] != " "]
    deleted = [showing.DELETED] if page.facts.stop_billing else []
    first = ["What stops the bill", *deleted, "What survives", "How to get in"]
    start = heads.index(first[0])
    assert heads[start : start + len(first)] == first
    assert len(heads) - start == len(showing.HEADINGS) + len(deleted)
    commands = [line for line in lines if len(line) > showing.WIDTH and "http" not in line]
    assert all(line.startswith("    ") for line in commands)
    said = " ".join(" ".join(lines).split())
    for fact_name, fact in page.facts:
        for field, value in fact.value.model_dump().items() if fact else ():
            if fact_name == "commands":  # of these a person sees the command lines alone
                value = value.get("command") if isinstance(value, dict) else ""
            if (fact_name, field) in showing.COMMANDS:
                assert {f"    {line}" for line in value.splitlines()} <= set(lines)
            elif value not in ("", None, []) and field != "deletes":
                text = " ".join(showing._plain(value).split())
                named = f"{showing.FIELDS.get(field, field)}: {text}"
                assert text in said and (named in said) == (field not in showing.BARE), named


def test_every_fact_has_a_heading_and_says_once_whether_its_age_matters():
    assert set(showing.HEADINGS) == set(profile.Facts.model_fields)
    page = profile.get("runpod")
    texts = {
        name: showing.trust(name, getattr(page.facts, name), date(2030, 1, 1))
        for name in showing.HEADINGS
    }
    assert "can cost money or data unseen" in texts["stop_billing"]
    assert "amounts may differ" in texts["price"] and "the first try shows it" in texts["ssh"]
    assert texts["stop_billing"].startswith("Read 1230 days ago (2026-08-20), the limit is 90; a ")
    fresh = showing.trust("survives", page.facts.survives, DAY)
    assert fresh.startswith("Read 99 days ago (2026-08-20): https://")


def test_a_stale_mark_has_one_word_on_whether_the_age_can_change_the_decision():
    page, late = profile.get("runpod"), date(2030, 1, 1)
    marks = {name: showing.mark(name, fact, late) for name, fact in page.facts if fact}
    assert marks["survives"] == "stale (decides): read 1230 days ago (2026-08-20), the limit is 180"
    assert marks["price"].startswith("stale (amount): ")
    assert marks["paths"].startswith("stale (hardly): ")
    shown = showing.as_dict(page, late)["facts"]
    assert {name: fact["matters"] for name, fact in shown.items() if fact} == {
        name: mark.partition("(")[2].partition(")")[0] for name, mark in marks.items()
    }
    assert "matters" not in showing.as_dict(page, DAY)["facts"]["survives"]


def test_a_fact_without_a_dated_source_is_called_a_guess_wherever_it_is_shown():
    page = profile.get("china")
    fact = page.facts.limits
    assert fact is not None and fact.date is None and fact.by is None
    assert showing.mark("limits", fact, DAY) == "a guess, no dated source"
    assert showing.as_dict(page, DAY)["facts"]["limits"]["mark"].startswith("a guess")
    head, *lines = showing.section("limits", fact, DAY)
    assert head.endswith("(limits): a guess")
    assert any("A guess: no page with a date says it; a change can cost" in line for line in lines)
    answer = answer_for(text="矩池云 欠费了数据还在吗", today=DAY)
    assert answer.facts[0].startswith("china limits (a guess): ")
    bill = profile.get("generic-ssh")
    assert teardown.ways(bill, DAY)[-1].mark == "a guess, no dated source"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("矩池云停止之后还要钱吗", ("has no stopped box", "whose copy fails")),
        ("矩池云 机器释放后 /mnt 的数据会丢吗", ("Matpool: /mnt of that region",)),
        ("恒源云 关机还扣钱吗", ("refused while / is full, and the bill goes on", "24 hours")),
        ("揽睿 关机还扣费吗", ("200 GB 0.1 CNY", "until it is destroyed")),
        ("揽睿 欠费了数据还在吗", ("balance below 0", "kept for three days")),
    ],
)
def test_what_a_rental_in_china_bills_and_deletes_is_told(text, told):
    facts = answer_for(text=text, today=DAY).facts
    assert all(words in facts[0] for words in told), facts[0]


def test_what_decides_is_a_guess_on_none_of_the_rentals_in_china():
    for name in ("autodl", "china", "featurize", "lanrui"):
        facts = profile.get(name).facts
        for fact in (facts.stop_billing, facts.self_stop, facts.survives):
            assert fact is not None and (fact.by or fact.status == "confirmed"), name


@pytest.mark.parametrize(("by", "words"), showing.GRADES.items())
def test_who_says_an_unconfirmed_fact_is_said_in_words_wherever_it_is_shown(by, words):
    fact = profile.get("autodl").facts.stop_billing.model_copy(update={"by": by, "date": None})
    assert showing.mark("stop_billing", fact, DAY) == showing.standing(fact) == words
    assert showing.trust("stop_billing", fact, DAY).startswith(f"F{words[1:]}; a change can cost")
    dated = fact.model_copy(update={"date": date(2026, 10, 3)})
    assert showing.mark("stop_billing", dated, DAY) == f"{words} (2026-10-03)"


def test_a_box_that_is_off_costs_what_its_own_page_says():
    stop, _, end = teardown.ways(profile.get("autodl"), DAY)
    assert stop.billed.startswith("Nothing for the GPU") and "assume" not in stop.billed
    assert "15 days off in a row (潮汐算力: 7)" in stop.keeps
    assert "释放 (release), after the power-off" in end.command


@pytest.mark.parametrize("text", ["autodl 包月提前退租能退钱吗", "autodl 包日不用了可以退款吗"])
def test_who_leaves_a_prepaid_term_early_is_told_what_comes_back(text):
    told = answer_for(text=text, today=DAY).facts[0]
    assert "转按量计费" in told and "pays the unused part back, without the vouchers" in told


def test_a_fact_that_two_pages_tell_differently_is_unconfirmed_and_no_guess():
    name, fact = next(
        (name, fact)
        for page in profile.load().values()
        for name, fact in page.facts
        if fact and fact.date and fact.status == "unconfirmed" and not fact.by
    )
    assert showing.mark(name, fact, DAY) == "unconfirmed"
    assert showing.trust(name, fact, DAY).startswith("Unconfirmed, read ")
    assert ": a guess" not in showing.section(name, fact, DAY)[0]


@pytest.mark.parametrize(("days", "said"), [(0, "today"), (1, "1 day ago"), (98, "98 days ago")])
def test_the_age_of_a_fact_is_said_in_words(days, said):
    fact = profile.get("runpod").facts.survives
    text = showing.trust("survives", fact, fact.date + timedelta(days))
    assert text.startswith(f"Read {said} ({fact.date}): https://")


def test_a_fact_is_found_as_people_write_it():
    page = profile.get("runpod")
    for typed in ("stop_billing", "stop-billing", "Stop billing"):
        assert showing.fact_of(page, typed) == ("stop_billing", page.facts.stop_billing)
    with pytest.raises(profile.ProfileError, match="did you mean preemption"):
        showing.fact_of(page, "preemtion")


@pytest.mark.parametrize(
    ("text", "platform", "first"),
    [
        ("autodl 学术加速 怎么开", "autodl", "network"),
        ("autodl 弹性部署容器跑完 cmd 数据还在吗", "autodl", "scheduler"),
        ("弹性部署 关机 数据还在吗", "autodl", "scheduler"),
        ("autodl 该主机空闲GPU不足", "autodl", "survives"),
        ("AutoDL 上 GPU 不足开不了机，文件怎么取", "autodl", "survives"),
        ("autodl 无法开机，显卡不足", "autodl", "survives"),
        ("AutoDL 有没有自带的代理", "autodl", "network"),
        ("包年包月到期 autodl", "autodl", "survives"),
        ("autodl 训练完自动关机", "autodl", "self_stop"),
        ("恒源云 实例到期", "china", "survives"),
        ("实例到期", "", "survives"),
        ("自动关机", "", "self_stop"),
        ("关机后数据还在吗", "", "survives"),
    ],
)
def test_what_people_call_a_fact_in_chinese_is_one_question(text, platform, first):
    asked = questions.read(text)
    assert asked is not None and (asked.platform, asked.facts[0]) == (platform, first)


@pytest.mark.parametrize(
    "text",
    [
        "autodl 学术加速 报错 连接失败",
        "训练到一半电脑自己自动关机了，显卡温度很高怎么办",
        "autodl 自动关机不生效",
    ],
)
def test_a_failure_with_such_a_word_is_no_question(text):
    assert questions.read(text) is None


def test_without_a_platform_it_is_asked_which_and_none_is_named(capsys):
    answer = answer_for(text="关机后数据还在吗", today=DAY)
    assert answer.ask.startswith("Name the platform") and not answer.facts
    assert not [t for t in answer.also if t["id"].startswith(("LAM", "NEB", "PS", "CN"))]
