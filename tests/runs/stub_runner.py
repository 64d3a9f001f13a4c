"""A stand-in for the runner, in a few lines: it says what it was called with, counts steps, and saves on USR1 and TERM. For tests of what surrounds a runner."""

from remote_gpu_trainer.runs.script_parts import Static

RUNNER = r"""# A stub.
rgt_resolve() { [[ $rgt_rank == 0 ]] || RGT_RUN_DIR=$RGT_RUN_DIR/node-$rgt_rank; }
rgt_alive() { read -r rgt_pid <"$RGT_RUN_DIR/$1.pid"; }
rgt_main() {
  local dir=$RGT_RUN_DIR step=0
  [[ ${3-} != [1-9]* ]] || { mkdir -p "$dir/node-$3" && echo $$ >"$dir/node-$3/runner.pid"; }
  mkdir -p "$dir" && printf '%s\n' "$*|rdzv=$RGT_RDZV_HOST|requeue=${RGT_REQUEUE-}|gpus=${CUDA_VISIBLE_DEVICES-}|node=${SLURMD_NODENAME-}" >>"$dir/calls"
  [[ ${1-} == run || ${1-} == queue ]] || return 0
  [[ ${3-} == [1-9]* ]] || echo $$ >"$dir/runner.pid"
  trap 'echo "saved at $step" >>"$dir/events"; : >"$dir/.preempted"; if [[ ${RGT_REQUEUE-} == yes ]]; then scontrol requeue "$SLURM_JOB_ID"; fi; exit 75' USR1
  trap 'echo "TERM at $step" >>"$dir/events"; exit 143' TERM
  [[ -s $dir/step ]] && step=$(<"$dir/step")
  while ((step < STEPS)); do step=$((step + 1)); echo "$step" >"$dir/step"; sleep 0.1; done
  printf '%s\0' "${RGT_COMMAND[@]}" >"$dir/command"
}
"""


def parts(steps: int = 0) -> list[Static]:
    """The stub in place of the runner's parts, as `shell_text.script` takes it."""
    return [Static(RUNNER.replace("STEPS", str(steps)))]
