"""VAST2: hashes written on the box name the files that a copy left out or broke off."""

from remote_gpu_trainer.catalogue import bundle


def test_the_check_is_silent_for_a_whole_copy_and_names_what_is_missing_or_cut(provider, shell_of):
    box, out = provider.place / "box", provider.place / "out"
    box.mkdir()
    for name in ("model.pt", "optimizer.pt"):
        (box / name).write_bytes(name.encode() * 1000)
    spans = bundle.load().get("VAST2").fix.split("`")
    write = next(code for code in spans if "sha256sum" in code)
    provider.run(write.replace("/workspace/out", str(box)))
    provider.run(f"cp -r {box} {out}")
    check = shell_of("VAST2", "sha256sum")
    whole = provider.done(check)
    assert (whole.returncode, whole.stdout) == (0, "")
    (out / "model.pt").write_bytes(b"model.pt")
    (out / "optimizer.pt").unlink()
    broken = provider.done(check)
    assert broken.returncode != 0
    assert "model.pt: FAILED" in broken.stdout and "optimizer.pt" in broken.stderr
