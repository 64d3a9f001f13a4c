rgt_note_hangs() { :; }
