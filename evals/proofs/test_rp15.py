"""RP15: the check counts the word in the API's description, and gives no number where the download failed."""

API = "api.runpod.io/v2/openapi.json"


def test_the_check_tells_an_api_that_knows_the_kind_from_one_that_does_not(provider, shell_of):
    line = shell_of("RP15", "openapi.json").replace("/tmp/rp.json", str(provider.place / "rp.json"))
    provider.answers[API] = {"components": {"schemas": {"CreatePodRequest": {"cloud": "SECURE"}}}}
    assert provider.run(line) == "0"
    provider.answers[API] = {"components": {"schemas": {"PodCreateInput": {"interruptible": True}}}}
    assert int(provider.run(line)) > 0


def test_a_failed_download_gives_no_number(provider, shell_of):
    line = shell_of("RP15", "openapi.json").replace("/tmp/rp.json", str(provider.place / "no.json"))
    provider.answers[API] = (503, "down")
    assert provider.run(line) == ""
