"""GCP5: the scopes of the VM's token say whether it may write, whatever the account's roles are."""

BASE = "https://www.googleapis.com/auth/"
API = "metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/scopes"
DEFAULT = ["devstorage.read_only", "logging.write", "monitoring.write", "pubsub", "trace.append"]


def test_the_default_scopes_lack_what_an_upload_needs(provider, shell_of):
    line = shell_of("GCP5", "scopes")
    provider.answers[API] = "".join(f"{BASE}{scope}\n" for scope in DEFAULT)
    shown = provider.run(line)
    assert "devstorage.read_only" in shown and "cloud-platform" not in shown
    provider.answers[API] = f"{BASE}cloud-platform\n"
    shown = provider.run(line)
    assert "cloud-platform" in shown and "devstorage.read_only" not in shown
