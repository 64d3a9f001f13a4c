# The verb start: the run goes on without the login.

# Environment of the starting login, through a pipe that only this user can open: tmux may have
# another one.
rgt_take_environment() {
  local pair name
  while IFS= read -r -d '' pair; do
    name=${pair%%=*}
    [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
    case $name in
      RGT_* | TMUX* | TERM | SHLVL | _ | PWD | OLDPWD | UID | EUID | PPID | SHELLOPTS | BASHOPTS | \
        BASH_ENV) continue ;;
    esac
    export "${pair?}"
  done < <(timeout 20 cat -- "$1")
  rm -f -- "$1"
  rmdir -- "${1%/*}"
}

rgt_start() {
  local again=$1 verb=run where='' folder='' session until line detach
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
  if [[ $again != again && ${#RGT_CELLS[@]} == 0 && -e $RGT_RUN_DIR/.done ]]; then
    echo "$RGT_NAME is already done; nothing was started (resume runs it again)"
    exit 0
  fi
  rgt_keep_script || exit 1
  rm -f -- "$RGT_RUN_DIR/start.refused" "$RGT_RUN_DIR/start.begun"
  session=rgt-${RGT_NAME//[^A-Za-z0-9_-]/-}
  session=${session:0:60}
  for detach in tmux setsid; do
    type -P "$detach" >/dev/null || continue
    if [[ $detach == tmux ]]; then
      folder=$(mktemp -d) && mkfifo -m 600 "$folder/environment" || continue
      timeout 20 env -0 >"$folder/environment" 7>&- 2>/dev/null &
      timeout 20 tmux new-session -d -s "$session" -- \
        bash "$rgt_self" "$verb" --environment "$folder/environment" "$@" \
        </dev/null 7>&- >/dev/null 2>&1 || {
        kill "$!" 2>/dev/null
        rm -rf -- "${folder:?}"
        continue
      }
      where="tmux session $session"
    else
      (
        trap '' HUP
        cd /
        exec setsid bash "$rgt_self" "$verb" "$@"
      ) </dev/null >/dev/null 2>&1 7>&- &
      where='own session'
    fi
    rgt_wait_for_start && break
    where=''
  done
  [[ -n $where ]] || {
    echo "$RGT_NAME did not start; see $RGT_RUN_DIR/log/runner.log" >&2
    exit 1
  }
  if [[ -s $RGT_RUN_DIR/start.refused ]]; then
    cat -- "$RGT_RUN_DIR/start.refused" >&2
    exit 1
  fi
  # Long enough for a refusal of the preflight to be told here.
  rgt_uptime && until=$((rgt_up + 45))
  while rgt_uptime && ((rgt_up < until)); do
    rgt_read_last_state
    case $rgt_phase in new | preflight) rgt_alive runner || rgt_ended || break ;; *) break ;; esac
    rgt_ended && break
    rgt_nap 0.1
  done
  if [[ -e $RGT_RUN_DIR/.refused ]]; then
    grep -a ' refused ' -- "$RGT_RUN_DIR/log/runner.log" | tail -n 20 | cut -d' ' -f3- >&2
    exit 1
  fi
  line="started $RGT_NAME in $RGT_RUN_DIR ($where); watch: bash $rgt_self status"
  printf '%s\n' "${line//$'\n'/ }"
}

# The new runner has begun, or refused to. Its pid file would not do: a quick end takes that away
# again.
rgt_wait_for_start() {
  local until
  rgt_uptime && until=$((rgt_up + 20))
  while rgt_uptime && ((rgt_up < until)); do
    [[ -e $RGT_RUN_DIR/start.begun || -e $RGT_RUN_DIR/start.refused ]] && return 0
    rgt_nap 0.1
  done
  return 1
}
