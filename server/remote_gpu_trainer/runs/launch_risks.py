"""Warn of what may cost the run or money even with a right script. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from ..platforms.profile import Profile
from ..platforms.saving import between_saves
from ..platforms.showing import mark
from ..runner import end_words
from ..runner.end_words import HOW
from ..runner.spec import TIMINGS, of
from ..text.masking import shown
from ..text.money import read_money
from .job import Job
from .rendered import CodeState, billed, end_of, job_of

# The facts that a script or a warning here rests on.
USED = ("self_stop", "limits", "preemption", "paths", "survives")


# A file that the program needs, by its path from the folder where it starts.
_FILE = re.compile(r"(?:\./)?\w[\w.+/-]*\.(?:py|sh|ya?ml|toml|txt|lock)\Z")
LEAST_BEATS = 3  # a stall limit is never below so many heartbeats
# `a &` at the end, but not `a && b`; and what detaches a program.
_IN_BACKGROUND = re.compile(
    r"(?<![&>|])&\s*(?:disown\b[^;&|]*)?[;)]?\s*\Z|(?:\A|[\s;&|(])(?:nohup|setsid|disown)(?=\s|\Z)"
)
# `> train.log`, but not `2>&1`, `>/dev/null` or what goes only with errors.
_TO_A_FILE = re.compile(r"(?<![0-9&>|-])(?:1|&)?>>?\s*(?![&\s]|/dev/)[\w./~$-]+")
_LATER_PYTHON = re.compile(r"\S.*(?:\s|[;&|(])python3?\s", re.S)


@dataclass(frozen=True)
class Warning:
    """A risk of a launch.

    `id`: an entry of the catalogue; PLATFORM.fact for a fact that may be out of date; job.FIELD
    where no entry explains it.
    """

    id: str
    text: str


# The entry of each platform for one kind of loss; '' is the general one.
LOST = {
    "": "C4",
    "runpod": "RP3",
    "vastai": "VAST2",
    "lambda": "LAM1",
    "paperspace": "PS3",
    "notebooks": "NB4",
    "colab": "NB4",
    "slurm": "SLURM5",
    "aws": "AWS3",
    "featurize": "FZ1",
}
ENDED = {
    "": "GEN5",
    "slurm": "SLURM2",
    "modal": "MOD1",
    "paperspace": "PS2",
    "notebooks": "NB5",
    "colab": "NB5",
    "china": "CN2",
    "lanrui": "CN2",
}
BILLED = {
    "": "GEN1",
    "runpod": "RP4",
    "vastai": "VAST1",
    "lambda": "LAM3",
    "nebius": "NEB1",
    "gcp": "GCP3",
    "paperspace": "PS1",
}
TAKEN = {
    "": "C3",
    "slurm": "SLURM2",
    "vastai": "VAST4",
    "aws": "AWS1",
    "gcp": "GCP4",
    "notebooks": "NB5",
    "colab": "NB5",
}
# Platforms from which huggingface.co is often out of reach, with their entry.
HUB_OUT_OF_REACH = {"autodl": "AD1", "china": "HUB5", "featurize": "HUB5", "lanrui": "HUB5"}
_REACHES_HUB = re.compile(
    r"HF_ENDPOINT|HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE|network_turbo|https?_proxy|MODELSCOPE", re.I
)


def warnings(
    job: Job, profile: Profile, target: str, on: date, code: CodeState | None = None
) -> list[Warning]:
    """Return every risk of this job on this platform, the gravest first.

    `on`: the day by which facts are judged stale. `code`: what is known of the code.
    """
    risks = []
    for risk in RISKS:
        risks += list(risk(job, profile, target))
    if code is None or not code.finds_checkpoints:
        risks += list(_rehearsal(job))
    return risks + list(_stale(job, profile, on))


def _durable(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if job.durable is not None or profile.kind == "own":
        return
    folder = job.checkpoint.folder if job.checkpoint else job.folder
    if target in ("slurm", "kubernetes") and not any(
        folder == path or folder.startswith(path.rstrip("/") + "/")
        for path in profile.facts.paths.value.scratch
        if path != "/"
    ):
        return
    kept = ", ".join(profile.facts.paths.value.durable)
    here = f" (here: {kept})" if kept else ""
    yield Warning(
        LOST.get(profile.name, LOST[""]),
        "no durable place: what is on the box is lost with it. "
        f"Set durable.to{here} and durable.what.",
    )


def _resume(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if job.checkpoint is None:
        yield Warning(
            "C3",
            "no checkpoint folder: after a kill the run starts again from step 0, and nobody "
            "notices a corrupt file. Set checkpoint.folder and checkpoint.pattern.",
        )


def _in_place(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    pattern = job.checkpoint.pattern if job.checkpoint else ""
    if pattern and not set(pattern) & set("*?[") and job.durable is None:
        yield Warning(
            "job.checkpoint",
            f"every save goes to {shown(pattern, 80)}: unless the program writes it to another "
            "name and renames it, an end inside a save tears the only checkpoint, and no copy is "
            "kept. Name durable.to, which keeps the last complete one.",
        )


def _silence(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    line = job.command if isinstance(job.command, str) else ""
    if found := _TO_A_FILE.search(line):
        yield Warning(
            "job.command",
            f"{shown(found[0].strip(), 80)!r} sends the program's output to a file of its own: no "
            "step, no loss and no traceback can be read, and only its checkpoints and files show "
            "that it lives. Write `2>&1 | tee FILE`.",
        )


def _end(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if not job.results and job.final_step is None:
        yield Warning(
            "job.results",
            "name results or final_step: an early exit with 0 looks finished.",
        )


def _deadline(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    most = job.slurm.most_hours if target == "slurm" else profile.facts.limits.value.most_hours
    if (
        most is not None
        and job.hours is not None
        and job.hours > most
        and not (target == "slurm" and job.slurm.requeue)
    ):
        yield Warning(
            ENDED.get(profile.name, ENDED[""]),
            f"the deadline of {job.hours:g} h is beyond the limit of {most:g} h here: the box "
            "ends first. Save often and plan to resume.",
        )
    if job.budget and job.hourly:
        yield from _budget(job, profile)


def _budget(job: Job, profile: Profile) -> Iterator[Warning]:
    entry = BILLED.get(profile.name, BILLED[""])
    budget, hourly = read_money(job.budget), job.hourly
    if budget is None or hourly is None:
        return
    hours = budget.amount / hourly.amount
    if job.hours is not None and job.hours > hours:
        yield Warning(
            entry,
            f"{job.hours:g} h at {hourly} an hour cost {job.hours * hourly.amount:g}; the budget "
            f"of {budget} ends the run after {hours:.1f} h, before its deadline.",
        )
    if job.rented in (None, "now"):
        yield Warning(
            entry,
            "the budget counts from the first start; for a box that is paid for since before, set "
            "rented to that time. Storage, traffic and rounding aren't counted.",
        )


_DISK_STAYS = "the disk stays and may cost until you delete it"


def _meter(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    end, entry = end_of(job, profile)["end"], BILLED.get(profile.name, BILLED[""])
    if end["command"]:
        yield Warning("job.at_end", _ending(job, profile))
    if profile.kind == "own" and job.at_end.do == "stop":
        yield Warning(
            "job.at_end",
            f"{profile.name} counts as your own machine, so at_end.do: stop does nothing. If it is "
            f"rented, name its platform (--profile), or your own command: {HOW}.",
        )
    if not billed(job, profile, target):
        return
    if end["command"]:
        if "deadline" not in job.at_end.when:
            yield Warning(
                entry,
                "at_end.when lacks deadline: a run that has not ended by then leaves the box on "
                "and billed.",
            )
        return
    alarm = "the notify command calls you" if job.notify else "nobody is told: set notify"
    fact = profile.facts.self_stop
    can_stop = fact is not None and fact.value.possible and fact.value.keeps_disk is True
    if job.at_end.do == "keep":
        how = (
            f"To end the GPU's price, set at_end.do: stop; {_DISK_STAYS}"
            if can_stop
            else f"To end it, set your provider's own command, {HOW}"
        )
        yield Warning(entry, f"the box stays billed after run and deadline, and {alarm}. {how}.")
    elif can_stop:
        yield Warning(
            entry,
            "the box can't stop itself yet: its stop command needs the box's id. Set "
            f"at_end.box_id; without it the box stays billed, and {alarm}.",
        )
    else:
        yield Warning(
            entry,
            f"at_end.do: stop does nothing here: {profile.name} has no known stop that keeps the "
            f"disk. Set your provider's own command, {HOW}; without it the box stays "
            f"billed, and {alarm}.",
        )


def _while_off(profile: Profile) -> str:
    """Return what bills of a box of this platform that its own stop turned off, and what that stop
    keeps: the first sentence of each on the platform's page."""
    billing, stop = profile.facts.stop_billing, profile.facts.self_stop
    if billing is None or stop is None or not billing.value.while_stopped:
        return " The disk still bills."
    bills, kept = (
        text.partition(". ")[0].rstrip(".")
        for text in (billing.value.while_stopped, stop.value.survives)
    )
    return f" Billed while it is off: {bills}. Kept: {kept}."


