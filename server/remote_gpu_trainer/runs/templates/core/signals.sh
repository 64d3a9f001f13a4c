# Signals to the runner.

# Every signal means "save now".
rgt_serve_signals() {
  local name text names=$rgt_pending
  rgt_pending=''
  for name in $names; do
    text=''
    { IFS= read -r text <"$RGT_RUN_DIR/asked"; } 2>/dev/null
    rgt_signalled=$name
    : "${text:=signal $name}"
    : "${rgt_asked:=$text}"
    rgt_cut_sync "$text"
  done
}

# A trap only takes a note: another `read` in it would make the interrupted one wait for ever.
rgt_set_traps() {
  local name
  for name in TERM INT USR1; do
    # shellcheck disable=SC2064
    trap "rgt_pending+=' $name'" "$name"
  done
  # A closed terminal or pipe must not end the runner: nothing that it needs goes with them.
  trap '' HUP PIPE
}
