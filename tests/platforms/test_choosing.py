"""Which platform has what a run needs, and how often to save."""

import json
import math
import re
from datetime import date

import pytest
from remote_gpu_trainer.cli import main as cli
from remote_gpu_trainer.platforms import choosing, profile, showing
from remote_gpu_trainer.platforms.saving import between_saves


def run(capsys, *arguments: str):
    code = cli.main(["profile", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_profile_prints_its_facts_with_source_and_date(capsys):
    code, out, _ = run(capsys, "runpod")
    assert code == 0 and re.search(r"Read \d+ days ago \(2026-\d\d-\d\d\)", out)
    assert out.index("What stops the bill (stop_billing)") < out.index("https://")


def test_one_fact_of_a_profile_is_printed_alone(capsys):
    code, out, _ = run(capsys, "runpod", "stop-billing")
    assert code == 0 and out.startswith("What stops the bill (stop_billing)\n    curl ")
    assert "How to get in" not in out
    code, out, _ = run(capsys, "runpod", "survives", "--json")
    assert code == 0 and json.loads(out)["value"]["destroy"] == "Network volumes only."


def test_without_a_name_every_platform_is_listed(capsys):
    code, out, _ = run(capsys)
    assert code == 0 and len(out.splitlines()) == len(profile.load())


def test_each_platform_that_does_not_qualify_says_which_fact_rules_it_out(capsys):
    code, out, _ = run(capsys, "--need", "spot", "--need", "disk=200")
    lines = {line[4:].split(":")[0]: line for line in out.splitlines()}
    assert code == 0 and lines["aws"].startswith("yes ")
    assert "spot: spot: offered is False (confirmed, https://" in lines["lambda"]
    assert lines["gcp"].startswith("?   gcp: disk=200: quota: disk_gb is not stated (")
    assert all(
        line.startswith("yes ") or ": " in line[4:].split(": ", 1)[1] for line in out.splitlines()
    )


def test_a_fact_that_lets_a_platform_pass_says_its_age(capsys):
    late = date(2027, 5, 1)
    passed = [
        c
        for c in choosing.choose(
            list(profile.load().values()), choosing.read_needs(["resume"]), late
        )
        if c.qualifies
    ]
    aged = [c for c in passed if c.doubts]
    assert aged and all(c.doubts[0].startswith("resume: stale (decides): read ") for c in aged)
    assert all(line.endswith("]") for line in choosing.as_lines(aged, True))


def test_nothing_qualifies_by_a_fact_that_decides_and_is_a_year_old():
    choices = choosing.choose(
        list(profile.load().values()), choosing.read_needs(["resume"]), date(2036, 1, 1)
    )
    assert not any(c.qualifies for c in choices)
    assert "resume: survives said so on 20" in next(
        c.unknown[0] for c in choices if c.profile.name == "runpod"
    )


def test_an_on_demand_box_is_steady_where_only_the_interruptible_kind_is_taken_away():
    aws = profile.load()["aws"]
    facts = aws.facts.preemption
    for on_demand, steady, with_spot in (
        (False, True, False),
        (True, False, False),
        (None, None, False),
    ):
        value = facts.value.model_copy(update={"possible": True, "on_demand": on_demand})
        made = aws.model_copy(
            update={
                "facts": aws.facts.model_copy(
                    update={
                        "preemption": facts.model_copy(
                            update={
                                "value": value,
                                "status": "confirmed",
                                "date": date(2026, 11, 1),
                            }
                        )
                    }
                )
            }
        )
        answers = [
            choosing.choose([made], choosing.read_needs(asked), date(2026, 11, 21))[0].qualifies
            for asked in (["steady"], ["steady", "spot"])
        ]
        assert answers == [steady, with_spot]


def test_what_only_a_rented_box_can_lack_rules_out_no_machine_of_ones_own():
    names = {"steady", "notice=30", "disk=9", "inodes=9", "free-egress", "spot"}
    own, rented = profile.load()["local"], profile.load()["runpod"]
    nothing = dict.fromkeys(need.fact for need in choosing.NEEDS.values())
    for page, ruled_out in ((own, {"spot"}), (rented, names)):
        bare = page.model_copy(update={"facts": page.facts.model_copy(update=nothing)})
        answers = {
            name: choosing.choose([bare], choosing.read_needs([name]), date(2026, 11, 21))[0]
            for name in names
        }
        assert {name for name, answer in answers.items() if answer.against} == ruled_out


def test_no_written_limit_of_hours_lets_a_rental_pass_with_its_words_and_a_scheduler_not(capsys):
    code, out, _ = run(capsys, "--need", "hours=100000")
    lines = {line[4:].split(":")[0]: line for line in out.splitlines()}
    assert (
        code == 0
        and lines["runpod"].startswith("yes ")
        and "[hours=100000: A Pod stays up" in lines["runpod"]
    )
    assert lines["slurm"].startswith(
        "?   slurm: hours=100000: limits: most_hours is not stated (--time, at most the partition's"
    )


@pytest.mark.parametrize("need", ["stop", "hours=48", "spot", "notice=30", "inodes=1000"])
def test_a_guess_neither_qualifies_nor_rules_out_and_says_its_value(need):
    wanted = choosing.NEEDS[need.partition("=")[0]]
    guessed = 0
    for choice in choosing.choose(
        list(profile.load().values()), choosing.read_needs([need]), date(2026, 11, 21)
    ):
        fact = getattr(choice.profile.facts, wanted.fact)
        if fact is None or fact.status == "confirmed":
            continue
        guessed += 1
        assert choice.qualifies is None and not choice.against
        called = showing.standing(fact)
        value = getattr(fact.value, wanted.field)
        stated = (
            "is not stated" if value is None else f"is {value:g}" if value > 1 else f"is {value}"
        )
        title = wanted.fact.replace("_", " ")
        assert f"{title} is {called}: {wanted.field} {stated} (" in choice.unknown[0]
        assert ("probably" in choice.unknown[0]) <= bool(fact.by)
    assert guessed


def test_a_guess_is_no_no_on_the_terminal(capsys):
    code, out, _ = run(capsys, "--need", "hours=48")
    assert code == 0
    assert "?   china: hours=48: limits is a guess: most_hours is not stated (" in out
    undated = "limits is from the provider's page, which has no date: most_hours is 12 (https://"
    assert f"?   colab: hours=48: probably not: {undated}" in out
    code, out, _ = run(capsys, "autodl", "--need", "stop")
    assert code == 1 and out.startswith(
        "?   autodl: stop: probably: survives is from the provider's sister site: stop_keeps_disk is"
    )


def test_nothing_that_qualifies_is_exit_one(capsys):
    code, out, _ = run(capsys, "--need", "disk=999999999")
    assert code == 1 and not any(
        line.startswith("yes") and "local" not in line for line in out.splitlines()
    )


def test_the_answer_as_json_holds_every_platform(capsys):
    code, out, _ = run(capsys, "--need", "self-stop", "--json")
    found = {item["name"]: item for item in json.loads(out)["platforms"]}
    assert (
        code == 0
        and set(found) == set(profile.load())
        and found["runpod"]["qualifies"]
        and found["generic-ssh"]["qualifies"] is None
        and found["lambda"]["against"]
    )


@pytest.mark.parametrize(
    "need", ["gpu", "disk", "spot=1", "disk=much", "disk=-1", "disk=inf", "hours="]
)
def test_an_unknown_need_is_refused(capsys, need):
    code, _, error = run(capsys, "--need", need)
    assert code == 2 and f"{need!r} isn't a need; use one of spot, steady" in error


def test_the_interval_is_youngs_and_dalys_with_its_arithmetic(capsys):
    found = between_saves(30, 3)
    assert found.young == pytest.approx(804.98, abs=0.01)
    part = 30 / (2 * 10800)
    assert found.daly == pytest.approx(found.young * (1 + math.sqrt(part) / 3 + part / 9) - 30)
    code, out, _ = run(capsys, "--save-seconds", "30", "--kill-hours", "3")
    assert code == 0 and "sqrt(2 × 30 × 10,800) = 805 s" in out


def test_the_interval_is_about_the_best_of_a_simulated_run():
    """A run of Poisson kills, time lost counted second by second: no interval far from Daly's loses less."""
    import random

    def wall(interval: float, save: float, kills: float, work: float) -> float:
        draw, total, done = random.Random(7), 0.0, 0.0
        until = draw.expovariate(1 / kills)
        while done < work:
            need = interval + save
            if until < need:
                total += until
                until = draw.expovariate(1 / kills)
            else:
                total, done, until = total + need, done + interval, until - need
        return total

    best = between_saves(30, 3).daly
    times = {factor: wall(best * factor, 30, 10800, 4e6) for factor in (0.25, 1.0, 4.0)}
    assert times[1.0] < times[0.25] and times[1.0] < times[4.0]


def test_the_share_that_is_lost_is_saves_and_half_an_interval_of_work():
    found = between_saves(30, 3)
    assert found.overhead == pytest.approx(30 / found.daly + (found.daly + 30) / (2 * 10800))


def test_more_boxes_that_fail_together_mean_more_saves():
    assert between_saves(30, 3, 9).young == pytest.approx(between_saves(30, 3).young / 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--save-seconds", "30"), "one of --save-seconds and --kill-hours is missing; give both"),
        (("--kill-hours", "3"), "one of --save-seconds and --kill-hours is missing; give both"),
        (("--save-seconds", "0", "--kill-hours", "3"), "give positive numbers"),
        (("--save-seconds", "nan", "--kill-hours", "3"), "give positive numbers"),
        (
            ("runpod", "--save-seconds", "30", "--kill-hours", "3"),
            "--save-seconds and --kill-hours don't depend on a platform; leave out",
        ),
    ],
)
def test_a_half_or_impossible_question_about_the_interval_is_code_two(capsys, arguments, said):
    code, _, error = run(capsys, *arguments)
    assert code == 2 and said in error
