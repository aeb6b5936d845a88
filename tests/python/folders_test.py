"""Sweeps, capacity, papers: the program's files, and work that is kept."""

import pathlib
import subprocess
import tempfile
import unittest

import epsim
import numpy
from places import PROGRAM, SMALL, SOURCE

FEW = {"requests.count": 6, "requests.output_tokens": 4}
SET = ["--set", "requests.count=6", "--set", "requests.output_tokens=4"]


def program(*words):
    return subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, text=True).returncode


def same(test, a, b, names):
    for name in names:
        test.assertEqual(pathlib.Path(a, name).read_bytes(), pathlib.Path(b, name).read_bytes(), name)


class SweepTest(unittest.TestCase):
    VARY = {"requests.rate": ["10/s", "20/s"], "seed": [3, 4]}

    def test_saves_the_tables_of_the_program_and_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(0, program("sweep", SMALL, "--vary", "requests.rate=10/s,20/s", "--vary", "seed=3,4",
                                        "--policies", "base,eplb", "-q", "-o", f"{folder}/program", *SET))
            swept = epsim.sweep(SMALL, self.VARY, ["base", "eplb"], overrides=FEW, folder=f"{folder}/module")
            names = ("results.csv", "intervals.csv", "resolved.yaml", "winners.csv")
            same(self, f"{folder}/program", f"{folder}/module", names)
            seen = []
            epsim.sweep(SMALL, self.VARY, ["base", "eplb"], overrides=FEW, folder=f"{folder}/module",
                        progress=lambda done, every: seen.append((done, every)))
            self.assertEqual(seen[-1], (0, 0))  # every point was finished
            swept.save(f"{folder}/copy")
            same(self, f"{folder}/program", f"{folder}/copy", names)
            with self.assertRaises(epsim.InputError):
                epsim.sweep(SMALL, self.VARY, ["base"], overrides=FEW, folder=f"{folder}/module")
        results = swept.tables["results"]
        self.assertEqual(results["ttft_mean_ms"].dtype, numpy.float64)
        self.assertEqual(results["policy"], ["base", "eplb", "contiguous"] * 4)
        alone = epsim.run(SMALL, {**FEW, "requests.rate": "10/s", "seed": 4})
        self.assertEqual(results["ttft_mean_ms"][3], alone.ttft_mean_ms)
        self.assertIn("<svg", swept._repr_html_())

    def test_an_axis_goes_before_what_the_scenario_has(self):
        scenario = epsim.load(SMALL, {**FEW, "requests.rate": "5/s"})
        scenario.seed = 9
        swept = epsim.sweep(scenario, self.VARY, ["base"], only_listed=True).tables["results"]["ttft_mean_ms"]
        want = epsim.sweep(SMALL, self.VARY, ["base"], only_listed=True, overrides=FEW).tables["results"]["ttft_mean_ms"]
        self.assertEqual(list(swept), list(want))

    def test_takes_a_python_policy_and_records_failures(self):
        @epsim.policy
        def in_order(loads, shape):
            return numpy.tile(numpy.arange(shape.experts), (shape.layers, 1))

        swept = epsim.sweep(SMALL, {"cluster.nodes": [1, 3]}, ["contiguous", in_order], overrides=FEW)
        results = swept.tables["results"]
        self.assertEqual(results["ttft_mean_ms"][0], results["ttft_mean_ms"][1])
        self.assertEqual([bool(error) for error in results["error"]], [False] * 3 + [True] * 3)  # 64 over 24 GPUs
        with self.assertRaises(epsim.InputError) as caught:
            epsim.sweep(SMALL, {"cluster.nodes": [1]}, [in_order], folder="nowhere")
        self.assertEqual(caught.exception.key, "folder")

    def test_refuses_bad_axes(self):
        for vary, key in (({}, "vary"), ({"requests.rate": []}, "requests.rate"), ({"seed": [1, 1]}, "seed")):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.sweep(SMALL, vary)
            self.assertEqual(caught.exception.key, key)
        with self.assertRaises(epsim.InputError):
            epsim.sweep(SMALL, {"requests.rat": ["8/s"]})
        with self.assertRaises(epsim.InputError) as caught:
            epsim.sweep(SMALL, {"seed": [1]}, slo="ttft.p99<1s")  # as the program, without --measure goodput
        self.assertEqual(caught.exception.key, "slo")

    def test_refuses_a_policy_that_is_none_before_any_point_runs(self):
        ran = []
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(epsim.InputError) as caught:
                epsim.sweep(SMALL, {"seed": [1, 2]}, ["base", "elpb"], overrides=FEW, folder=f"{folder}/sweep",
                            progress=lambda done, every: ran.append(done))
            self.assertFalse(pathlib.Path(folder, "sweep").exists())
            self.assertEqual(2, program("sweep", SMALL, "--vary", "seed=1,2", "--policies", "base,elpb", "-q", "-o",
                                        f"{folder}/sweep", *SET))
        self.assertEqual((caught.exception.key, caught.exception.allowed[0]), ("policies", "eplb"))
        self.assertEqual(max(ran, default=0), 0)
        # A label that some combinations know is of these alone.
        known = epsim.sweep(SMALL, {"policies": [{}, {"mine": {"kind": "eplb"}}]}, "mine", overrides=FEW)
        self.assertEqual([bool(error) for error in known.tables["results"]["error"]], [True, False])

    def test_refuses_arguments_that_are_none(self):
        for name, value in (("tolerance", 0.1), ("measure", 3), ("retry_failed", 1), ("folder", 5)):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.sweep(SMALL, {"seed": [1]}, **{name: value})
            self.assertEqual(caught.exception.key, name)
        with self.assertRaises(epsim.InputError) as caught:
            epsim.sweep(SMALL, ["seed=1"])
        self.assertEqual(caught.exception.key, "vary")

    def test_one_value_needs_no_list(self):
        results = epsim.sweep(SMALL, {"requests.rate": "10/s", "seed": 3}, overrides=FEW).tables["results"]
        self.assertEqual(results["ttft_mean_ms"][0], epsim.run(SMALL, {**FEW, "requests.rate": "10/s"}).ttft_mean_ms)


