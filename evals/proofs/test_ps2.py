"""PS2: the machine's description says whether a timer ends it, and after how many hours."""

GET = "machine get ID -j"


def test_the_check_tells_a_timer_from_none(provider, shell_of):
    line = shell_of("PS2", "autoShutdownEnabled")
    on = {"autoShutdownEnabled": True, "autoShutdownTimeout": 8, "autoShutdownForce": False}
    provider.printing("pspace", {GET: {"id": "ID", "state": "ready"} | on})
    assert provider.run(line).split() == ["true", "8", "false"]
    off = {"autoShutdownEnabled": False, "autoShutdownTimeout": None, "autoShutdownForce": None}
    provider.printing("pspace", {GET: {"id": "ID", "state": "ready"} | off})
    assert provider.run(line).split() == ["false", "null", "null"]
