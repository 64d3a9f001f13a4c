"""RP3: after a termination the list of network volumes says whether anything is left."""

API = "api.runpod.io/v2/network-volumes"
VOLUME = {"id": "agv6w2qcg7", "name": "data", "size": 50, "dataCenter": "EU-RO-1"}


def test_the_check_shows_whether_a_network_volume_outlived_the_pod(provider, shell_of):
    line = shell_of("RP3", "network-volumes")
    provider.answers[API] = {"networkVolumes": []}
    assert provider.run(line, RUNPOD_API_KEY="k") == '{"networkVolumes": []}'
    provider.answers[API] = {"networkVolumes": [VOLUME]}
    assert VOLUME["id"] in provider.run(line, RUNPOD_API_KEY="k")
