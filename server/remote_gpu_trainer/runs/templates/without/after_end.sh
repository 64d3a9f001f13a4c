# The box is kept after the end. 0: nothing is left to keep.
rgt_keeper_after_end() { rgt_leaves_box; }
