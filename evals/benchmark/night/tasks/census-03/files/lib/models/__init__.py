from . import pose_hrnet
