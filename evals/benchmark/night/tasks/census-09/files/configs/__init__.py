"""The settings of a run: a yaml file, changed by the options after it (KEY VALUE ...)."""
import yaml


class Node(dict):
    """A dictionary whose keys are attributes as well."""

    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None


def _nodes(value):
    return Node({k: _nodes(v) for k, v in value.items()}) if isinstance(value, dict) else value


config = Node()


def update_config(cfg, args):
    with open(args.cfg) as f:
        cfg.update(_nodes(yaml.safe_load(f)))
    for key, value in zip(args.opts[0::2], args.opts[1::2]):
        node = cfg
        *above, last = key.split(".")
        for name in above:
            node = node[name]
        if last not in node:
            raise KeyError(f"Non-existent config key: {key}")
        node[last] = yaml.safe_load(value)
