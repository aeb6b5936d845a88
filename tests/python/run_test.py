"""One run: the program's bytes, figures with units, arrays over the run's memory, Ctrl-C, threads."""

import copy
import csv
import json
import os
import pathlib
import pickle
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import epsim
import numpy
from places import PROGRAM, SMALL, same_files


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.run_ = epsim.run(SMALL)

    def test_saves_the_bytes_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "run", SMALL, "-q", "--set", "requests.rate=10/s", "-o", f"{folder}/program"],
                           check=True, stdout=subprocess.DEVNULL)
            epsim.run(SMALL, {"requests.rate": "10/s"}).save(f"{folder}/module")
            same_files(f"{folder}/program", f"{folder}/module")
            with self.assertRaises(epsim.InputError):
                self.run_.save(f"{folder}/module")
            self.run_.save(f"{folder}/module", overwrite=True)

    def test_every_metric_is_an_attribute_with_a_unit(self):
        for row in epsim.metrics():
            self.assertEqual(getattr(self.run_, row["name"]), self.run_.figures[row["name"]], row["name"])
            self.assertIn(row["unit"], getattr(epsim.Run, row["name"]).__doc__)
            self.assertEqual(epsim.units()[row["name"]], row["unit"])
        self.assertIn("ttft_mean_ms", dir(self.run_))
        self.assertIsInstance(self.run_.steps, int)
        self.assertIs(self.run_.interrupted, False)

    def test_figures_are_those_of_summary_json(self):
        summary = self.run_.to_dict()
        self.assertEqual(summary["latency"]["ttft_mean_ms"], self.run_.ttft_mean_ms)
        self.assertEqual(summary["seed"], self.run_.seed)
        self.assertIs(copy.deepcopy(self.run_), self.run_)  # it never changes

    def test_arrays_are_views_of_the_run(self):
        requests = self.run_.requests
        self.assertEqual(len(requests["arrival_ps"]), 40)
        self.assertTrue((requests["state"] == 2).all())
        self.assertTrue((requests["dp_rank"] >= 0).all())
        self.assertEqual(requests["retries"].tolist(), [0] * 40)
        # ps to ms: 1e9. The mean over all completed requests is the metric.
        ttft = (requests["first_token_ps"] - requests["arrival_ps"]) / 1e9
        self.assertAlmostEqual(ttft.mean(), self.run_.ttft_mean_ms, places=9)
        for views in ("requests", "series", "maps"):
            for name, array in getattr(self.run_, views).items():
                if name not in ("balancedness", "dp_rank"):  # copies
                    self.assertTrue(numpy.shares_memory(array, getattr(self.run_, views)[name]), name)
                    self.assertFalse(array.flags.writeable or array.flags.owndata, name)

    def test_arrays_outlive_their_run(self):
        arrivals = epsim.run(SMALL).requests["arrival_ps"]
        self.assertTrue((numpy.diff(arrivals) >= 0).all())
        self.assertTrue((arrivals == self.run_.requests["arrival_ps"]).all())

    def test_series_and_maps_are_those_of_the_files(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_.save(f"{folder}/out")
            rows, layers = [list(csv.DictReader(pathlib.Path(f"{folder}/out/{name}.csv").read_text().splitlines()))
                            for name in ("series", "layer_gpu")]
        for name in ("start_s", "length_s", "running_requests", "queued_requests", "kv_use_share"):
            self.assertEqual(self.run_.series[name].tolist(), [float(row[name]) for row in rows], name)
        maps = self.run_.maps
        self.assertEqual(maps["gpu_assignments"].shape, (16, 16))  # OLMoE: 16 MoE layers; two nodes of 8 GPUs
        self.assertEqual(maps["gpu_assignments"].ravel().tolist(), [float(row["assignments"]) for row in layers])
        self.assertEqual(maps["gpu_expert_busy_s"].shape, (16, 16))
        self.assertEqual(maps["link_bound_s"].shape, (16, 2, len(self.run_.links)))
        self.assertEqual(maps["balancedness"].shape[1], 16)

    def test_shows_itself(self):
        self.assertIn("TTFT", str(self.run_))
        self.assertIn("<svg", self.run_._repr_html_())
        report = self.run_.report()
        self.assertIn("iframe", report._repr_html_())
        with tempfile.TemporaryDirectory() as folder:
            report.save(f"{folder}/report.html")
            self.assertTrue(pathlib.Path(f"{folder}/report.html").read_text().lower().startswith("<!doctype html>"))

    def test_goes_to_pandas(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        self.assertEqual(self.run_.to_pandas().loc["base", "ttft_mean_ms"], self.run_.ttft_mean_ms)
        self.assertEqual(len(self.run_.to_pandas("requests")), 40)
        self.assertEqual(len(self.run_.to_pandas("series")), len(self.run_.series["start_s"]))

    def test_a_figure_without_value_is_not_a_number_in_pandas(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        types = {row["name"]: row["type"] for row in epsim.metrics()}
        dtypes = self.run_.to_pandas().dtypes
        self.assertIn(None, self.run_.figures.values())
        for name, dtype in dtypes.items():
            self.assertEqual(dtype == object, types[name] == "str", name)

    def test_refuses_arguments_of_other_types(self):
        for name, value in (("threads", -1), ("threads", 2.0), ("threads", 2**40), ("strict_calibration", "yes")):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.run(SMALL, **{name: value})
            self.assertEqual(caught.exception.key, name)
        with self.assertRaises(epsim.InputError) as caught:  # small.yaml is priced by other hardware's measurements
            epsim.run(SMALL, strict_calibration=True)
        self.assertEqual(caught.exception.key, "strict_calibration")
        self.assertNotIn("--strict", str(caught.exception))
        for folder in (None, 3):
            with self.assertRaises(TypeError):
                self.run_.save(folder)

    def test_is_not_pickled(self):
        with self.assertRaisesRegex(TypeError, "epsim.Run cannot be pickled"):
            pickle.dumps(self.run_)

    def test_progress_reaches_the_end(self):
        seen = []
        epsim.run(SMALL, progress=lambda done, every: seen.append((done, every)))
        self.assertEqual(seen[-1], (40, 40))

    def test_runs_and_records_the_files_as_they_are_now(self):
        def requests(count):
            return "t,i,o\n" + "".join(f"{i},100,4\n" for i in range(count))

        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "requests.csv")
            file.write_text(requests(3))
            change = {"requests": {"kind": "csv", "path": file, "arrival_column": "t", "input_column": "i", "output_column": "o"}}
            scenario = epsim.load(SMALL, change)
            first = epsim.run(scenario)
            file.write_text(requests(5))
            runs = [epsim.run(scenario), epsim.compare(scenario, "base", seeds=2)["base"],
                    epsim.run(SMALL, change)]
        inputs = [run.to_dict()["inputs"] for run in (first, *runs)]
        self.assertEqual(len(first.requests["arrival_ps"]), 3)
        self.assertEqual([len(run.requests["arrival_ps"]) for run in runs], [5] * 3)
        self.assertNotEqual(inputs[0], inputs[1])
        self.assertEqual((inputs[1], inputs[2]), (inputs[3], inputs[3]))


LONG = {"requests.count": 200000}  # minutes: cut short


class LongRunTest(unittest.TestCase):
    def test_ctrl_c_ends_a_run(self):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            epsim.run(SMALL, LONG)

    def test_an_error_of_the_progress_function_ends_a_run(self):
        def broken(done, all_):
            raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            epsim.run(SMALL, LONG, progress=broken)

    def test_other_threads_go_on_meanwhile(self):
        counted = [0]
        seen = []

        def count():
            while not seen:
                counted[0] += 1
                time.sleep(0.001)

        def progress(done, all_):
            seen.append((done, counted[0]))
            if len(seen) == 1 and counted[0] < 5:
                seen.clear()  # not yet: the run goes on
            elif seen:
                raise StopIteration

        thread = threading.Thread(target=count)
        thread.start()
        with self.assertRaises(StopIteration):
            epsim.run(SMALL, LONG, progress=progress)
        thread.join()
        self.assertGreaterEqual(seen[0][1], 5)

    def test_other_threads_go_on_while_a_scenario_is_read(self):
        counted, read = [0], threading.Event()

        def count():
            while not read.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        scenario = epsim.load(SMALL, {"requests.count": 20})
        for change in (lambda: epsim.load(SMALL, LONG), lambda: setattr(scenario.requests, "count", 200000)):
            before = counted[0]
            change()
            self.assertGreaterEqual(counted[0] - before, 3)
        read.set()
        thread.join()

    def test_runs_in_parallel_threads_are_alike(self):
        results = {}
        threads = [threading.Thread(target=lambda i=i: results.update({i: epsim.run(SMALL).to_dict()}))
                   for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 3)
        self.assertEqual(json.dumps(results[0]), json.dumps(results[1]))
        self.assertEqual(json.dumps(results[0]), json.dumps(results[2]))


if __name__ == "__main__":
    unittest.main()
