# Expected results: which are there, and which are from before the run.

declare -p RGT_EXPECT >/dev/null 2>&1 || RGT_EXPECT=()

# Where an expected result lies, in rgt_path.
rgt_find_result() {
  rgt_home "$1"
  [[ $rgt_path == /* ]] || rgt_path=$RGT_WORK_DIR/$rgt_path
}

# What the results look like before the first attempt, one line each: a file of a rehearsal or of an
# earlier run is no result.
rgt_note_results() {
  local name text=''
  rgt_read_number "$RGT_RUN_DIR/attempt" && return 0
  for name in ${RGT_EXPECT[@]+"${RGT_EXPECT[@]}"}; do
    rgt_find_result "$name"
    [[ ! -s $rgt_path ]] || { rgt_stamp_result "$rgt_path" && text+=$rgt_stamp$'\n'; }
  done
  rgt_write "$RGT_RUN_DIR/results.before" "$text"
}

# No clock: a file that was written again has another time, whatever it is.
rgt_stamp_result() {
  printf -v rgt_stamp '%q' "$1"
  rgt_stamp="$(stat -L -c '%.9Y %s' -- "$1" 2>/dev/null) $rgt_stamp"
}

# On another box a run goes on from a checkpoint; a result that was written after it came along with
# it.
rgt_trust_later_results() {
  local name text=''
  [[ -n $rgt_checkpoint && -s $RGT_RUN_DIR/results.before ]] || return 0
  rgt_missing_results
  for name in ${rgt_stale[@]+"${rgt_stale[@]}"}; do
    rgt_find_result "$name"
    [[ ! $rgt_path -ot $rgt_checkpoint ]] ||
      { rgt_stamp_result "$rgt_path" && text+=$rgt_stamp$'\n'; }
  done
  rgt_missing=()
  rgt_write "$RGT_RUN_DIR/results.before" "$text"
}

# Results are the first node's to write. Those that lie there as before the first attempt count as
# missing, and stand in rgt_stale.
rgt_missing_results() {
  local name before=''
  rgt_missing=() rgt_stale=()
  [[ $rgt_rank == 0 ]] || return 0
  { IFS= read -r -d '' before <"$RGT_RUN_DIR/results.before"; } 2>/dev/null
  for name in ${RGT_EXPECT[@]+"${RGT_EXPECT[@]}"}; do
    rgt_find_result "$name"
    if [[ ! -s $rgt_path ]]; then
      rgt_missing+=("$name")
    elif [[ -n $before ]] && rgt_stamp_result "$rgt_path" &&
      [[ $'\n'$before == *$'\n'"$rgt_stamp"$'\n'* ]]; then
      rgt_missing+=("$name") rgt_stale+=("$name")
    fi
  done
}

# Which results would show, after a request to save and end, that the program came to its end by
# itself: those that are missing now. What lies among the checkpoints shows nothing, for the save
# writes there.
rgt_note_owed() {
  local name folder
  rgt_owed=()
  rgt_missing_results
  folder=$(realpath -m -- "${RGT_CHECKPOINT_DIR:-/nonexistent}")
  for name in ${rgt_missing[@]+"${rgt_missing[@]}"}; do
    rgt_find_result "$name"
    [[ $(realpath -m -- "$rgt_path")/ == "${folder%/}"/* ]] || rgt_owed+=("$name")
  done
}

rgt_blame_missing() {
  rgt_verdict bug '' "the program ended, but ${#rgt_missing[@]} expected files are missing, \
first ${rgt_missing[0]}"
  ((${#rgt_stale[@]} == 0)) || rgt_reason+="; ${rgt_stale[0]} is from before this run \
and was not written again (touch it if it is the result)"
}

# After rgt_missing_results: is any of them there?
rgt_has_result() { ((${#rgt_missing[@]} < ${#RGT_EXPECT[@]})); }

# The missing files as a JSON list, in rgt_j.
rgt_missing_text() {
  local name list=''
  for name in ${rgt_missing[@]+"${rgt_missing[@]}"}; do
    rgt_json "$name"
    list+="${list:+,}$rgt_j"
  done
  rgt_j="[$list]"
}
