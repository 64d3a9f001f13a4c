"""A driver and a torch that say which CUDA they have: for checks that hold one against the other."""

HEAD = "| NVIDIA-SMI {driver:<18} Driver Version: {driver:<14} {name}: {cuda:<8} |\n"


def cudas(provider, line: str, driver: str, cuda: str, wheel: str | None) -> list[str]:
    """The lines that the check prints. From driver 610 on nvidia-smi says CUDA UMD Version."""
    name = "CUDA UMD Version" if int(driver.split(".")[0]) >= 610 else "CUDA Version"
    provider.printing("nvidia-smi", {"": HEAD.format(driver=driver, name=name, cuda=cuda)})
    package = provider.place / "torch"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("from . import version\n__version__ = '2.9.1'\n")
    (package / "version.py").write_text(f"cuda = {wheel!r}\n")
    return provider.run(line, PYTHONPATH=str(provider.place)).splitlines()


def majors(lines: list[str]) -> list[int]:
    """The number before the dot of each line."""
    return [int(line.split()[-1].split(".")[0]) for line in lines]


CASES = [
    ("550.54.15", "12.4", "13.0", True),
    ("550.54.15", "12.4", "12.8", False),  # within one major number it runs
    ("580.65.06", "13.0", "12.8", False),
    ("610.12", "13.3", "13.0", False),
    ("470.256.02", "11.4", "12.6", True),
]
