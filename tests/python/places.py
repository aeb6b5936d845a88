"""Where the tests find the sources and the program."""

import os
import pathlib

SOURCE = pathlib.Path(os.environ["EPSIM_SOURCE_DIR"])
PROGRAM = os.environ["EPSIM_BINARY"]
SMALL = str(SOURCE / "tests/data/small.yaml")


def same_files(a, b):
    """Asserts that two folders hold the same files with the same bytes."""
    a, b = pathlib.Path(a), pathlib.Path(b)
    names = sorted(str(p.relative_to(a)) for p in a.rglob("*") if p.is_file())
    others = sorted(str(p.relative_to(b)) for p in b.rglob("*") if p.is_file())
    assert names and names == others, (names, others)
    for name in names:
        assert (a / name).read_bytes() == (b / name).read_bytes(), f"{name} differs"
