# What follows is the same for every job: it finds run.d and a Python, and hands over to them.
# shellcheck disable=SC1090,SC1091,SC2034,SC2154

# run.d lies beside this file or in the run's folder: a scheduler runs a copy of this file
# elsewhere.
rgt_find_parts() {
  local place
  for place in "$@"; do
    rgt_job=$place/$RGT_JOB rgt_runner=$place/$RGT_RUNNER/remote_gpu_trainer/runner
    [[ -f $rgt_job/job.json && -f $rgt_runner/entry.py ]] && return
  done
  return 1
}

# The job's own Python first, then any of 3.8 or newer, then one that only the job's setup brings,
# such as that of a module. Sets rgt_python, and its own path as rgt_exact.
rgt_find_python() {
  local name
  for rgt_python in "$RGT_PYTHON" python3 python python3.{13,12,11,10,9,8} /usr/bin/python3 \
    /usr/local/bin/python3 /opt/conda/bin/python3 /usr/libexec/platform-python; do
    rgt_fits && return
  done
  for name in "$RGT_PYTHON" python3 python; do
    ((${#RGT_SETUP[@]})) || break
    rgt_python=$(rgt_python_of_setup "$name")
    [[ -n $rgt_python ]] && rgt_fits && return
  done
  echo "$RGT_NAME: no Python of 3.8 or newer on this machine; install one, or name it as" \
    "\`python\` in the job" >&2
  return 1
}

rgt_fits() {
  rgt_exact=$(timeout 20 "$rgt_python" -I -S -c 'import sys, ctypes, fcntl, json, zlib
print(sys.executable); sys.exit(sys.version_info < (3, 8))' </dev/null 2>/dev/null)
}

rgt_python_of_setup() (
  { cd -- "$RGT_DIR/code" || cd -- "$RGT_DIR" || cd || exit; } 2>/dev/null
  timeout 300 "${RGT_SETUP[@]}" "$1" -I -S -c 'import sys; print(); print(sys.executable)' \
    </dev/null 2>/dev/null | tail -n 1
)

# The Python that fitted here before, so that no other is started to test it; but who restarts what
# died tests anew. A stand-in for another program isn't kept: it may depend on where it is started.
rgt_know_python() {
  local host='' path=''
  [[ ${1-} != supervisor ]] || return
  { IFS=' ' read -r host path <"$rgt_job/python"; } 2>/dev/null
  [[ $host == "$HOSTNAME" && -x $path ]] && rgt_python=$path
}

rgt_keep_python() {
  [[ $(type -P "$rgt_python") -ef $rgt_exact ]] || return
  (umask 027 && printf '%s %s\n' "$HOSTNAME" "$rgt_exact" >"$rgt_job/python.$$" &&
    mv -f -- "$rgt_job/python.$$" "$rgt_job/python") 2>/dev/null
}

# Unpack the run.d that this file carries behind its text, if it does. Prints where it is then.
rgt_unpack() {
  "$rgt_python" -I -S -c 'import sys
text = open(sys.argv[1], encoding="utf-8").read().partition("\n# run.d/unpack.py\n")[2]
text or sys.exit("no run.d beside this run.sh, nor in the run folder; send both again")
exec(text.partition("\n# run.d/")[0])' "$rgt_script" "$RGT_DIR" "$1"
}

rgt_main() {
  local place batch=''
  # A terminal that is closed while the run still starts in it takes nothing away.
  case ${1-} in start | resume | run | resume-run | queue) trap '' HUP ;; esac
  [[ $# -gt 0 || -z ${SLURM_JOB_ID-} ]] || batch=run
  rgt_find_parts "${rgt_script%/*}/run.d" "$RGT_DIR/run.d" || {
    rgt_find_python && place=$(rgt_unpack "${1-$batch}") && rgt_find_parts "$place" || return
    [[ $place == "$RGT_DIR/run.d" ]] || export RGT_UNPACKED=$place
  }
  . "$rgt_job/values.sh"
  if [[ ${1-} == deadman ]]; then
    RGT_DIR=$2
    . "$rgt_runner/deadman.sh" && rgt_deadman "${@:3}"
    return
  fi
  if [[ -n $batch && $RGT_TARGET == slurm ]]; then
    . "$rgt_runner/procs.sh" && . "$rgt_runner/slurm.sh" && rgt_under_slurm
  fi
  rgt_know_python "$@" || {
    [[ -n ${rgt_exact-} ]] || rgt_find_python || return
    rgt_keep_python
  }
  # -I: a json.py where the user stands must not take the place of Python's own.
  RGT_OWN=1 exec "$rgt_python" -I -S -B -X utf8 "$rgt_runner/entry.py" "$rgt_job" "$rgt_script" "$@"
}

rgt_script=${BASH_SOURCE[0]}
[[ -f $rgt_script ]] || {
  echo "run.sh is no file here; save it, and call bash FILE with the same words" >&2
  exit 2
}
[[ $rgt_script == */* ]] || rgt_script=./$rgt_script
rgt_main "$@"
exit
