#!/usr/bin/env bats
# What every run script holds.

bats_require_minimum_version 1.5.0
load load

@test "a text becomes JSON without control characters" {
  parts core/tools.sh
  rgt_json $'a "b" \\ c\n\td\x01'
  [ "$rgt_j" = '"a \"b\" \\ c\n\td"' ]
}

@test "a number from a file is decimal, and anything else is none" {
  parts core/tools.sh
  printf '008\n' >"$BATS_TEST_TMPDIR/n"
  rgt_read_number "$BATS_TEST_TMPDIR/n"
  [ "$rgt_number" = 8 ]
  printf 'a[$(touch pwned)]\n' >"$BATS_TEST_TMPDIR/n"
  run ! rgt_read_number "$BATS_TEST_TMPDIR/n"
  [ ! -e pwned ]
}

@test "a file is replaced whole, and a full folder keeps the old one" {
  parts core/tools.sh
  rgt_write "$BATS_TEST_TMPDIR/f" one
  [ "$(<"$BATS_TEST_TMPDIR/f")" = one ]
  run ! rgt_write "$BATS_TEST_TMPDIR/nowhere/f" two
}

@test "a process is told by its start time as well as its number" {
  parts core/tools.sh core/processes.sh
  rgt_write_pid train $$
  rgt_alive train
  rgt_alive_by "$RGT_RUN_DIR/train.pid"
  echo "$$ 1" >"$RGT_RUN_DIR/train.pid"
  run ! rgt_alive train
}

@test "the first line of the table that fits a platform names the entry" {
  parts core/failure_names.sh boxes/failure_names.sh
  RGT_PROFILE=runpod
  rgt_entry_of disk
  [ "$rgt_id" = RP11 ]
  RGT_PROFILE=other
  rgt_entry_of disk
  [ "$rgt_id" = U6 ]
  rgt_entry_of nothing
  [ -z "$rgt_id" ]
}

@test "a deadline counts from the first start, and another one anew from the same" {
  parts core/tools.sh core/deadline.sh
  RGT_DEADLINE=hours:0.5
  call rgt_set_deadline
  first=$rgt_deadline
  rgt_now
  [ $((first - rgt_t)) -ge 1799 ]
  call rgt_set_deadline
  [ "$rgt_deadline" = "$first" ]
  RGT_DEADLINE=hours:1
  call rgt_set_deadline
  [ "$rgt_deadline" = $((first + 1800)) ]
}

@test "what a log says names the class of a failure" {
  parts core/tools.sh core/failure_names.sh core/evidence.sh gpus/watch.sh gpus/failures.sh
  RGT_TARGET=ssh RGT_CGROUP=/nowhere rgt_ooms_before=1000000
  echo 'RuntimeError: CUDA out of memory' >"$RGT_RUN_DIR/log/train.log.0000"
  call rgt_classify 1
  [ "$rgt_class $rgt_entry" = 'oom U10' ]
  echo 'Traceback (most recent call last):' >"$RGT_RUN_DIR/log/train.log.0000"
  call rgt_classify 1
  [ "$rgt_class" = bug ]
  rgt_asked=deadline
  call rgt_classify 143
  [ "$rgt_class" = deadline ]
}

@test "a job without a GPU fails for want of one, or of the machine's memory" {
  parts core/tools.sh core/failure_names.sh core/evidence.sh without/gpus.sh
  RGT_CGROUP=/nowhere rgt_ooms_before=1000000
  echo 'RuntimeError: No CUDA GPUs are available' >"$RGT_RUN_DIR/log/train.log.0000"
  call rgt_classify 1
  [ "$rgt_class $rgt_entry" = 'gpu ' ]
  echo 'RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes' >"$RGT_RUN_DIR/log/train.log.0000"
  call rgt_classify 1
  [ "$rgt_class $rgt_entry" = 'host-oom DP9' ]
}

@test "a state that was written can be read again" {
  parts core/tools.sh core/processes.sh core/state.sh core/last_state.sh without/durable.sh without/results.sh
  rgt_attempt=3 rgt_step=12 rgt_reason='a "quoted" one' rgt_deadline=99
  call rgt_set_phase running
  rgt_reset
  call rgt_read_last_state
  [ "$rgt_phase $rgt_attempt $rgt_step $rgt_deadline" = 'running 3 12 99' ]
}

@test "how a run ended, or its program, gives the exit code" {
  parts core/tools.sh run/run.sh
  rgt_exit=0
  run -0 rgt_leave
  run -78 rgt_leave refused
  rgt_class=bug
  run -1 rgt_leave
  rgt_exit=9
  run -9 rgt_leave
  rgt_class=preempted
  run -75 rgt_leave
  rgt_asked=asked
  run -77 rgt_leave
}

@test "a wait ends with what it waits for, or with its time" {
  parts core/tools.sh
  rgt_within 5 true
  run ! rgt_within 1 false
}

@test "three losses of nan at the end of the log are told once" {
  parts core/tools.sh core/evidence.sh without/notify.sh run/nan.sh
  rgt_log_file=$RGT_RUN_DIR/log/train.log.0000
  printf '%s\n' "{'loss': nan}" 'loss=NaN, lr 1' >"$rgt_log_file"
  call rgt_look_for_nan
  [ -z "${rgt_nan:-}" ]
  echo 'train_loss: tensor(nan, device=0)' >>"$rgt_log_file"
  rgt_step=7
  call rgt_look_for_nan
  [ "$rgt_nan" = 'the loss is nan, first seen at step 7' ]
}
