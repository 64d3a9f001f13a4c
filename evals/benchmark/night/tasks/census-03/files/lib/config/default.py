"""Default settings; a yaml file and KEY VALUE pairs on the command line change them."""
from ast import literal_eval

import yaml


class Node(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def merge(self, other):
        for key, value in other.items():
            if key not in self:
                raise KeyError(f'Non-existent config key: {key}')
            if isinstance(value, dict):
                self[key].merge(value)
            else:
                self[key] = value


def _node(tree):
    return Node({k: _node(v) if isinstance(v, dict) else v for k, v in tree.items()})


cfg = _node({
    'OUTPUT_DIR': 'output',
    'LOG_DIR': 'log',
    'WORKERS': 0,
    'PRINT_FREQ': 20,
    'AUTO_RESUME': False,
    'MODEL': {'NAME': 'pose_hrnet', 'NUM_JOINTS': 7, 'IMAGE_SIZE': [64, 64], 'HEATMAP_SIZE': [16, 16],
              'WIDTH': 32, 'SIGMA': 1.5},
    'DATASET': {'DATASET': 'mars', 'TRAIN_IMAGES': 80, 'TEST_IMAGES': 24},
    'TRAIN': {'BATCH_SIZE': 8, 'SHUFFLE': True, 'BEGIN_EPOCH': 0, 'END_EPOCH': 210, 'OPTIMIZER': 'adam',
              'LR': 0.001, 'LR_STEP': [170, 200], 'LR_FACTOR': 0.1},
    'TEST': {'BATCH_SIZE': 8},
})


def update_config(cfg, args):
    with open(args.cfg) as f:
        cfg.merge(yaml.safe_load(f))
    for key, value in zip(args.opts[0::2], args.opts[1::2]):
        *path, last = key.split('.')
        node = cfg
        for name in path:
            node = node[name]
        try:
            value = literal_eval(value)
        except (SyntaxError, ValueError):
            pass
        node.merge({last: value})
