"""The bill of materials of a wheel as CycloneDX JSON: its run-time packages at the locked versions.

It also names the model whose weights the wheel carries. The same wheel and lock give the same
bytes: there is no time stamp, and the serial number comes from the content. Needs
cyclonedx-python-lib.
"""

from __future__ import annotations

import hashlib
import uuid
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from locks import Pin, read_lock
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENCODER = "remote_gpu_trainer/retrieval/encoder.npz"
BASE = "all-MiniLM-L6-v2"  # what it was fine-tuned from; NOTICE says how it was changed


def run_time(wheel: Path) -> tuple[str, str, str, list[Requirement]]:
    """Name, version, licence and requirements without extras, from the wheel's metadata."""
    with zipfile.ZipFile(wheel) as files:
        [path] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        said = HeaderParser().parsestr(files.read(path).decode("utf-8"))
    asked = [Requirement(line) for line in said.get_all("Requires-Dist", [])]
    return (
        said["Name"],
        said["Version"],
        said["License-Expression"],
        [one for one in asked if "extra" not in str(one.marker or "")],
    )


def bill(wheel: Path, lock: str) -> str:
    """The bill as JSON text.

    Raises ValueError when a requirement isn't in the lock, unless it is for an older Python.
    """
    name, version, licence, asked = run_time(wheel)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    pins = read_lock(lock)
    root = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"{name}=={version}",
        purl=PackageURL("pypi", None, canonicalize_name(name), version),
        licenses=[LicenseExpression(licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )
    wanted = {canonicalize_name(one.name): one for one in asked}
    parts = {key: _component(key, pin, wanted.get(key)) for key, pin in pins.items()}
    model = _model(wheel)
    for key, one in wanted.items():
        if key not in parts and not (one.marker and "python_version" in str(one.marker)):
            raise ValueError(
                f"{key} isn't in the lock, which needs every run-time requirement; "
                "write it again as CONTRIBUTING.md says"
            )
        parts.setdefault(key, _component(key, None, one))
    needs = {key: [other for other, pin in pins.items() if key in pin.needed_by] for key in parts}
    used = [*(parts[key] for key in wanted), *model]
    graph = [
        Dependency(ref=root.bom_ref, dependencies=[Dependency(ref=part.bom_ref) for part in used])
    ]
    graph += [
        Dependency(
            ref=parts[key].bom_ref,
            dependencies=[Dependency(ref=parts[other].bom_ref) for other in needs[key]],
        )
        for key in parts
    ]
    graph += [Dependency(ref=part.bom_ref) for part in model]
    serial = uuid.uuid5(
        uuid.NAMESPACE_URL, f"urn:sha256:{digest}:{hashlib.sha256(lock.encode()).hexdigest()}"
    )
    bom = Bom(
        metadata=BomMetaData(component=root),
        components=[*parts.values(), *model],
        dependencies=graph,
        serial_number=serial,
    )
    bom.metadata.timestamp = None
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _model(wheel: Path) -> list[Component]:
    """The encoder in the wheel as a component, if there is one."""
    with zipfile.ZipFile(wheel) as files:
        if ENCODER not in files.namelist():
            return []
        digest = hashlib.sha256(files.read(ENCODER)).hexdigest()
    return [
        Component(
            name=BASE,
            group="sentence-transformers",
            type=ComponentType.MACHINE_LEARNING_MODEL,
            bom_ref=BASE,
            description=f"Fine-tuned and rounded to 8 bits; in the wheel as {ENCODER}.",
            purl=PackageURL("huggingface", "sentence-transformers", BASE),
            licenses=[LicenseExpression("Apache-2.0")],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )
    ]


def _component(name: str, pin: Pin | None, asked: Requirement | None) -> Component:
    said = {"requirement": str(asked) if asked else "", "marker": pin.marker if pin else ""}
    version = pin.version if pin else None
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=BomRef(f"{name}=={version}" if version else name),
        purl=PackageURL("pypi", None, name, version),
        properties=[
            Property(name=f"remote-gpu-trainer:{key}", value=value)
            for key, value in said.items()
            if value
        ],
    )
