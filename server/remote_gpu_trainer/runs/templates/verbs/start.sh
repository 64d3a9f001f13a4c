# The verb start: the run goes on without the login.

rgt_start() {
  local again=$1 verb=run line
  shift
  rgt_make_folders
  rgt_need_tools
  [[ $again == again ]] && verb=resume-run
  ((${#RGT_CELLS[@]})) && [[ -z $RGT_CELL ]] && verb=queue
  exec 7>>"$RGT_RUN_DIR/start.lock"
  flock -n 7 || {
    echo "$RGT_NAME: another start is under way" >&2
    exit 75
  }
  rgt_lock_run
  exec 9>&-
  ((${#RGT_CELLS[@]})) || rgt_end_if_over "$again"
  rgt_keep_script || exit 1
  rm -f -- "$RGT_RUN_DIR/start.refused" "$RGT_RUN_DIR/start.begun"
  (
    trap '' HUP
    cd /
    exec setsid bash "$rgt_self" "$verb" "$@"
  ) </dev/null >/dev/null 2>&1 7>&- &
  rgt_within 20 rgt_has_begun || {
    echo "$RGT_NAME did not start; see $RGT_RUN_DIR/log/runner.log" >&2
    exit 1
  }
  if [[ -s $RGT_RUN_DIR/start.refused ]]; then
    cat -- "$RGT_RUN_DIR/start.refused" >&2
    rgt_leave refused
  fi
  # Long enough for a refusal of the preflight to be told here.
  rgt_within 45 rgt_is_past_checks
  if [[ -e $RGT_RUN_DIR/.refused ]]; then
    grep -a ' refused ' -- "$RGT_RUN_DIR/log/runner.log" | tail -n 20 | cut -d' ' -f3- >&2
    rgt_leave refused
  fi
  line="started $RGT_NAME in $RGT_RUN_DIR; watch: bash $rgt_self status"
  printf '%s\n' "${line//$'\n'/ }"
}

# The new runner has begun, or refused to. Its pid file would not do: a quick end takes that away
# again.
rgt_has_begun() { [[ -e $RGT_RUN_DIR/start.begun || -e $RGT_RUN_DIR/start.refused ]]; }

rgt_is_past_checks() {
  rgt_read_last_state
  [[ $rgt_phase != @(new|preflight) ]] || rgt_ended || rgt_gone runner
}
