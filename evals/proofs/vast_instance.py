"""What `vastai show instance ID --raw` prints, cut down: the fields of Vast's API description."""


def instance(**fields: object) -> dict:
    """A running on-demand instance, with these fields instead."""
    return {
        "id": 12345,
        "actual_status": "running",
        "cur_state": "running",
        "intended_status": "running",
        "status_msg": "success, running vastai/base-image",
        "is_bid": False,
        "min_bid": 0.02,
        "end_date": 2034617753.0,
        "ports": {"22/tcp": [{"HostIp": "0.0.0.0", "HostPort": "41200"}]},
        "dph_total": 0.31,
        "inet_down": 811.4,
        "inet_up": 790.2,
        "reliability2": 0.993,
        "extra_env": [],
        "onstart": "bash /root/start.sh",
        "jupyter_token": "0123456789abcdef",
    } | fields
