"""Tests, and the helpers beside them whose assertions pytest explains like those of a test."""

import pytest

pytest.register_assert_rewrite(
    "tests.engines",
    "tests.gpu_health.gpu_faults",
    "tests.mcp_server.stdio_server",
    "tests.runner.box",
)
