# No record of the code.
rgt_write_code_notes() { :; }
