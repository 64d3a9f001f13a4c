# Loads parts into a test: `parts core/tools.sh …`, each alone behind the settings.
TEMPLATES=$BATS_TEST_DIRNAME/../../../server/remote_gpu_trainer/runs/templates

parts() {
  local name
  RGT_RUN_DIR=$BATS_TEST_TMPDIR/run
  mkdir -p "$RGT_RUN_DIR/log"
  for name in core/settings.sh "$@"; do
    # shellcheck source=/dev/null
    source "$TEMPLATES/$name"
  done
  set +u # bats reads variables of its own that it didn't set
}

# Calls a function as the runner does, which goes on after a failure.
call() { "$@" || :; }
