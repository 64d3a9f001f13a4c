# No data to bring.
rgt_stage_data() { :; }
