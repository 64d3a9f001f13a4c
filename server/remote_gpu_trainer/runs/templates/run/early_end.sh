# A program that ends with 0 before its end.

: "${RGT_FINAL_STEP:=0}"
declare -p RGT_EXPECT >/dev/null 2>&1 || RGT_EXPECT=()
declare -gA rgt_signs
rgt_signs[signal]='SIGTERM
SIGINT
signal 15
death signal'

# Class and reason of a program that ended with 0, but without its results, before its final step,
# or saying that a signal ended it. Many trainers do so after a save: then it is tried once more,
# and not again at the same step.
rgt_judge_end() {
  local why='' gained=''
  if ((${#rgt_missing[@]})); then
    why="without ${rgt_missing[0]}"
  elif ((RGT_FINAL_STEP)); then
    ((${rgt_step:-0} >= RGT_FINAL_STEP)) || why="at step ${rgt_step:-none} of $RGT_FINAL_STEP"
  elif ((${#RGT_EXPECT[@]} == 0)) && rgt_said signal 4000; then
    why='after a signal from outside' gained=yes
  fi
  [[ -n $why ]] || return 0
  rgt_look_for_checkpoint
  [[ $rgt_checkpoint_id == "$rgt_held" ]] || gained=yes
  if [[ -n $gained && ${rgt_short_at-none} != "$rgt_step" ]]; then
    rgt_short_at=$rgt_step
    rgt_verdict killed killed "cut short: it ended with 0 $why"
  elif ((${#rgt_missing[@]})); then
    rgt_blame_missing
  elif ((RGT_FINAL_STEP)); then
    rgt_verdict bug '' "it ended with 0 $why"
  fi
}
