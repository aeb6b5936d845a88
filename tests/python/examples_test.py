"""experiments/notebooks, as scripts on the small scenario: what they print."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from places import SMALL, SOURCE

HERE = SOURCE / "experiments/notebooks"


def printed(script, *words):
    """What it prints, which stands in the script behind '#>'."""
    out = subprocess.run([sys.executable, str(HERE / script), SMALL, *words], check=True, capture_output=True,
                         text=True).stdout
    kept = [line[2:].strip() for line in (HERE / script).read_text().splitlines() if line.startswith("#>")]
    assert kept == [line.strip() for line in out.splitlines()], out
    return out


class ExamplesTest(unittest.TestCase):
    def test_own_policy(self):
        text = printed("own_policy.py")
        rows = dict(re.findall(r"^(\w+) +mean over slowest GPU, mean of layers: [0-9.]+, KV lost to copies: (.*) %$", text,
                               re.M))
        self.assertEqual(list(rows), ["base", "hot_to_cold", "eplb", "craft", "contiguous"])
        self.assertEqual(rows["base"], "0.0")
        self.assertGreater(float(rows["hot_to_cold"]), 0)

    def test_capacity_front(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib is not installed")
        with tempfile.TemporaryDirectory() as folder:
            text = printed("capacity_front.py", f"{folder}/front.png")
            self.assertTrue(pathlib.Path(f"{folder}/front.png").read_bytes().startswith(b"\x89PNG"))
        cost = [float(usd) for usd in re.findall(r"^TPOT mean < [0-9.]+ ms: [0-9]+ x \S+, ([0-9.]+) USD/h$", text, re.M)]
        self.assertEqual(len(cost), 3)
        self.assertEqual(cost, sorted(cost, reverse=True))  # a looser bound costs no more
        self.assertGreater(cost[0], cost[-1])

    def test_replication_sweep(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib is not installed")
        with tempfile.TemporaryDirectory() as folder:
            text = printed("replication_sweep.py", f"{folder}/sweep.png")
            self.assertTrue(pathlib.Path(f"{folder}/sweep.png").read_bytes().startswith(b"\x89PNG"))
        lost = [float(share) for share in re.findall(r"KV lost +([0-9.]+) %", text)]
        self.assertEqual(len(lost), 5)
        self.assertEqual(lost[0], 0)
        self.assertEqual(lost, sorted(lost))  # more copies take more room
        self.assertGreater(lost[-1], lost[1])


if __name__ == "__main__":
    unittest.main()
