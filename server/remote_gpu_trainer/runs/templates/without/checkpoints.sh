# No folder of checkpoints.
rgt_resolve_checkpoints() { :; }
rgt_look_for_checkpoint() { :; }
rgt_doubt_checkpoint() { return 1; }
rgt_note_checkpoint() { :; }
rgt_begin_with_checkpoint() { :; }
rgt_resume_words() { :; }
rgt_resume_variable() { :; }
