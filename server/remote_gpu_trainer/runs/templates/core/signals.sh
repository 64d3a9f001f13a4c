# Signals to the runner.

# Every signal means "save now". A hang-up only takes the terminal away: the run goes on from the
# save.
rgt_serve_signals() {
  local name why text names=$rgt_pending
  rgt_pending=''
  for name in $names; do
    why="signal $name" text=''
    if [[ $name == HUP ]]; then
      why=hangup
      exec >/dev/null
    elif { IFS= read -r text <"$RGT_RUN_DIR/asked"; } 2>/dev/null && [[ -n $text ]]; then
      why=$text
    fi
    rgt_signalled=$name
    [[ -n $rgt_asked && ($rgt_asked != hangup || $why == hangup) ]] || rgt_asked=$why
    [[ $why == hangup ]] || rgt_cut_sync "$why"
  done
}

# Is the run to end? After a hang-up it goes on.
rgt_is_to_end() { [[ -n $rgt_asked && $rgt_asked != hangup ]]; }

# A trap only takes a note: another `read` in it would make the interrupted one wait for ever.
rgt_set_traps() {
  local name
  for name in TERM INT USR1 HUP; do
    # shellcheck disable=SC2064
    trap "rgt_pending+=' $name'" "$name"
  done
  # A closed terminal or pipe must not end the runner at its next line.
  trap '' PIPE
}
