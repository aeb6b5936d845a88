"""Comparisons: the program's bytes, over seeds too; errors of every policy."""

import contextlib
import io
import subprocess
import tempfile
import unittest

import epsim
import numpy
from places import PROGRAM, SMALL, same_files


class CompareTest(unittest.TestCase):
    def test_saves_the_bytes_of_the_program(self):
        for seeds in (1, 3):
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run([PROGRAM, "compare", SMALL, "--policies", "base,eplb", "--seeds", str(seeds), "-q",
                                "-o", f"{folder}/program"], check=True, stdout=subprocess.DEVNULL)
                epsim.compare(SMALL, ["base", "eplb"], seeds=seeds).save(f"{folder}/module")
                same_files(f"{folder}/program", f"{folder}/module")

    def test_results_are_runs(self):
        compared = epsim.compare(SMALL, ["base", "eplb"])
        self.assertEqual((list(compared), len(compared)), (["base", "eplb", "contiguous"], 3))
        self.assertTrue("eplb" in compared and "craft" not in compared)
        self.assertEqual(compared["base"].figures, epsim.run(SMALL).figures)
        with self.assertRaises(KeyError):
            compared["craft"]
        self.assertIn("eplb", str(compared))
        self.assertIn("<svg", compared._repr_html_())
        self.assertIn("<html", compared.report().html)

    def test_takes_policies_as_the_program_does_and_names_figures_that_are_near(self):
        compared = epsim.compare(SMALL, "base, eplb", only_listed=True)
        self.assertEqual(list(compared), ["base", "eplb"])
        with self.assertRaisesRegex(AttributeError, "a run has no 'ttft_men_ms'; the nearest are ttft_mean_ms"):
            compared["eplb"].ttft_men_ms
        with self.assertRaisesRegex(AttributeError, "epsim.metrics"):
            compared["eplb"].xyzzy

    def test_goes_to_pandas(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        compared = epsim.compare(SMALL, ["base", "eplb"], seeds=2, only_listed=True)
        table = compared.to_pandas()
        self.assertEqual(list(table.index), [("base", 3), ("base", 4), ("eplb", 3), ("eplb", 4)])
        self.assertEqual(table.loc[("eplb", 3), "ttft_mean_ms"], compared["eplb"].ttft_mean_ms)

    def test_progress_counts_runs(self):
        seen = []
        epsim.compare(SMALL, ["base", "eplb"], seeds=2, only_listed=True, progress=lambda done, all_: seen.append((done, all_)))
        self.assertEqual(seen[-1], (4, 4))

    def test_progress_by_tqdm_where_it_is_installed(self):
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown):
            epsim.compare(SMALL, ["base", "eplb"], progress=True)
        try:
            import tqdm  # noqa: F401
        except ImportError:
            self.assertIn("3 of 3 runs", shown.getvalue())
        else:
            self.assertIn("3/3", shown.getvalue())

    def test_refuses_bad_policies_and_seeds(self):
        with self.assertRaises(epsim.InputError) as caught:
            epsim.compare(SMALL, ["base", "elpb"])
        self.assertEqual(caught.exception.allowed[0], "eplb")
        for policies, seeds in ((["base", "base"], 1), (["base"], 0), (["base"], 101)):
            with self.assertRaises(epsim.InputError):
                epsim.compare(SMALL, policies, seeds=seeds)
        for name, value, wanted in (("seeds", [1, 2], "a whole number"), ("threads", 2.0, "a whole number"),
                                    ("only_listed", "yes", "True or False")):
            with self.assertRaisesRegex(epsim.InputError, f"^`{name}`: .* is not {wanted}"):
                epsim.compare(SMALL, "base", **{name: value})

    def test_takes_an_array_of_policies(self):
        self.assertEqual(epsim.compare(SMALL, numpy.array(["base", "eplb"]), only_listed=True).labels, ["base", "eplb"])

    def test_the_catalogue_has_what_scenarios_name(self):
        catalogue = epsim.catalogue()
        self.assertIn("p4de.24xlarge", catalogue["nodes"])
        self.assertIn("OLMoE-1B-7B", catalogue["models"])
        self.assertIn("eplb", catalogue["placement_policies"])


if __name__ == "__main__":
    unittest.main()
