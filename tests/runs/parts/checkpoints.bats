#!/usr/bin/env bats
# What only jobs with checkpoints hold.

bats_require_minimum_version 1.5.0
load load

setup() {
  parts core/tools.sh core/processes.sh core/failure_names.sh checkpoints/choose.sh \
    rehearsal/folders.sh
  RGT_CHECKPOINT_DIR=$BATS_TEST_TMPDIR/ckpt RGT_CHECKPOINT_GLOB='step-*'
  mkdir "$RGT_CHECKPOINT_DIR"
  rgt_check_checkpoint_program() { cat "$TEMPLATES/checkpoints/check_checkpoint.py"; }
}

@test "what nothing must go on from gets a name that is free" {
  cd "$RGT_CHECKPOINT_DIR"
  touch step-1 step-1.torn step-1.torn.2
  call rgt_move_away "$PWD/step-1"
  [ "$rgt_moved" = "$PWD/step-1.torn.3" ]
  [ -e step-1.torn.3 ] && [ ! -e step-1 ]
}

@test "the newest checkpoint is noted, and asked for again only after a change of the folder" {
  call rgt_note_checkpoint
  [ ! -e "$RGT_RUN_DIR/last-checkpoint" ]
  echo x >"$RGT_CHECKPOINT_DIR/step-9"
  echo x >"$RGT_CHECKPOINT_DIR/step-10"
  call rgt_note_checkpoint
  [ "$(<"$RGT_RUN_DIR/last-checkpoint")" = "$RGT_CHECKPOINT_DIR/step-10" ]
  rgt_ask_about_checkpoints() { touch "$BATS_TEST_TMPDIR/asked"; }
  touch -d '+1 minute' "$RGT_RUN_DIR/last-checkpoint"
  call rgt_note_checkpoint
  [ ! -e "$BATS_TEST_TMPDIR/asked" ]
}

@test "a rehearsal strays where it makes, changes or deletes a checkpoint of the run" {
  rgt_real=$RGT_CHECKPOINT_DIR
  cd "$rgt_real"
  touch step-1 step-2 step-3
  run ! rgt_find_strays # nothing was noted yet, so nothing is known
  call rgt_note_real
  run ! rgt_find_strays
  echo x >step-2
  touch step-4 notes
  rm step-3
  rgt_find_strays
  [ "$(printf '%s\n' "${rgt_strays[@]##*/}" | sort | xargs)" = 'step-2 step-4' ]
  [ "${rgt_gone[*]##*/}" = step-3 ]
}

@test "a crash casts doubt on the checkpoint it began from, and an end with 0 or a save does not" {
  RGT_NODES=1 RGT_RESUME=automatic RGT_STEP_PATTERN='' rgt_class=bug rgt_exit=0
  cd "$RGT_CHECKPOINT_DIR"
  rgt_notify() { :; }
  echo '{}' >step-1.json
  echo '{}' >step-2.json
  call rgt_look_for_checkpoint
  rgt_held=$rgt_checkpoint_id
  run ! rgt_doubt_checkpoint
  rgt_exit=1
  echo '{}' >step-3.json
  run ! rgt_doubt_checkpoint
  [ -e step-2.json ] && [ -e step-3.json ]
  rm step-3.json
  call rgt_doubt_checkpoint
  [ -e step-2.json.torn ] && [ "$rgt_checkpoint" = "$PWD/step-1.json" ]
}
