"""ENV20: code that protoc generated meets a protobuf for which it wasn't made."""

import importlib.util
import os
import subprocess
import sys

import pytest

protobuf = pytest.importorskip("google.protobuf")
from google.protobuf import descriptor_pb2, json_format, runtime_version

if int(protobuf.__version__.split(".")[0]) < 7:
    pytest.skip("texts of protobuf 7", allow_module_level=True)

LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("generated", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print("pieces", len(module.ModelProto().pieces))
"""


def load(name: str, **env: str):
    """transformers brings the same description twice: generated long ago, and by a newer protoc."""
    folder = os.path.dirname(importlib.util.find_spec("transformers").origin)
    command = [sys.executable, "-c", LOAD, os.path.join(folder, "utils", f"{name}.py")]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )


def test_old_generated_code_is_refused(says):
    done = load("sentencepiece_model_pb2")
    assert done.returncode == 1
    for line in done.stderr.splitlines():
        if line.startswith(("TypeError", "If this call")):
            says("ENV20", line)


def test_newer_generated_code_and_the_python_implementation_are_not():
    assert "pieces 0" in load("sentencepiece_model_pb2_new").stdout
    assert (
        "pieces 0"
        in load("sentencepiece_model_pb2", PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python").stdout
    )


def test_code_newer_than_the_runtime(says):
    major, minor = (int(part) for part in protobuf.__version__.split(".")[:2])
    check = runtime_version.ValidateProtobufRuntimeVersion
    with pytest.raises(runtime_version.VersionError) as stop:
        check(runtime_version.Domain.PUBLIC, major, minor + 1, 0, "", "event.proto")
    says("ENV20", str(stop.value))
    check(runtime_version.Domain.PUBLIC, major, minor, 0, "", "event.proto")


def test_names_that_are_gone(says):
    message = descriptor_pb2.FileDescriptorProto()
    with pytest.raises(AttributeError) as stop:
        message.DESCRIPTOR.fields[0].label
    says("ENV20", str(stop.value))
    with pytest.raises(TypeError) as stop:
        json_format.MessageToJson(message, including_default_value_fields=True)
    says("ENV20", str(stop.value))
    json_format.MessageToJson(message, always_print_fields_with_no_presence=True)


@pytest.mark.parametrize("text", [
    "TypeError: Descriptors cannot not be created directly.",
    "ImportError: cannot import name 'builder' from 'google.protobuf.internal' (/opt/conda/lib/python3.10/site-packages/x)",
    "ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/opt/conda/lib/python3.10/site-packages/x)",
    "ImportError: cannot import name 'Imports' from 'wandb.proto.wandb_telemetry_pb2' (/build/source/wandb/proto/x.py)",
])  # fmt: skip
def test_texts_of_other_versions(text, says):
    says("ENV20", text)
