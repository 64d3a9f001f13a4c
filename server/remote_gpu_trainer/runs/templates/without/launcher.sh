# No launcher: the program is started as it stands.
rgt_add_launcher() { :; }
rgt_find_ranks() { rgt_pids=(); }
