"""RP7: the check prints in which data center each network volume lies."""

API = "api.runpod.io/v2/network-volumes"


def test_each_volume_is_shown_with_its_data_center(provider, shell_of):
    line = shell_of("RP7", "dataCenter")
    volume = {"id": "agv6w2qcg7", "name": "data", "size": 50, "type": "STANDARD"}
    provider.answers[API] = {"networkVolumes": [volume | {"dataCenter": "EU-RO-1"}]}
    assert provider.run(line, RUNPOD_API_KEY="k") == "agv6w2qcg7 EU-RO-1"
    provider.answers[API] = {"networkVolumes": []}
    assert provider.run(line, RUNPOD_API_KEY="k") == ""
