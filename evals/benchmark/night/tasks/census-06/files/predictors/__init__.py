from .qcnet import QCNet
