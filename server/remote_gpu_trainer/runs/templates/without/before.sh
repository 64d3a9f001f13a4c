# Nothing comes before the program.
rgt_stage() { rgt_set_phase staging; }
