"""EPLB on or off: the program's answer, from files, traces and Python."""

import json
import os
import subprocess
import tempfile
import unittest

import epsim
import numpy
from places import PROGRAM, SMALL

FEW = {"requests.input_tokens": 64, "requests.output_tokens": 4}


def recording(folder, name, experts_per_step):
    """A NumPy array [token][layer][k] of OLMoE's shape; `experts_per_step`: the experts that its tokens draw from."""
    rng = numpy.random.default_rng(1)
    tokens = numpy.array([[rng.permutation(experts)[:8] for _ in range(16)] for experts in experts_per_step for _ in range(64)])
    numpy.save(f"{folder}/{name}", tokens.astype(numpy.int32))
    return f"{folder}/{name}"


class DiagnoseTest(unittest.TestCase):
    def test_answers_as_the_program_does(self):
        with tempfile.TemporaryDirectory() as folder:
            counts = recording(folder, "counts.npy", [64, 16])
            printed = subprocess.run([PROGRAM, "diagnose", counts, "--scenario", SMALL, "--seeds", "1", "--json",
                                      *(f"--set={key}={value}" for key, value in FEW.items())], capture_output=True, text=True)
            self.assertIn(printed.returncode, (10, 11, 12))
            found = epsim.diagnose(counts, scenario=epsim.load(SMALL, FEW), seeds=1)
            found.save(f"{folder}/found.json")
            with open(f"{folder}/found.json") as file:
                self.assertEqual(file.read(), printed.stdout)
            trace = epsim.traces.read(counts, experts=64, top_k=8)
            of_trace = epsim.diagnose(trace, scenario=SMALL, overrides=FEW, seeds=1)
            self.assertEqual(of_trace.to_dict(), found.to_dict())
            self.assertEqual(str(of_trace), str(found))  # which names the recording, not the trace's temporary file
            part = trace.slice(tokens=(0, 64))
            with self.assertRaises(epsim.InputError) as caught:
                epsim.diagnose(part, part, scenario=SMALL, overrides=FEW, seeds=1)
            self.assertNotIn(os.path.dirname(part.path), str(caught.exception))
            self.assertIn(f"the counts of part of {counts} again", str(caught.exception))
        self.assertEqual(found.answer, json.loads(printed.stdout)["answer"])
        self.assertIn("skew", str(found))
        self.assertIn("<svg", found._repr_html_())
        self.assertIn("requests/s", found.report().html)

    def test_refuses_bad_input(self):
        with tempfile.TemporaryDirectory() as folder:
            counts = recording(folder, "counts.npy", [64])
            for options, key in (({"scenario": SMALL, "seeds": 0}, "seeds"), ({"scenario": SMALL, "worth": -1}, "worth"),
                                 ({"nodes": 4.0}, "nodes"),
                                 ({"scenario": epsim.load(SMALL).with_loads(lambda step, tokens: numpy.ones((16, 64)))},
                                  "scenario")):
                with self.assertRaises(epsim.InputError) as caught:
                    epsim.diagnose(counts, **options)
                self.assertEqual(caught.exception.key, key, options)
            with self.assertRaises(epsim.InputError) as caught:
                epsim.diagnose(counts, model="olmo")
            self.assertIn("OLMoE-1B-7B", caught.exception.allowed)
            with self.assertRaises(epsim.InputError) as caught:
                epsim.diagnose(counts)  # ids of experts, and no model
            self.assertTrue(caught.exception.file.endswith("counts.npy"))
        with self.assertRaisesRegex(epsim.InputError, "logical_count"):
            epsim.diagnose(numpy.ones((16, 64)))


if __name__ == "__main__":
    unittest.main()
