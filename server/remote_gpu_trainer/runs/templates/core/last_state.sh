# state.json as the last runner wrote it, for those who only read it.

# Fields of state.json, for the verbs that only read it.
rgt_field() {
  local pattern="\"$1\":(\"([^\"\\\\]|\\\\.)*\"|\\[[^]]*\\]|\\{[^}]*\\}|[^,}]*)"
  rgt_raw=''
  [[ $rgt_state_line =~ $pattern ]] && rgt_raw=${BASH_REMATCH[1]}
  rgt_text=${rgt_raw#\"} rgt_text=${rgt_text%\"}
  [[ $rgt_raw == null ]] && rgt_text=''
  return 0
}

rgt_number_field() {
  rgt_field "$1"
  if [[ -z $rgt_text || $rgt_text == *[!0-9]* || ${#rgt_text} -gt 18 ]]; then rgt_text=$2; fi
}

# What both state.json and the marker of an end say of the last attempt.
rgt_take_attempt() {
  rgt_number_field attempt "$rgt_attempt" && rgt_attempt=$rgt_text
  rgt_number_field step "$rgt_step" && rgt_step=$rgt_text
  rgt_number_field exit '' && rgt_exit=$rgt_text
  rgt_field class && rgt_class=$rgt_text
  rgt_field entry && rgt_entry=$rgt_text
}

rgt_read_last_state() {
  rgt_state_line=''
  { IFS= read -r rgt_state_line <"$RGT_RUN_DIR/state.json"; } 2>/dev/null
  [[ -n $rgt_state_line ]] || return 0
  rgt_field phase && rgt_phase=$rgt_text
  rgt_take_attempt
  rgt_number_field started 0 && rgt_started=$rgt_text
  rgt_number_field updated 0 && rgt_t=$rgt_text
  rgt_field boot_id && rgt_boot=$rgt_text
  rgt_field stalled && rgt_stalled=${rgt_text:-false}
  rgt_field backstop && rgt_backstop=$rgt_text
  rgt_number_field deadline 0 && rgt_deadline=$rgt_text
}
