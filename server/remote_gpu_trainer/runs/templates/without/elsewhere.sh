# A run folder that this machine alone sees.
rgt_is_elsewhere() { return 1; }
rgt_not_elsewhere() { :; }
