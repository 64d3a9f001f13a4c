"""The tools. No logic here: arguments in, the answer of the command line out, cut to fit.

The agent reads the docstrings, and the descriptions of the arguments.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from ..catalogue import bundle
from ..catalogue.facts import FactError
from ..catalogue.freshness import BadQuestion, read_day
from ..logs.files import Unreadable
from ..lookup import LIMITS, which_run
from ..text import BadRequest
from . import scripts
from .answers import BoxHealth, Fit, Lookup, RunScript, RunStatus, Staleness
from .next_look import Looks
from .pages import of_fit, of_health, of_staleness
from .progress import MOST, PLACES, read_with_progress, run_with_progress
from .untrusted import as_data

if TYPE_CHECKING:
    from ..lookup.state import Answer

MOST_BILLED = 3  # boxes that an answer about something else names
LONGEST_NAMED = 300  # characters of a box or a run that couldn't be asked
MOST_INSTALLED = 1_000_000  # characters: some seconds of reading

# Whether a call destroys anything, or may be repeated, is asked only of tools that write.
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
REACHES_BOXES = ToolAnnotations(read_only_hint=True, open_world_hint=True)

# Places apart from those of the SDK, which needs one for each message that it reads or writes:
# with a dead mount, calls that never end would otherwise take them all.
LOGS, SCRIPTS, BOXES, RUNS = (anyio.CapacityLimiter(PLACES) for _ in range(4))

looks = Looks()  # of `run_status`, in this process

WAITING = 40.0  # seconds for a box to answer how its run is
EARLY = 15.0  # seconds into a call until which there is time for a snapshot


def answer_for(**question: Any) -> Answer:
    """`lookup.answer.answer_for`. NumPy and the ranking are loaded at the first question, in the
    thread that answers it: a client waits for the start of every session, also of one without a
    question."""
    from ..lookup.answer import answer_for as answers

    return answers(**question)


def add_to(server: MCPServer) -> None:
    """Register the tools that read."""
    server.add_tool(lookup_symptom, title="Look up a failed run", annotations=REACHES_BOXES)
    server.add_tool(check_staleness, title="Check what is out of date", annotations=READS)
    server.add_tool(render_run_script, title="Render a run script", annotations=READS)
    server.add_tool(fit_memory, title="See whether a model fits", annotations=REACHES_BOXES)
    server.add_tool(gpu_health, title="Check a GPU box", annotations=REACHES_BOXES)
    server.add_tool(run_status, title="See how a run is", annotations=REACHES_BOXES)


async def lookup_symptom(
    context: Context,
    symptom: Annotated[
        str,
        Field(
            description="one sentence on what you see and when, blank line, error text; or an id"
        ),
    ] = "",
    limit: Annotated[int, Field(description="how many matches", ge=LIMITS[0], le=LIMITS[1])] = 3,
    log_path: Annotated[
        str | None,
        Field(description="log, config.json, probe JSON or folder of logs; also HOST:PATH"),
    ] = None,
    installed: Annotated[str | None, Field(description="pip freeze text")] = None,
    good_log: Annotated[str | None, Field(description="log of a good run")] = None,
    run: Annotated[str | None, Field(description="N or all")] = None,
    whole: Annotated[bool, Field(description="first entry whole")] = False,
) -> Annotated[CallToolResult, Lookup]:
    """Call before editing code or retrying when training fails, hangs, prints NaN, is killed,
    or is slow or wrong. Returns causes with fix and check, and a decision, or that nothing fits."""
    if not symptom.strip() and not log_path:
        raise ToolError("nothing to look up; pass symptom, log_path, or both")
    versions = _checked_length(installed)
    try:
        answer = await read_with_progress(
            context,
            lambda reading: answer_for(
                text=symptom,
                log=log_path and os.path.expanduser(log_path),
                good=good_log and os.path.expanduser(good_log),
                limit=limit,
                installed=versions,
                progress=reading,
                run=which_run(run),
            ),
            places=LOGS,
        )
        found = answer.as_dict()
        if whole and answer.matches:
            found["entry"] = bundle.load().markdown(answer.matches[0]["id"])
    except (BadRequest, Unreadable, bundle.CatalogueError) as error:
        raise ToolError(str(error)) from None
    return in_both_forms(found)


def check_staleness(
    installed: Annotated[str | None, Field(description="pip freeze or uv.lock text")] = None,
    released: Annotated[str | None, Field(description="such as 'torch 2.14'")] = None,
    scope: Annotated[str | None, Field(description="an id, family, page or platform")] = None,
    on: Annotated[str | None, Field(description="YYYY-MM-DD")] = None,
    cursor: Annotated[int, Field(description="the answer's `next`", ge=0)] = 0,
) -> Annotated[CallToolResult, Staleness]:
    """Call before telling the user a price, quota or billing command, and after changing torch
    or the driver. Returns counts, then the most urgent findings."""
    from ..platforms import checking  # not at the top, for a fast start: no other tool needs it

    versions = _checked_length(installed)
    try:
        report = checking.check(
            read_day(on), packages=versions, released=released or None, scope=scope or None
        )
        page = of_staleness(as_data(report.as_dict()), cursor)
    except (BadQuestion, BadRequest, FactError, bundle.CatalogueError) as error:
        raise ToolError(str(error)) from None
    return in_both_forms(page)


async def render_run_script(
    context: Context,
    job: Annotated[dict[str, Any], Field(description="name, command, deadline; see schema://job")],
    profile: Annotated[str, Field(description="the platform")],
    target: Annotated[str | None, Field(description="default: by platform")] = None,
) -> Annotated[CallToolResult, RunScript]:
    """Call instead of writing nohup, tmux or sbatch yourself for what runs over ten minutes on a
    box; starts and writes nothing. Returns its commands, its risks, and the script as
    `resource`."""
    # Not at the top, for a fast start: the model of a job takes a while to build, and most
    # sessions don't need it.
    from ..runs.job_errors import JobError
    from ..runs.rendering import rendered

    try:
        answer = await run_with_progress(
            context,
            lambda: rendered(job, profile, target),
            lambda: "waiting for the files of the job",
            places=SCRIPTS,
        )
    except TimeoutError:
        why = f"no file of the job answered in {MOST:g} s; look for a dead mount"
        raise ToolError(why) from None
    except (BadRequest, JobError, FactError, bundle.CatalogueError) as error:
        raise ToolError(str(error)) from None
    script = answer.pop("script")
    uri = scripts.keep(answer["file_name"], script)
    reply = in_both_forms({"head": scripts.head_of(script), "resource": uri, **answer})
    return reply.model_copy(update={"content": [*reply.content, scripts.link(uri)]})


async def fit_memory(
    context: Context,
    model: Annotated[str, Field(description="config.json, or a name on the Hub")],
    gpu: Annotated[str | None, Field(description="H100-80GB, or its GiB")] = None,
    batch: Annotated[int, Field(description="samples on each GPU")] = 1,
    sequence: Annotated[int | None, Field(description="tokens of each")] = None,
    gpus: Annotated[int, Field(description="that share it")] = 1,
    options: Annotated[
        dict[str, Any] | None,
        Field(description="lora, precision …, as `rgt fit`"),
    ] = None,
    solve: Annotated[str | None, Field(description="batch, sequence, lora or gpu")] = None,
) -> Annotated[CallToolResult, Fit]:
    """Call before renting a card or choosing a batch size, and after running out of memory.
    Returns what training takes of each GPU, and what would save memory."""
    from ..runs import fit_report  # not at the top, for a fast start

    def reckon() -> dict[str, Any]:
        if solve and solve not in fit_report.SOLVED:
            raise BadRequest(f"solve: use one of {', '.join(fit_report.SOLVED)}")
        asked = fit_report.Asked(model, {}, solve=solve)
        more = fit_report.read_options(options or {})
        run = {**more, "batch": batch, "sequence": sequence, "gpus": gpus}
        card = fit_report.card_of(gpu) if gpu is not None else None
        return fit_report.reckon(asked, card, run)

    try:
        report = await run_with_progress(
            context, reckon, lambda: "reading the model's config", places=SCRIPTS
        )
    except TimeoutError:
        raise ToolError(f"no config in {MOST:g} s; pass a config.json in place of a name") from None
    except (BadRequest, bundle.CatalogueError) as error:
        raise ToolError(str(error)) from None
    return in_both_forms(of_fit(report))


async def gpu_health(
    context: Context,
    host: Annotated[
        str | None,
        Field(description="ssh name, user@host or ssh line; default: this machine"),
    ] = None,
    expect: Annotated[
        str | None,
        Field(description="paid for: gpus=8,name=H100,driver>=550"),
    ] = None,
) -> Annotated[CallToolResult, BoxHealth]:
    """Call after the first login to a new or restarted box, before installing, and when a run
    hangs, slows down or dies without a traceback. Returns a verdict."""
    # Not at the top, for a fast start: they import ssh, which only sessions with a box need.
    from ..boxes import box
    from ..gpu_health import examine

    expected = (expect or "").strip()
    if expected == "help":
        # To `--expect help` the script prints a list of names, which is no reply about a box. As
        # a pair it is refused, and the error lists the names.
        expected = "help="
    try:
        question = examine.Question(expected)
        place = box.parse(host or "local")
        try:
            health = await run_with_progress(
                context,
                lambda: examine.examine_in_a_call(place, question),
                lambda: "waiting for the box",
                places=BOXES,
            )
        except TimeoutError:
            health = examine.late(place)
    except (BadRequest, box.BadBox, bundle.CatalogueError) as error:
        raise ToolError(str(error)) from None
    return in_both_forms(of_health(health.as_dict()))


async def run_status(
    context: Context,
    box: Annotated[
        str | None,
        Field(description="ssh name, user@host, ssh line or local; default: every known run"),
    ] = None,
    run: Annotated[str | None, Field(description="default: the one alive, else the newest")] = None,
) -> Annotated[CallToolResult, RunStatus]:
    """Call to see whether a run trains, what it came to, what it costs and what is still billed;
    then not again for `look_again_in` seconds."""
    # Not at the top, for a fast start: only sessions with a box need them.
    from ..boxes import box as boxes
    from ..runs import billing, overview, run_snapshot, status_cost
    from ..runs import status as run_state
    from .run_pages import of_run, of_runs

    began = time.time()

    def ask() -> dict[str, Any]:
        if box is None:
            now = time.time()
            return of_runs(overview.rows(with_ended=True), billing.about(now), now, looks)
        state = run_state.ask(place, run or "", limit=WAITING)
        if (state.silent or state.state == "stalled") and time.time() - began < EARLY:
            state.evidence += run_snapshot.describe_ranks(place, state.dir)
        now = time.time()
        status_cost.add(place, state, now)
        run_state.explain(state)
        return of_run(state, billing.about(now, place, state.dir, state), now, looks, run or "")

    try:
        if box is not None:
            place = boxes.parse(box)
        elif run is not None:
            raise ToolError("run: names a run of a box; pass box too")
        return in_both_forms(
            await run_with_progress(context, ask, lambda: "waiting for the box", places=RUNS)
        )
    except TimeoutError:
        raise ToolError(
            f"no answer from the box in {MOST:g} s; ask again after `look_again_in`"
        ) from None
    except (BadRequest, boxes.BadBox, bundle.CatalogueError) as error:
        raise ToolError(str(error)) from None


def _next_look(arguments: dict[str, Any]) -> int | None:
    """Return the seconds until a `run_status` that told nothing pays again, as `looks` counts."""
    from ..boxes import box as boxes
    from .run_pages import question_about

    box, run = (str(arguments.get(name) or "")[:LONGEST_NAMED] for name in ("box", "run"))
    with suppress(boxes.BadBox):
        box = boxes.parse(box).name if box else ""
    return looks.next_in(question_about(box, run) if box else "", [None], time.time())


def as_error(name: str, arguments: dict[str, Any], message: str) -> CallToolResult:
    """The answer of a call of a tool that failed, with what may be billed, and of `run_status`
    when to ask again. Its first text is the message alone, for who reads no more."""
    beside: dict[str, Any] = {}
    if name == "run_status":
        beside["look_again_in"] = _next_look(arguments)
    beside = _add_bill(beside)
    texts = [message]
    if beside:
        texts.append(json.dumps(beside, ensure_ascii=False, separators=(",", ":")))
    return CallToolResult(
        content=[TextContent(type="text", text=text) for text in texts],
        structured_content={"error": message, **beside} if beside else None,
        is_error=True,
    )


def _add_bill(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with what is billed, if anything may be."""
    from ..runs import ledger  # not at the top, for a fast start

    if not ledger.is_there():
        return answer
    from ..runs import billing  # half a second, which who has no box doesn't pay

    return as_data(billing.add_to(answer, time.time(), MOST_BILLED))


def _checked_length(installed: str | None) -> str | None:
    """`installed` unchanged, None if it is empty.

    Raises ToolError if reading it would take longer than a call may.
    """
    if installed and len(installed) > MOST_INSTALLED:
        raise ToolError(
            f"installed: {len(installed)} characters are too many; "
            f"pass at most {MOST_INSTALLED}, or use the command line with --installed FILE"
        )
    return installed or None


def in_both_forms(answer: dict) -> CallToolResult:
    """The answer as text and as structured content, for clients that pass the model only one.

    Both are complete, and both are UTF-8 whatever the files here are called. Each says what may be
    billed.
    """
    if "billed" not in answer:
        answer = _add_bill(answer)
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    if text != (clean := text.encode("utf-8", "replace").decode()):
        text, answer = clean, json.loads(clean)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)
