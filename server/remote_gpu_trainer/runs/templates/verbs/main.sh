# What the words of the command line mean.

rgt_main() {
  local verb=${1:-} node=''
  (($#)) && shift
  # Configuration reaches the program on purpose or not at all.
  # shellcheck disable=SC2086
  export -n ${!RGT_@}
  local -a pass=("$@") left=()
  while (($#)); do
    case $1 in
      --sent-at) rgt_sent_at=${2:-} && shift ;;
      --node-rank) node=${2:-} && shift ;;
      --part) RGT_PART=${2:-} && shift ;;
      --queue) ;;
      *) left+=("$1") ;;
    esac
    (($#)) && shift
  done
  rgt_find_node "$node"
  case $verb in
    --help | -h | help)
      printf '%s\n' "$rgt_usage" "$rgt_exits"
      exit 0
      ;;
    '')
      printf '%s\n' "$rgt_usage" >&2
      exit 2
      ;;
  esac
  rgt_resolve
  rgt_queue_main "$verb" ${pass[@]+"${pass[@]}"}
  case $verb in
    start) rgt_start once ${pass[@]+"${pass[@]}"} ;;
    resume) rgt_start again ${pass[@]+"${pass[@]}"} ;;
    run) rgt_run once ;;
    resume-run) rgt_run again ;;
    preflight)
      rgt_make_folders
      rgt_preflight || {
        rgt_tell_refusals
        exit 1
      }
      ;;
    rehearse | --rehearse) rgt_rehearse ;;
    status) rgt_status ${left[@]+"${left[@]}"} ;;
    stop) rgt_stop ;;
    save) rgt_save ;;
    sync) rgt_sync_by_hand ;;
    sync-worker) rgt_sync_worker "${left[0]:-quick}" ;;
    keeper) rgt_keeper ;;
    *)
      echo "unknown verb '$verb'; bash run.sh --help lists them" >&2
      exit 2
      ;;
  esac
  exit
}
