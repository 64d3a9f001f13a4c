"""The tools that act on a box: `serve --allow-runs BOX` has them, for those boxes alone.

Each takes two calls. The first returns a plan with an id and changes nothing. The second takes the
id alone, once, within ten minutes: it asks the user where the client can, makes the plan anew, and
refuses if anything differs. Then the command of the plan runs as a process of its own, as if the
user had typed it, and outlives the session. What it and the box say is quoted, and decides nothing:
`next` follows from the tool and the command's exit code.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, BinaryIO

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field

from ..boxes import box as boxes
from ..boxes.box import Box
from ..catalogue.bundle import CatalogueError
from ..platforms.profile import ProfileError
from ..runs import acting, billing
from ..runs.acting import Act
from ..text import BadRequest, UserError
from ..text.masking import shown, shown_lines
from .answers import Acted
from .progress import MOST, PLACES, run_with_progress
from .tools import in_both_forms
from .untrusted import as_data

VALID = 600.0  # seconds for which a plan may be carried out
MOST_PLANS = 50  # that are kept, the newest
WAITS = 20.0  # seconds that a call waits for the command: the plan is made anew before
MOST_LINES, LONGEST_LINE = 20, 200  # of what a command said, the last ones
ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)
BOXES = anyio.CapacityLimiter(PLACES)
NEXT = {  # after a command that went well, that failed, and that could not tell
    "start": ("run_status", "lookup_symptom", "ask the user"),
    "resume": ("run_status", "lookup_symptom", "ask the user"),
    "rehearse": ("ask the user", "lookup_symptom", "ask the user"),
    "stop": ("run_status", "run_status", "ask the user"),
    "fetch": ("ask the user", "ask the user", "ask the user"),
}
TOOL_OF = {"stop": "stop_run", "fetch": "fetch_results"}
TOOL_OF |= dict.fromkeys(("start", "resume", "rehearse"), "start_run")


class Consent(BaseModel):
    """What the user is asked."""

    agreed: bool = Field(title="Do it", description="exactly what is listed above, once")


@dataclass
class Kept:
    """A plan that was shown. `again`: makes it anew. `child`: the command, once it was started."""

    act: Act
    again: Callable[[], Act]
    at: float = field(default_factory=time.monotonic)
    child: subprocess.Popen[bytes] | None = None
    output: BinaryIO | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the plan may still be carried out."""
        return self.child is None and time.monotonic() - self.at <= VALID


_kept: dict[str, Kept] = {}  # {id: plan}, oldest first


def add_to(server: MCPServer, allowed: dict[str, Box]) -> None:
    """Register the tools for the boxes of these names."""

    def box_of(name: str | None) -> Box:
        if name not in allowed:
            raise ToolError(
                f"box: {shown(name or '', 80)!r} isn't among those that the user allowed: "
                f"{', '.join(allowed)}"
            )
        return allowed[name]

    async def start_run(
        context: Context,
        consent: Annotated[ElicitationResult[Consent], Resolve(ask_user)],
        box: str | None = None,
        job: Annotated[str | None, Field(description="file, to start")] = None,
        platform: str | None = None,
        rehearse: bool = False,
        run: Annotated[str | None, Field(description="to resume")] = None,
        fields: Annotated[
            str | None, Field(description="to set, a line each: deadline=30h")
        ] = None,
        plan: Annotated[str | None, Field(description="id, alone")] = None,
    ) -> Annotated[CallToolResult, Acted]:
        """Call to start, rehearse or resume a run. The first call changes nothing and returns a
        plan: show it to the user, then pass its id alone."""
        if plan:
            return await _carry_out(
                context, "start_run", plan, consent, (box, job, platform, run, fields, rehearse)
            )
        place, more = box_of(box), tuple(fields.splitlines() if fields else ())
        if bool(job) == bool(run):
            raise ToolError("pass job to start one, or run to resume one")
        if run:
            return await _show(context, lambda: acting.resume(place, run, more))
        return await _show(
            context, lambda: acting.start(place, job or "", platform or "", more, rehearse=rehearse)
        )

    async def stop_run(
        context: Context,
        consent: Annotated[ElicitationResult[Consent], Resolve(ask_user)],
        box: str | None = None,
        run: str | None = None,
        plan: str | None = None,
    ) -> Annotated[CallToolResult, Acted]:
        """Call to let a run save and end; the box stays billed. Two calls, as `start_run`."""
        if plan:
            return await _carry_out(context, "stop_run", plan, consent, (box, run))
        place = box_of(box)
        return await _show(context, lambda: acting.stop(place, run or ""))

    async def fetch_results(
        context: Context,
        consent: Annotated[ElicitationResult[Consent], Resolve(ask_user)],
        box: str | None = None,
        run: str | None = None,
        also: Annotated[str | None, Field(description="a path a line")] = None,
        plan: str | None = None,
    ) -> Annotated[CallToolResult, Acted]:
        """Call to bring results of a run that ended here, compared and loaded. Two calls, as
        `start_run`."""
        if plan:
            return await _carry_out(context, "fetch_results", plan, consent, (box, run, also))
        place = box_of(box)
        return await _show(
            context,
            lambda: acting.fetch(place, run or "", tuple(also.splitlines() if also else ())),
        )

    server.add_tool(start_run, title="Start a run", annotations=ACTS)
    server.add_tool(stop_run, title="Stop a run", annotations=ACTS)
    server.add_tool(fetch_results, title="Fetch results", annotations=ACTS)


