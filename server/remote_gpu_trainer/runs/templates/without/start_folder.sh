# A work folder with its whole path.
rgt_resolve_start_folder() { :; }
