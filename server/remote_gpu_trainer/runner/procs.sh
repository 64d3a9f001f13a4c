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

# Set rgt_noted to pid and start of a run's runner, supervisor or train, as text/proc.py reads
# them; to '- -' where none is noted. $1: the run's folder.
rgt_read_noted() {
  local file value
  rgt_noted=(- -)
  case $2 in
    train) file=attempt.json ;;
    runner) file=lock ;;
    supervisor) file=own/supervisor.lock ;;
  esac
  for file in "$file" "$2.pid"; do
    value=''
    { IFS= read -r value <"$1/$file"; } 2>/dev/null
    [[ $value =~ ^([0-9]+)\ ([0-9]+) || $value =~ \"pid\":\ ([0-9]+),\ \"start\":\ ([0-9]+) ]] ||
      continue
    rgt_noted=("${BASH_REMATCH[@]:1:2}")
    break
  done
}
