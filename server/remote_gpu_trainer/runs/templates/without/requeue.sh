# Not put back into a queue.
rgt_requeue() { :; }