async def ask_user(context: Context, plan: str | None = None) -> Elicit[Consent] | Consent:
    """Ask the user through the client. One that can't ask has a permission prompt of its own, for
    a tool that says that it destroys."""
    kept = _kept.get(plan or "")
    capabilities = context.client_capabilities
    if kept is None or not kept.is_valid or capabilities is None or not capabilities.elicitation:
        return Consent(agreed=True)
    asked = [f"On {kept.act.box.name}: {kept.act.line}"]
    for name, value in kept.act.terms.items():
        lines = value if isinstance(value, list) else [value]
        asked += [f"{name}: {line}" for line in lines if line]
    return Elicit("\n".join(asked), Consent)


async def _show(context: Context, make: Callable[[], Act]) -> CallToolResult:
    """Return the plan, and keep it under a new id. Raises ToolError."""
    act = await _made(context, make)
    plan_id = secrets.token_hex(6)
    _kept[plan_id] = Kept(act, make)
    while len(_kept) > MOST_PLANS:
        del _kept[next(iter(_kept))]
    terms = {name: value for name, value in act.terms.items() if value}
    plan = {"id": plan_id, "box": act.box.name, "command": act.line, **terms}
    plan |= {"valid_seconds": int(VALID)}
    return _answer(act, plan=plan, quoted=list(act.leaves) or None, next="ask the user")


async def _carry_out(
    context: Context,
    tool: str,
    plan_id: str,
    consent: ElicitationResult[Consent],
    others: tuple[Any, ...],
) -> CallToolResult:
    """Do what a plan says, once, or tell what came of it. Raises ToolError."""
    kept = _kept.get(plan_id)
    if any(others):
        raise ToolError("plan: is passed alone; leave the other arguments out")
    if kept is None:
        raise ToolError("plan: no such id; call without it for a new plan")
    if TOOL_OF[kept.act.kind] != tool:
        raise ToolError(f"plan: this one is for {TOOL_OF[kept.act.kind]}")
    if kept.child is None:
        if not kept.is_valid:
            del _kept[plan_id]
            raise ToolError("plan: it is over ten minutes old; call without it for a new one")
        if not isinstance(consent, AcceptedElicitation) or not consent.data.agreed:
            del _kept[plan_id]
            raise ToolError("the user said no; nothing was done")
        try:
            again = await _made(context, kept.again)
        except ToolError:
            _kept.pop(plan_id, None)
            raise
        if again != kept.act:
            _kept.pop(plan_id, None)
            raise ToolError("plan: something has changed since; call without it for a new one")
        if kept.child is None:  # another call with this id may have begun it meanwhile
            _begin(kept)
    await _ended(context, kept)
    return _outcome(kept)


async def _made(context: Context, make: Callable[[], Act]) -> Act:
    try:
        return await run_with_progress(
            context, make, lambda: "looking at the box", most=MOST - WAITS, places=BOXES
        )
    except TimeoutError:
        raise ToolError("the box or the code took too long to be looked at; ask the user") from None
    except (UserError, BadRequest, boxes.BadBox, ProfileError, CatalogueError, OSError) as error:
        raise ToolError(shown(error, 600)) from None


def _begin(kept: Kept) -> None:
    """Start the command of a plan, in a session of its own."""
    kept.output = tempfile.TemporaryFile()  # noqa: SIM115 read until the plan is forgotten
    kept.child = subprocess.Popen(
        [sys.executable, "-m", "remote_gpu_trainer", *kept.act.words],
        stdin=subprocess.DEVNULL,
        stdout=kept.output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "NO_COLOR": "1"},
    )


async def _ended(context: Context, kept: Kept) -> None:
    """Wait a while for the end of a command."""
    child = kept.child
    began = time.monotonic()
    while child and child.poll() is None and (past := time.monotonic() - began) < WAITS:
        with suppress(Exception):  # the command goes on even if the client is gone
            await context.report_progress(round(past, 1), WAITS, f"{kept.act.kind} goes on")
        await anyio.sleep(0.5)


def _outcome(kept: Kept) -> CallToolResult:
    """Return what a command came to, or that it goes on."""
    code = kept.child.poll() if kept.child else None
    well, badly, untold = NEXT[kept.act.kind]
    following = "run_status" if code is None else well if code == 0 else badly
    return _answer(
        kept.act,
        done=None if code is None else code == 0,
        quoted=_said(kept),
        next=untold if code is not None and code not in (0, 1) else following,
    )


def _said(kept: Kept) -> list[str]:
    """Return the last lines of a command, cut and masked."""
    if kept.output is None:
        return []
    size = os.fstat(kept.output.fileno()).st_size
    text = os.pread(kept.output.fileno(), 1 << 16, max(0, size - (1 << 16)))
    lines = shown_lines(text.decode("utf-8", "replace"), MOST_LINES)
    return [line[:LONGEST_LINE] for line in lines if line.strip()]


def _answer(act: Act, **fields: Any) -> CallToolResult:
    """Return an answer, which begins with what is billed."""
    money = billing.about(time.time(), act.box, act.run)
    is_rented = billing.is_known_rented(act.box, act.run)
    mine = billing.in_words(money, "" if act.box.local else act.box.name, is_rented=is_rented)
    fields = {name: value for name, value in fields.items() if value is not None}
    return in_both_forms(as_data({"billing": mine, **fields}))
