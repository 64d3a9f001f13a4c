from .default import cfg, update_config
