"""The bill of materials: made with the release, valid, the same for the same input, and true to the wheel."""

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests.conftest import ROOT, module
from tests.engines.artifacts import built  # noqa: F401

LOCK = (ROOT / "requirements-run.txt").read_text(encoding="utf-8")


@pytest.fixture
def sbom():
    module("cyclonedx", "pip install -e '.[test]'")
    import sbom

    return sbom


@pytest.fixture
def release(sbom, built):  # the build needs the same library
    [wheel], [bill] = built.glob("*.whl"), built.glob("*.cdx.json")
    return wheel, bill


def test_the_build_command_makes_a_bill_that_the_schema_allows(release, sbom):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wheel, bill = release
    assert (
        JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill.read_text(encoding="utf-8"))
        is None
    )
    assert bill.name == "-".join(wheel.name.split("-")[:2]) + ".cdx.json"


def test_the_same_wheel_gives_the_same_bytes_in_another_process(release, sbom):
    wheel, bill = release
    program = f"import sys, pathlib; sys.path.insert(0, {str(ROOT / 'tools')!r}); import sbom; sys.stdout.write(sbom.bill(pathlib.Path({str(wheel)!r}), pathlib.Path({str(ROOT / 'requirements-run.txt')!r}).read_text()))"
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"},
        )
        assert done.stdout == bill.read_bytes()


def test_the_bill_names_the_wheel_and_what_its_metadata_asks_for(release, sbom):
    wheel, bill = release
    said = json.loads(bill.read_text(encoding="utf-8"))
    name, version, _, asked = sbom.run_time(wheel)
    assert (
        said["metadata"]["component"]["purl"] == f"pkg:pypi/{name}@{version}"
        and "timestamp" not in said["metadata"]
    )
    parts = {part["name"]: part for part in said["components"]}
    assert (
        {one.name for one in asked} <= set(parts) and "torch" not in parts and "pytest" not in parts
    )
    [root] = [
        node
        for node in said["dependencies"]
        if node["ref"] == said["metadata"]["component"]["bom-ref"]
    ]
    assert sorted(ref.split("==")[0] for ref in root["dependsOn"]) == sorted(
        [*(one.name for one in asked), sbom.BASE]
    )
    unlocked = [part for part in said["components"] if part["type"] == "library"]
    assert [part["name"] for part in unlocked if "version" not in part] == ["tomli"], (
        "only what an older Python needs has no version in the lock"
    )


def test_the_model_in_the_wheel_is_in_the_bill_with_its_licence_and_hash(release, sbom):
    wheel, bill = release
    said = json.loads(bill.read_text(encoding="utf-8"))
    [model] = [part for part in said["components"] if part["type"] == "machine-learning-model"]
    with zipfile.ZipFile(wheel) as files:
        digest = hashlib.sha256(files.read(sbom.ENCODER)).hexdigest()
    assert model["licenses"] == [{"expression": "Apache-2.0"}]
    assert model["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_wheel_sdist_and_plugin_carry_licence_and_notice_of_the_model(release):
    wheel, _ = release
    [sdist] = wheel.parent.glob("*.tar.gz")
    wanted = ("LICENSE", "NOTICE", "LICENSES/Apache-2.0.txt")
    plugin = wheel.parent / "remote-gpu-trainer"
    with zipfile.ZipFile(wheel) as files, tarfile.open(sdist) as archive:
        top = archive.getnames()[0].partition("/")[0]
        [info] = {name.partition("/")[0] for name in files.namelist() if ".dist-info/" in name}
        for name in wanted:
            text = (ROOT / name).read_bytes()
            assert files.read(f"{info}/licenses/{name}") == text
            assert archive.extractfile(f"{top}/{name}").read() == text
            assert (plugin / name).read_bytes() == text
    assert "encoder.npz" in (ROOT / "NOTICE").read_text(encoding="utf-8")


def test_a_requirement_that_the_lock_lacks_is_an_error(tmp_path, sbom):
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(
            "x-1.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: x\nVersion: 1\nLicense-Expression: MIT\nRequires-Dist: nowhere\nRequires-Dist: y; extra == 'test'\n",
        )
    with pytest.raises(ValueError, match="nowhere isn't in the lock"):
        sbom.bill(wheel, LOCK)
