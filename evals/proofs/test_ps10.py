"""PS10: the check shows what takes the room, also in hidden folders that a plain `du` leaves out."""


def test_a_full_trash_is_shown_as_the_largest_and_an_empty_one_is_not(provider, shell_of):
    line = shell_of("PS10", "du -sch")
    for name in ("storage", "notebooks"):
        (provider.place / name).mkdir()
        line = line.replace(f"/{name}", str(provider.place / name))
    trash = provider.place / "storage/.Trash-0"
    trash.mkdir()
    (provider.place / "storage/data.tar").write_bytes(b"0" * 200_000)
    (trash / "old.ckpt").write_bytes(b"0" * 900_000)
    largest = provider.run(line).splitlines()
    assert [row.split("\t")[1] for row in largest[:3]] == ["data.tar", ".Trash-0", "total"]
    (trash / "old.ckpt").unlink()
    rows = [row.split("\t")[1] for row in provider.run(line).splitlines()]
    assert rows.index("data.tar") > rows.index(".Trash-0")
