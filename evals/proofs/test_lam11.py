"""LAM11: apt's history has an upgrade of the driver where apt did it, and only installations where it didn't."""

UPGRADE = """
Start-Date: 2026-08-20  06:14:02
Commandline: /usr/bin/unattended-upgrade
Upgrade: libnvidia-compute-550:amd64 (550.90.07-0ubuntu1, 550.127.05-0ubuntu1), tzdata:amd64 (2024a, 2024b)
End-Date: 2026-08-20  06:15:11
"""
BY_NAME = """
Start-Date: 2026-08-20  09:00:00
Commandline: apt install cuda-drivers
Upgrade: nvidia-driver-550:amd64 (550.90.07-0ubuntu1, 550.127.05-0ubuntu1)
End-Date: 2026-08-20  09:02:00
"""
KERNEL = """
Start-Date: 2026-08-21  06:10:00
Commandline: apt full-upgrade -y
Install: linux-image-6.8.0-60-generic:amd64 (6.8.0-60.63, automatic)
Upgrade: tzdata:amd64 (2024a, 2024b)
End-Date: 2026-08-21  06:12:00
"""
INSTALL = """
Start-Date: 2026-08-19  10:02:00
Commandline: apt-get install -y --no-upgrade tmux
Install: tmux:amd64 (3.2a-4ubuntu0.2)
End-Date: 2026-08-19  10:02:07
"""


def test_an_upgrade_is_shown_also_one_that_a_plain_install_brought(provider, shell_of):
    log = provider.place / "history.log"
    line = shell_of("LAM11", "history.log").replace("/var/log/apt/history.log", str(log))
    for upgrade in (UPGRADE, BY_NAME):
        log.write_text(INSTALL + upgrade)
        shown = provider.run(line)
        assert "Upgrade:" in shown and "550.127.05" in shown and "Start-Date: 2026-08-20" in shown
    log.write_text(INSTALL)
    shown = provider.run(line)
    assert "Upgrade:" not in shown and "linux-image" not in shown


def test_a_new_kernel_is_shown_which_apt_installs_beside_the_old_one(provider, shell_of):
    log = provider.place / "history.log"
    line = shell_of("LAM11", "history.log").replace("/var/log/apt/history.log", str(log))
    log.write_text(INSTALL + KERNEL)
    assert "Install: linux-image-6.8.0-60" in provider.run(line)
