"""Prints the type stub with an attribute of Run for every metric; what stands above them in the stub is written by hand.

PYTHONPATH=build/release/sim/python python3 scripts/python_stub.py > stub && mv stub sim/python/epsim/__init__.pyi
"""

from pathlib import Path

import epsim

STUB = Path(__file__).resolve().parent.parent / "sim/python/epsim/__init__.pyi"
METRICS = "    # The table of metrics, by scripts/python_stub.py.\n"


def stub() -> str:
    """The whole stub."""
    head = STUB.read_text().split(METRICS)[0] + METRICS
    lines = []
    for row in epsim.metrics():
        kind = row["type"] if row["type"] in ("str", "bool") else f"Optional[{row['type']}]"
        if f"def {row['name']}(" not in head.split("class Run(_Result)")[1]:
            lines.append(f"    {row['name']}: {kind}  # {row['unit']}".removesuffix("  # ") + "\n")
    return head + "".join(lines)


if __name__ == "__main__":
    print(stub(), end="")
