"""MP1: the check puts saved environments first where they fill the disk, and names none where the files are yours."""


def test_the_snapshots_come_first_only_where_they_take_the_room(provider, shell_of):
    disk = provider.place / "mnt"
    (disk / "env").mkdir(parents=True)
    (disk / "run1").mkdir()
    (disk / "run1/last.pt").write_bytes(b"0" * 300_000)
    (disk / "env/torch.snap").write_bytes(b"0" * 900_000)
    line = shell_of("MP1", "du -ah").replace("/mnt", str(disk))
    files = [row.split()[1] for row in provider.run(line).splitlines() if "." in row.split("/")[-1]]
    assert [path.rsplit("/", 1)[1] for path in files] == ["torch.snap", "last.pt"]
    (disk / "env/torch.snap").unlink()
    assert ".snap" not in provider.run(line)


def test_the_line_of_a_full_disk_names_the_entry(says):
    says("MP1", "cp: error writing '/mnt/run1/last.pt': No space left on device")
