"""SLURM3: the check's two counts differ where srun passes no cores on, also in a script that sets OMP_NUM_THREADS."""

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
def test_the_counts_differ_only_where_the_step_got_one_core(
    provider, shell_of, threads, passed_on, asked, lost
):
    provider.program("srun", SRUN)
    provider.program("sinfo", "#!/bin/sh\necho slurm 22.05.8\n")
    settings = {"SLURM_CPUS_PER_TASK": asked, "PASSED_ON": passed_on} | threads
    step, told = provider.run(shell_of("SLURM3", "srun nproc"), **settings).split()[-2:]
    assert (step != told) == lost


def test_a_job_that_asked_for_nothing_gets_one_core_either_way(provider, shell_of):
    provider.program("srun", SRUN)
    provider.program("sinfo", "#!/bin/sh\necho slurm 22.05.8\n")
    step, told = provider.run(shell_of("SLURM3", "srun nproc"), PASSED_ON="1").split()[-2:]
    assert step == told == "1"
