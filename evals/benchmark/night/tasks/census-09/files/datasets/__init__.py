from datasets.cityscapes import Cityscapes as cityscapes
