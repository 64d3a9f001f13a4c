# What /proc tells of a process, for a bash without a Python. No here-document: see deadman.sh.

# Set rgt_stat to the words of a process's stat behind its name: the state first, the start 20th.
rgt_read_stat() {
  local text=''
  { IFS= read -r -d '' text <"/proc/${1:-0}/stat"; } 2>/dev/null
  # shellcheck disable=SC2206
  rgt_stat=(${text##*) })
  [[ ${#rgt_stat[@]} -ge 20 ]]
}

# Does the process with this pid and start live? A pid may belong to another process by now.
rgt_lives() {
  rgt_read_stat "${1-}" && [[ ${rgt_stat[0]} != [ZX] && ${rgt_stat[19]} == "${2-}" ]]
}
