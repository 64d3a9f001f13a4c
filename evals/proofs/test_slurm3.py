"""SLURM3: the check's second count is larger where srun passes no cores on, also where OMP_NUM_THREADS is set."""

import os

import pytest

ONE = min(os.sched_getaffinity(0))
SRUN = f"""#!/bin/bash
case $1 in --cpus-per-task=*) asked=${{1#*=}}; shift ;; *) asked=$PASSED_ON ;; esac
[ "$asked" = 1 ] && exec taskset -c {ONE} "$@"
exec "$@"
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("threads", [{}, {"OMP_NUM_THREADS": "2"}])
@pytest.mark.parametrize(("passed_on", "asked", "lost"), [("1", "2", True), ("2", "2", False)])
def test_the_second_count_is_larger_only_where_the_step_got_one_core(
    provider, shell_of, threads, passed_on, asked, lost
):
    provider.program("srun", SRUN)
    provider.program("sinfo", "#!/bin/sh\necho slurm 22.05.8\n")
    settings = {"SLURM_CPUS_PER_TASK": asked, "PASSED_ON": passed_on} | threads
    step, told = provider.run(shell_of("SLURM3", "srun nproc"), **settings).split()[-2:]
    assert (int(told) > int(step)) == lost


def test_a_job_that_asked_for_nothing_gets_one_core_either_way(provider, shell_of):
    provider.program("srun", SRUN)
    provider.program("sinfo", "#!/bin/sh\necho slurm 22.05.8\n")
    step, told = provider.run(shell_of("SLURM3", "srun nproc"), PASSED_ON="1").split()[-2:]
    assert step == told == "1"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_job_that_asked_for_nothing_on_a_whole_node_does_not_pass_for_it(provider, shell_of):
    provider.program("srun", SRUN)
    provider.program("sinfo", "#!/bin/sh\necho slurm 23.11.4\n")
    step, told = provider.run(shell_of("SLURM3", "srun nproc"), PASSED_ON="2").split()[-2:]
    assert int(step) > int(told) == 1
