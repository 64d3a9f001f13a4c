from models.ictednet import get_seg_model
