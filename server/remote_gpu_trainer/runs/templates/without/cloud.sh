# No copies to or from a cloud.
rgt_copy_to_cloud() { return 1; }
