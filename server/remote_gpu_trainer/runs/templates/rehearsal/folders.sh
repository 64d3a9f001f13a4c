# The rehearsal's own folder of checkpoints in place of the run's.

# A text with the folder of checkpoints replaced by the rehearsal's, in rgt_text, and only where it
# stands as a path: out and out/x and --dir=out, but neither --timeout nor layout/x. An absolute
# path is looked for inside of words too.
rgt_swap_folder() {
  local rest=$1 folder=${2%/} left right before after
  while [[ $folder == ./* ]]; do folder=${folder#./}; done
  rgt_text=$1
  [[ -n $folder && $folder != . && $folder != '~' ]] || return 0
  case $folder-$3 in
    /*) left=$' \t\n=\'"();&|<>`:,[@' right=$' \t\n\'"();&|<>`:,]' ;;
    *-line) left=$' \t\n=\'"();&|<>`' right=$' \t\n\'"();&|<>`' ;;
    *) left='=' right='' ;;
  esac
  rgt_text=''
  while [[ $rest == *"$folder"* ]]; do
    before=${rest%%"$folder"*}
    after=${rest:${#before}+${#folder}}
    rgt_text+=$before
    # ./out is the same folder.
    before=$rgt_text
    while [[ $folder != /* && $before == *./ ]]; do before=${before%./}; done
    if [[ (-z $before || $left == *"${before: -1}"*) &&
      (-z $after || $after == /* || $right == *"${after:0:1}"*) ]]; then
      rgt_text=$before$mark
    else
      rgt_text+=$folder
    fi
    rest=$after
  done
  rgt_text+=$rest
}

# The run's own checkpoints and their stamps, in rgt_there. Fails where they can't be listed.
rgt_list_real() {
  local at path
  declare -gA rgt_there=()
  [[ -d $rgt_real ]] || return 0
  rgt_ask_about_checkpoints --list "$rgt_real" "$RGT_CHECKPOINT_GLOB"
  for ((at = 0; at + 2 < ${#rgt_told[@]}; at += 3)); do
    path=${rgt_told[at + 1]}
    [[ ${rgt_told[at]} != end ]] || return 0
    # The rehearsal's own folder may lie below the run's folder of checkpoints.
    [[ $RGT_RUN_DIR/ == "$path"/* || $path == "$RGT_RUN_DIR"/* ]] ||
      rgt_there[$path]=${rgt_told[at + 2]}
  done
  return 1
}

rgt_note_real() {
  local path
  declare -gA rgt_there_before=()
  rgt_list_real || return 0
  rgt_noted=yes
  for path in "${!rgt_there[@]}"; do rgt_there_before[$path]=${rgt_there[$path]}; done
}

# What the rehearsal wrote among the run's own checkpoints, in rgt_strays, and what it deleted
# there, in rgt_gone. Fails where there is neither.
rgt_find_strays() {
  local path
  rgt_strays=() rgt_gone=()
  [[ -n ${rgt_noted:-} ]] && rgt_list_real || return
  for path in "${!rgt_there[@]}"; do
    [[ ${rgt_there_before[$path]:-} == "${rgt_there[$path]}" ]] || rgt_strays+=("$path")
  done
  for path in "${!rgt_there_before[@]}"; do
    [[ -n ${rgt_there[$path]:-} ]] || rgt_gone+=("$path")
  done
  ((${#rgt_strays[@]} + ${#rgt_gone[@]}))
}

# The same, asked once in two seconds: a program that keeps its last three deletes the run's.
rgt_has_strayed() {
  rgt_uptime
  ((rgt_up >= ${rgt_stray_at:-0})) || return 1
  rgt_stray_at=$((rgt_up + 2))
  rgt_find_strays
}

# A program that doesn't take its folder from us is told so, and what it saved among the run's
# checkpoints is moved away, or a start would go on from it. Fails where there is nothing.
rgt_move_strays() {
  local path to=$RGT_RUN_DIR/strays-$$
  rgt_find_strays || return
  printf 'failed save: the program saved to %s, not to the folder in RGT_CHECKPOINT_DIR; %s\n' \
    "$rgt_real" 'make it read that variable, or name checkpoint.folder in its arguments'
  for path in ${rgt_strays[@]+"${rgt_strays[@]}"}; do
    if mkdir -p -- "$to" && mv -n -- "$path" "$to/"; then
      printf '  moved to %s: %s%s\n' "$to" "${path##*/}" \
        "${rgt_there_before[$path]:+, which the rehearsal wrote over}"
    else
      printf "  can't move %s: move it away before the start\n" "$path"
    fi
  done
  for path in ${rgt_gone[@]+"${rgt_gone[@]}"}; do
    printf '  the rehearsal deleted %s\n' "$path"
  done
}

# Both forms, the absolute one and the user's; the new folder may lie below the old one, so it comes
# in last.
rgt_swap_folders() {
  local mark=$'\1'
  rgt_swap_folder "$1" "$given" "$2"
  rgt_swap_folder "$rgt_text" "$rgt_real" "$2"
  [[ -z $rgt_real ]] || rgt_swap_folder "$rgt_text" "$(realpath -ms -- "$rgt_real")" "$2"
  rgt_text=${rgt_text//"$mark"/"$RGT_CHECKPOINT_DIR"}
}
