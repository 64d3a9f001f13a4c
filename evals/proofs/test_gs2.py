"""GS2: the proxy shows in the environment while it is exported, and no longer after the fix."""

from remote_gpu_trainer.catalogue import bundle

PROXY = "http://turbo.gpushare.com:30000"


def test_the_check_names_the_proxy_until_it_is_unset(provider, shell_of, says):
    check = shell_of("GS2", "_proxy=")
    given = {"http_proxy": PROXY, "HTTPS_PROXY": PROXY}
    says("GS2", provider.run(check, **given))
    assert provider.done(check).stdout == ""
    fix = next(c for c in bundle.load().get("GS2").fix.split("`") if c.startswith("unset"))
    assert provider.done(f"{fix}; {check}", **given).stdout == ""
