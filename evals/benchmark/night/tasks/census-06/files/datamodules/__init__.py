from .argoverse_v2 import ArgoverseV2DataModule
