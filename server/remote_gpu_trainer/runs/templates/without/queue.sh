# No queue of cells.
rgt_queue_main() { :; }
rgt_resolve_cell() { :; }
