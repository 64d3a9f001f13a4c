"""AD4: the fix counts the files behind the link that /root/autodl-fs is."""

from remote_gpu_trainer.catalogue import bundle


def test_the_fix_names_the_folder_that_holds_most_files(provider):
    disk = provider.place / "autodl-fs-data"
    for folder, files in (("images", 9), ("runs", 2)):
        (disk / folder).mkdir(parents=True)
        for number in range(files):
            (disk / folder / str(number)).touch()
    link = provider.place / "link"
    link.symlink_to(disk)
    line = next(c for c in bundle.load().get("AD4").fix.split("`") if c.startswith("du "))
    rows = provider.run(line.replace("/root/autodl-fs", str(link))).splitlines()
    counts = {row.split("\t")[1].rpartition("/")[2]: int(row.split()[0]) for row in rows}
    assert list(counts)[1:] == ["images", "runs"]
    assert (counts["images"], counts["runs"]) == (10, 3)
