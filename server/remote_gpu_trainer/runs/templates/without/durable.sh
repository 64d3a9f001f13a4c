# No durable place.
rgt_last_sync() { rgt_j=null; }
rgt_plan_sync() { :; }
rgt_beat_sync() { :; }
rgt_finish_sync() { :; }
rgt_finish_unsaved() { :; }
rgt_stop_sync() { :; }
rgt_cut_sync() { :; }
rgt_sync_is_whole() { :; }
rgt_keeper_sync() { :; }
rgt_sync_worker() { :; }
rgt_tools_for_copies() { :; }
rgt_check_durable() { :; }
rgt_sync_by_hand() {
  echo 'no durable place is set' >&2
  return 1
}