def _ending(job: Job, profile: Profile) -> str:
    """What is run on the box at the end, word for word, and when."""
    ends = end_of(job, profile)
    command = ends["end"]["command"]
    line = command if isinstance(command, str) else shlex.join(command)
    ending = end_words.of_command(of(job_of(job), ends), shown(line, 500))
    needs = ends["end"]["needs"]
    key = f" It needs {needs} there." if needs else ""
    more = _while_off(profile) if job.at_end.do == "stop" else " It must bear repeating."
    return f"{ending}.{more}{key}"


def _background(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    line = job.command if isinstance(job.command, str) else " ".join(job.command)
    found = _IN_BACKGROUND.search(line)
    if found:
        yield Warning(
            "job.command",
            f"{found[0].strip()!r} puts the program into the background: its exit code and end "
            "can't be seen. Leave it out: `start` outlives your login by itself.",
        )


def _stall(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    least = LEAST_BEATS * (job.timings.get("heartbeat") or TIMINGS["heartbeat"])
    low = [name for name, minutes in job.stall if 0 < minutes * 60 < least]
    if low:
        yield Warning(
            "job.stall",
            f"{' and '.join(low)}: under {least:g} s, in which the runner looks {LEAST_BEATS} "
            f"times; {least:g} s are taken instead.",
        )


def _notice(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    fact = profile.facts.preemption
    if fact is None or not fact.value.possible or job.checkpoint is None:
        return
    save, notice, every = (
        job.checkpoint.save_seconds,
        fact.value.notice_seconds,
        job.checkpoint.every_minutes,
    )
    if notice is not None and save > notice:
        yield Warning(
            TAKEN.get(profile.name, TAKEN[""]),
            f"a save takes {save:g} s, the notice of a preemption is {notice:g} s: only the "
            "periodic checkpoints help.",
        )
    if job.hours_between_kills and every:
        best = between_saves(save, job.hours_between_kills, job.nodes).daly / 60
        if every > 2 * best or every < best / 3:
            yield Warning(
                TAKEN.get(profile.name, TAKEN[""]),
                f"it saves every {every:g} min; {best:.0f} min would lose least, with one kill in "
                f"{job.hours_between_kills:g} h and {save:g} s for each save.",
            )
    if job.durable and every and job.durable.every_minutes > 4 * every and profile.kind == "rental":
        yield Warning(
            LOST.get(profile.name, LOST[""]),
            f"it saves every {every:g} min, but copies only every {job.durable.every_minutes:g} "
            "min: that much is lost with the box.",
        )


def _queue(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if job.queue and any("{cell}" not in path for path in job.results):
        yield Warning(
            "job.results",
            "a path in results lacks {cell}: all cells write the same file, so after the first "
            "cell the others look finished. Write results: [out/{cell}/final.pt].",
        )


def _code(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    words = [*_words(job), job.environment or ""]
    file = next((word for word in words if _FILE.match(word)), "")
    if file and not job.code and target != "kubernetes":  # on Kubernetes the image holds the code
        yield Warning(
            "job.code",
            f"code isn't set: nothing is sent; {file[:80]} must lie in {job.folder}.",
        )
    line = job.command if isinstance(job.command, str) else ""
    if "python" in job.model_fields_set and _LATER_PYTHON.search(line):
        yield Warning(
            "job.python",
            f"the command line calls PATH's python, not {job.python[:80]}. Write that into it.",
        )


def _rehearsal(job: Job) -> Iterator[Warning]:
    if job.checkpoint is None:
        return
    folder = job.checkpoint.folder.removeprefix("./").rstrip("/")
    if not any(folder in text for text in (*_words(job), *job.variables.values())):
        yield Warning(
            "job.checkpoint",
            f"the command doesn't name {folder[:80]}: save to RGT_CHECKPOINT_DIR, which names "
            "another folder in a rehearsal.",
        )


def _words(job: Job) -> list[str]:
    line = job.command if isinstance(job.command, str) else " ".join(job.command)
    return re.split(r"[\s;&|()<>'\"=]+", line)


def _target(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if target == "kubernetes" and job.code:
        yield Warning(
            "K8S3",
            "the code isn't sent to a cluster. Build it into the image, or copy it onto the claim.",
        )
    if target == "kubernetes" and not (job.kubernetes and job.kubernetes.claim):
        yield Warning(
            "C4", "no kubernetes.claim: logs, state and checkpoints are lost with the pod."
        )
    if target == "ssh" and not profile.facts.ssh.value.full and job.code:
        yield Warning(
            "RP6",
            f"ssh is limited there ({profile.facts.ssh.value.limits[:120]}): sending the code by "
            "rsync may fail.",
        )
    if target == "skypilot" and job.is_managed and job.hours is not None:
        yield Warning(
            "GEN1",
            f"when SkyPilot moves a managed task to a new box, the {job.hours:g} h start again; "
            "give the deadline as a time, such as 2026-11-22T09:00Z.",
        )
    if target == "skypilot" and job.is_managed and not job.durable:
        yield Warning(
            "C4",
            "SkyPilot ends a managed job's box, or moves it to another one, without its files.",
        )
    if target == "kubernetes" and job.boxes > 1 and job.kubernetes and job.kubernetes.claim:
        yield Warning(
            "job.queue",
            f"{job.boxes} pods share the claim {job.kubernetes.claim}: it must be ReadWriteMany.",
        )


def _stale(job: Job, profile: Profile, on: date) -> Iterator[Warning]:
    if profile.kind == "own":
        return  # the user's own machine: they know what it bills and deletes
    if profile.kind == "unnamed":
        yield Warning(
            profile.name,
            "without the platform's name nothing is known of what it bills, deletes and takes "
            "away. Name it with --profile (rgt profile lists them).",
        )
        return
    unsure = []
    for name in USED:
        fact = getattr(profile.facts, name)
        if fact is None or (name == "self_stop" and job.at_end.do != "stop"):
            continue
        if (against := mark(name, fact, on)) and fact.status != "confirmed":
            unsure.append(name)
        elif against:
            yield Warning(
                f"{profile.name}.{name}",
                # The page that is named has the day and the limit.
                f"{against.partition(' (20')[0]}; source: profile://{profile.name}",
            )
    if unsure:
        yield Warning(
            f"{profile.name}.facts",
            f"no dated page of the provider states {', '.join(unsure)}; `rgt profile "
            f"{profile.name}` says who does.",
        )


def _hub(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    """Warn where Hugging Face may be out of reach and the job names no way around."""
    if profile.name not in HUB_OUT_OF_REACH:
        return
    said = " ".join([*job.variables, *job.variables.values(), *job.setup, str(job.command)])
    if _REACHES_HUB.search(said):
        return
    yield Warning(
        HUB_OUT_OF_REACH[profile.name],
        "huggingface.co is often out of reach from China. Set "
        "`variables: {HF_ENDPOINT: https://hf-mirror.com}`, or HF_HUB_OFFLINE: '1' if all is on "
        "the box.",
    )


RISKS: tuple[Callable[[Job, Profile, str], Iterator[Warning]], ...] = (
    _durable,
    _resume,
    _in_place,
    _silence,
    _end,
    _deadline,
    _meter,
    _background,
    _stall,
    _notice,
    _queue,
    _code,
    _hub,
    _target,
)
