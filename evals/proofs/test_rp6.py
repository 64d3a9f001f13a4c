"""RP6: without an exposed 22/tcp the Pod has no direct address, and with one the check prints host and port."""

API = "api.runpod.io/v2/pods/POD_ID"
PROXY = {"host": "ssh.runpod.io", "port": 22, "username": "7h9k2m4n6p-64411eb2"}


def test_the_check_tells_a_pod_with_the_proxy_alone_from_one_with_a_port(provider, shell_of):
    line = shell_of("RP6", '"direct"')
    provider.answers[API] = {"id": "POD_ID", "ssh": {"proxy": PROXY, "direct": None}}
    assert provider.run(line, RUNPOD_API_KEY="k") == "None"
    direct = {"host": "203.0.113.7", "port": 40122, "username": "root"}
    provider.answers[API] = {"id": "POD_ID", "ssh": {"proxy": PROXY, "direct": direct}}
    shown = provider.run(line, RUNPOD_API_KEY="k")
    assert "203.0.113.7" in shown and "40122" in shown and "ssh.runpod.io" not in shown


def test_the_words_of_the_proxy_name_the_entry(says):
    says("RP6", "Error: Your SSH client doesn't support PTY")
