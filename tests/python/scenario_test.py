"""Scenarios: dotted access, checks on every set, errors with their place."""

import copy
import os
import pathlib
import pickle
import tempfile
import unittest

import epsim
import numpy
from places import SMALL


class ScenarioTest(unittest.TestCase):
    def test_is_made_by_load_alone(self):
        with self.assertRaisesRegex(TypeError, "epsim.load"):
            epsim.Scenario("small.yaml")

    def test_reads_by_key_and_by_dots(self):
        s = epsim.load(SMALL)
        self.assertEqual(s["requests.rate"], "20/s")
        self.assertEqual(s.requests.rate, "20/s")
        self.assertEqual(s["requests"]["count"], 40)
        self.assertEqual(s.loads.low, 1.5)
        self.assertIs(s.serving.enable_mixed_chunk, True)
        self.assertEqual(s.policy, "base")  # a default
        self.assertIn("requests", s)
        self.assertNotIn("requests.rat", s)

    def test_completion_offers_the_keys(self):
        s = epsim.load(SMALL)
        self.assertIn("requests", dir(s))
        self.assertIn("rate", dir(s.requests))
        self.assertIn("rate", s.requests._ipython_key_completions_())

    def test_sets_in_every_way(self):
        s = epsim.load(SMALL, {"requests.rate": "10/s"})
        self.assertEqual(s.requests.rate, "10/s")
        s["requests.rate"] = "8/s"
        self.assertEqual(s.requests.rate, "8/s")
        s.requests.rate = "6/s"
        self.assertEqual(s["requests"]["rate"], "6/s")
        s.requests.update(rate="5/s", count=20)
        self.assertEqual((s.requests.rate, s.requests.count), ("5/s", 20))
        s.loads = {"kind": "uniform"}
        self.assertEqual(s.loads.kind, "uniform")
        self.assertEqual(epsim.load(SMALL, ["requests.rate=10/s"]).requests.rate, "10/s")

    def test_copies_are_apart(self):
        s = epsim.load(SMALL)
        other = s.with_({"requests.rate": "8/s"}, seed=9)
        self.assertEqual((other.requests.rate, other.seed), ("8/s", 9))
        self.assertEqual((s.requests.rate, s.seed), ("20/s", 3))
        other.loads.low = 1.25
        for again in (copy.copy(other), copy.deepcopy(other), pickle.loads(pickle.dumps(other))):
            self.assertEqual(again.to_dict(), other.to_dict())
            again.seed = 10
            self.assertEqual(other.seed, 9)

    def test_is_read_from_a_file(self):
        for read in (epsim.load, epsim.run):
            with self.assertRaisesRegex(TypeError, "is read from a file"):
                read({"name": "x"})

    def test_a_message_may_quote_what_is_no_text(self):
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f"{folder}/ids.npy", numpy.zeros((5, 16, 8), numpy.int32))
            with self.assertRaisesRegex(epsim.InputError, "ids.npy"):
                epsim.run(SMALL, {"loads": {"kind": "sglang_counts", "path": f"{folder}/ids.npy"}})

    def test_a_copied_section_is_of_a_copied_scenario_only_where_deep(self):
        s = epsim.load(SMALL)
        for again, rate in ((copy.deepcopy(s.requests), "20/s"), (pickle.loads(pickle.dumps(s.requests)), "20/s"),
                            (copy.copy(s.requests), "8/s")):
            again.rate = "8/s"
            self.assertEqual(s.requests.rate, rate)

    def test_own_loads_are_copied_and_not_pickled(self):
        s = epsim.load(SMALL, {"requests.count": 4}).with_loads(lambda step, tokens: numpy.ones((16, 64)))
        self.assertEqual(epsim.run(copy.deepcopy(s)).figures, epsim.run(s).figures)
        with self.assertRaisesRegex(TypeError, "a function"):
            pickle.dumps(s)

    def test_refuses_what_the_simulator_refuses_and_stays_as_it_was(self):
        s = epsim.load(SMALL)
        with self.assertRaises(epsim.InputError) as caught:
            s.requests.rate = 8  # no unit
        self.assertEqual(caught.exception.key, "requests.rate")
        self.assertIn("/s", caught.exception.allowed)
        with self.assertRaises(epsim.InputError) as caught:
            s.model.architecture = "glm-4.4"  # names with dots stay whole
        self.assertIn("GLM-4.5", caught.exception.allowed)
        with self.assertRaises(epsim.InputError) as caught:
            s.requests.rat = "8/s"
        self.assertEqual(caught.exception.allowed[0], "rate")
        with self.assertRaises(epsim.InputError) as caught:
            s.policy = "elpb"
        self.assertEqual(caught.exception.allowed[0], "eplb")
        self.assertEqual((s.requests.rate, s.policy), ("20/s", "base"))

    def test_errors_name_file_and_line(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "wrong.yaml"
            # Line 6 of small.yaml is `parallelism`; a line is put before it.
            lines = pathlib.Path(SMALL).read_text().splitlines()
            at = next(i for i, line in enumerate(lines) if line.startswith("parallelism"))
            lines.insert(at, "paralelism: {attention_tp: 8}")
            file.write_text("\n".join(lines) + "\n")
            with self.assertRaises(epsim.InputError) as caught:
                epsim.load(file)
        error = caught.exception
        self.assertEqual((error.file, error.line, error.key), (str(file), at + 1, "paralelism"))
        self.assertEqual(error.allowed[0], "parallelism")
        self.assertIsInstance(error, ValueError)

    def test_values_of_numpy(self):
        s = epsim.load(SMALL).with_({"seed": numpy.int64(7), "requests": {
            "kind": "diurnal", "hourly_rates": numpy.full(24, 2.5), "count": 10, "input_tokens": 100,
            "output_tokens": numpy.int32(5)}})
        self.assertEqual(s.seed, 7)
        self.assertEqual(len(s.requests.hourly_rates), 24)
        with self.assertRaisesRegex(TypeError, "not object"):
            s.with_({"seed": [object()]})

        self.assertEqual(s.with_(seed=numpy.longdouble(4)).seed, 4)
        with self.assertRaisesRegex(TypeError, "not complex256"):
            s.with_(seed=numpy.clongdouble(4))
        self.assertEqual(s.with_(name="007").name, "007")  # a text in YAML

    def test_a_path_that_is_set_stays_after_chdir(self):
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            epsim.traces.generate("olmoe", rows=1, sources=1, tokens_per_row=8).save(f"{folder}/trace.h5")
            os.chdir(folder)
            try:
                scenarios = [epsim.load(SMALL, {"loads": {"kind": "trace_file", "path": path}})
                             for path in ("trace.h5", pathlib.Path("trace.h5"), "./trace.h5")]
                scenarios[0].loads.path = "trace.h5"
            finally:
                os.chdir(before)
            for s in scenarios:
                self.assertEqual(s.loads.path, f"{folder}/trace.h5")
                self.assertEqual(pickle.loads(pickle.dumps(s)).with_(seed=5).loads.path, f"{folder}/trace.h5")
        with self.assertRaisesRegex(epsim.InputError, "'requests.rate' is not a text such as"):
            s.with_(["requests.rate"])

    def test_keys_are_not_deleted(self):
        s = epsim.load(SMALL)
        for delete in (lambda: s.__delitem__("seed"), lambda: delattr(s.requests, "rate")):
            with self.assertRaisesRegex(TypeError, "cannot be deleted"):
                delete()

    def test_allowed_is_what_may_stand_there(self):
        for problem, allowed in (
                ("unknown x 'b'. Known, the nearest first: a-4.5, c.", ["a-4.5", "c"]),
                ("'8' has no unit: a rate is written with one of /s, /min.", ["/s", "/min"]),
                ("'8 m' has the unit 'm', which is not one of a rate: /s, /min.", ["/s", "/min"]),
                ("no reader recognises this file. If it is one of these, name its format: sglang, numpy.", ["sglang", "numpy"]),
                ("replication_factor says the same; give one of the two.", []),
                ("this is the short form of lengths; state one of them.", [])):
            self.assertEqual(epsim.InputError(problem).allowed, allowed, problem)

    def test_a_missing_file_is_an_input_error(self):
        with self.assertRaises(epsim.InputError):
            epsim.load("nowhere.yaml")

    def test_resolved_can_be_loaded_again(self):
        s = epsim.load(SMALL, {"requests.rate": "10/s"})
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "again.yaml"
            file.write_text(s.resolved())
            self.assertEqual(epsim.load(file).to_dict(), s.to_dict())


if __name__ == "__main__":
    unittest.main()