class CapacityTest(unittest.TestCase):
    ASK = {"model": "olmoe-1b-7b", "dtypes": "bf16", "rate": "100/s", "input_tokens": 1024, "output_tokens": 16,
           "nodes": ["DGX-H100", "DGX-H200"], "sizes": 1, "attention_tp": 8, "policies": ["contiguous"],
           "modes": "together", "seeds": 1, "quick": True, "ttft": "p99=100ms", "tpot": "mean=50ms",
           "price": "DGX-H200=10usd/h"}

    def test_saves_the_folder_of_the_program(self):
        words = ["--quick"]
        for name, value in self.ASK.items():
            if name != "quick":
                value = ",".join(value) if isinstance(value, list) else str(value)
                words += ["--" + name.replace("_", "-"), value]
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(0, program("capacity", *words, "-q", "-o", f"{folder}/program"))
            arrays = {"nodes": numpy.array(self.ASK["nodes"]), "sizes": range(1, 2), "price": {"DGX-H200": "10usd/h"}}
            found = epsim.capacity(**{**self.ASK, **arrays})
            found.save(f"{folder}/module")
            same(self, f"{folder}/program", f"{folder}/module",
                 ("capacity.json", "candidates.csv", "deployments.csv", "recommended.yaml", "launch.sh"))
        self.assertTrue(found.feasible)
        self.assertEqual(found.tables["deployments"]["node"][0], "DGX-H200")
        self.assertIn("Rent ", str(found))

    def test_refuses_what_it_cannot_answer(self):
        with self.assertRaises(epsim.InputError) as caught:
            epsim.capacity(model="olmoe-1b-7b", rate="5", input_tokens=1, output_tokens=1, ttft="1s")
        self.assertEqual(caught.exception.key, "rate")
        for wrong, key in (({"input_tokens": "x"}, "input_tokens"), ({"policies": [print]}, "policies")):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.capacity(**{**self.ASK, **wrong})
            self.assertEqual(caught.exception.key, key)


class ReproduceTest(unittest.TestCase):
    def test_saves_the_claims_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program("reproduce", str(SOURCE / "experiments/craft/claims.yaml"), "--only", "C05,C21", "--set",
                    "plan_loads.steps=10", "-q", "-o", f"{folder}/program")
            done = epsim.reproduce(SOURCE / "experiments/craft/claims.yaml", only=["C05", "C21"],
                                   overrides={"plan_loads.steps": 10})
            done.save(f"{folder}/module")
            same(self, f"{folder}/program", f"{folder}/module", ("claims.json", "setups.csv"))
        self.assertEqual({row["claim"] for row in done.claims}, {"C05"})  # C21 is held elsewhere
        self.assertIn("C05", str(done))

    def test_refuses_a_file_that_is_not_there(self):
        with self.assertRaises(epsim.InputError) as caught:
            epsim.reproduce(SOURCE / "nowhere.yaml")
        self.assertTrue(caught.exception.file.endswith("nowhere.yaml"))


if __name__ == "__main__":
    unittest.main()
