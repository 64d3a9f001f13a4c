"""Entries, profiles, the schema of a job and the skill's files as resources.

The agent reads the docstrings.
"""

from __future__ import annotations

import json
from datetime import date

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from ..catalogue import bundle
from . import scripts, skills
from .untrusted import as_data

# The imports inside the functions keep the start fast: most sessions read none of these.


def add_to(server: MCPServer) -> None:
    """Register the resources."""
    server.resource(
        "schema://job", name="job", title="The fields of a job", mime_type="application/schema+json"
    )(job_schema)
    server.resource(
        "profile://{name}",
        name="profile",
        title="The facts of one platform",
        mime_type="application/json",
    )(profile_facts)
    server.resource(
        "entry://{id}", name="entry", title="One entry of the catalogue", mime_type="text/markdown"
    )(entry)
    server.resource(
        "script://{digest}/{name}",
        name="script",
        title="A script that render_run_script made in this session",
        mime_type="text/plain",
    )(rendered_script)
    server.resource(
        skills.HOME + "{+path}",
        name="skill",
        title="A file of the skill",
        mime_type="text/markdown",
    )(skill_file)


def job_schema() -> str:
    """The JSON schema of the `job` that render_run_script takes."""
    from ..runs.job import Job

    return json.dumps(Job.model_json_schema(), ensure_ascii=False, separators=(",", ":"))


def profile_facts(name: str) -> str:
    """One platform's facts, each with its source, its date and any doubt about it."""
    from ..platforms.profile import ProfileError, get
    from ..platforms.showing import as_dict

    try:
        return json.dumps(as_data(as_dict(get(name), date.today())), ensure_ascii=False, indent=1)
    except (ProfileError, bundle.CatalogueError) as error:
        raise ResourceNotFoundError(str(error)) from None


def entry(id: str) -> str:
    """One whole entry: symptom, root cause, fix, check, signatures, sources."""
    try:
        return bundle.load().markdown(id)
    except bundle.CatalogueError as error:
        raise ResourceNotFoundError(str(error)) from None


def rendered_script(digest: str, name: str) -> str:
    """A whole script that was rendered in this session."""
    return scripts.read(digest, name)


def skill_file(path: str) -> str:
    """SKILL.md, a page or a script of the skill, by its path there."""
    return skills.read(path)
