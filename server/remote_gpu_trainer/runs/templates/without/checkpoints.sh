# No folder of checkpoints.
rgt_resolve_checkpoints() { :; }
rgt_look_for_checkpoint() { :; }
rgt_choose_checkpoint() { :; }
rgt_tell_lost() { :; }
rgt_resume_words() { rgt_resume_with=(); }
rgt_resume_variable() { :; }
