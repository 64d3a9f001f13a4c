"""RP12: the check names the variables that the session lacks, and shows no line of a value."""

import os
import subprocess

SECRET = "-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END KEY-----"


def test_the_check_names_what_the_session_lacks_without_a_line_of_any_value(provider, shell_of):
    first = subprocess.Popen(
        ["sleep", "60"], env={"PATH": os.environ["PATH"], "HF_TOKEN": "hf_1", "DEPLOY_KEY": SECRET}
    )
    try:
        line = shell_of("RP12", "environ").replace("/proc/1/", f"/proc/{first.pid}/")
        assert provider.run(line) == "DEPLOY_KEY\nHF_TOKEN"
        assert provider.run(line, HF_TOKEN="hf_1") == "DEPLOY_KEY"
        assert provider.run(line, HF_TOKEN="hf_1", DEPLOY_KEY=SECRET) == ""
    finally:
        first.kill()
        first.wait()
