"""What `release` does, step by step: is the run over, its results home, what is billed, is the box gone. Provider commands are shown, not run."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import Box
from ..platforms.profile import Profile
from ..platforms.teardown import Listed, decoded, listed
from ..text.masking import shown, shown_lines
from . import ledger, status
from .release import Released, Unreleased, bring_home

LISTING_SECONDS = 120
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@%+-]+\Z")  # a word that no shell would change


def release(
    box: Box,
    run: str,
    to: Path | None,
    *,
    also: tuple[str, ...],
    expect: int | None,
    load: bool,
    accept_new: bool,
) -> Released:
    """Bring the results of a run home that is over. Raises Unreleased."""
    found = status.ask(box, run, accept_new=accept_new)
    if found.state in ("unreachable", "unknown", "nothing"):
        raise Unreleased(found.text)
    if found.state in ("alive", "stalled"):
        raise Unreleased(f"found the run in {found.dir} {found.state} (step {found.step}), expected it ended; do: wait with status --wait, or end it with bash {shlex.quote(found.dir + '/run.sh')} stop there")  # fmt: skip
    return bring_home(
        box,
        found.dir,
        to or Path("results") / default_name(box, found.dir),
        also=also,
        expect=expect,
        load=load,
    )


def default_name(box: Box, folder: str) -> str:
    """A plain folder name for a box's run."""
    host = "local" if box.local else box.host
    return (
        re.sub(r"[^A-Za-z0-9._-]+", "-", f"{host}-{folder.rstrip('/').rpartition('/')[2]}").strip(
            ".-"
        )[:120]
        or "run"
    )


def next_step(box: Box, profile: Profile) -> str:
    """What to type once the user has ended the box."""
    listing = profile.facts.listing
    if profile.facts.stop_billing is None:
        return "nothing is billed here"
    how = (
        f"the list comes from: {listing.value.text}"
        if listing
        else "this platform's page names no listing command: copy the list from the provider's console"
    )
    return f"when it is ended, remote-gpu-trainer release {box.argument} --profile {profile.name} --confirm-gone --id ID --listing FILE; {how}"


def confirm(box: Box, profile: Profile, *, ids: list[str], listing: str | None) -> Listed:
    """Whether the box is gone; when it is, the ledger forgets it."""
    address = boxes.address(box)
    if profile.kind == "own":
        if not box.local:
            return Listed(
                None,
                f"found another machine with the page of one's own, {profile.name}; expected the platform that bills it, as --profile",
            )
        found = Listed(True, f"{profile.name} is nobody's meter: nothing to end")
    elif listing is None:
        return Listed(
            None,
            f"found no list, expected --listing FILE or --run-listing COMMAND; {next_step(box, profile)}",
        )
    else:
        found = listed(listing, ids, address)
    if found.gone:
        ledger.gone(address, box.name, found.text)
    return found


def run_listing(command: str, profile: Profile) -> str:
    """What the platform's own listing command prints. Only one that stands on the platform's page, in plain words, and never through a shell. Raises Unreleased."""
    listing = profile.facts.listing
    words = command.split()
    if not listing or " ".join(words) not in " ".join(listing.value.text.split()):
        raise Unreleased(
            f"found a command that isn't on the page of {profile.name}, expected the listing command as `remote-gpu-trainer profile {profile.name}` prints it"
        )
    if not words or not all(_PLAIN.match(word) for word in words):
        raise Unreleased(
            "found a command that needs a shell, expected plain words; do: run it yourself, and give what it prints with --listing -"
        )
    try:
        done = subprocess.run(
            words,
            check=False,
            capture_output=True,
            timeout=LISTING_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise Unreleased(
            f"found no program {words[0]} here, expected the platform's client; do: install it, or give the list with --listing FILE"
        ) from None
    except subprocess.TimeoutExpired:
        raise Unreleased(
            f"found no list after {LISTING_SECONDS} s, expected one; do: run it yourself, and give what it prints with --listing -"
        ) from None
    if done.returncode:
        last = next(iter(shown_lines(done.stderr.decode("utf-8", "replace"), 1, 160)), "no message")
        raise Unreleased(
            f"found the listing command ended with {done.returncode} ({last}), expected 0; do: run it yourself, and give what it prints with --listing -"
        )
    return decoded(done.stdout)


def as_text(found: Released) -> str:
    """What came home, for a terminal."""
    out = [
        f"{found.verdict}: {found.files} files, {found.bytes / 1e6:.1f} MB from {found.source} in {shown(found.to)}"
    ]
    out += [f"    differs from the box: {path}" for path in found.differing[:20]]
    out += [f"    {line}" for line in found.checked]
    out += [f"    not pulled, a link: {link}" for link in found.links[:20]]
    out += [
        f"    not pulled, outside the run's folder: {path}; give it with --also"
        for path in found.outside
    ]
    if found.verdict != "verified":
        out.append("    don't end the box yet: what is here isn't proven")
    return "\n".join(out)
