"""Load sources that are Python functions."""

import gc
import tempfile
import unittest
import weakref

import epsim
import numpy
from places import SMALL

FEW = {"requests.count": 4, "requests.output_tokens": 4}


def uniform(step, tokens):
    return numpy.ones((16, 64))


class LoadsTest(unittest.TestCase):
    def test_uniform_loads_are_those_of_the_file(self):
        own = epsim.run(epsim.load(SMALL).with_loads(uniform), FEW).figures
        file = epsim.run(SMALL, {**FEW, "loads": {"kind": "uniform", "variation": "none"}}).figures
        self.assertEqual(own, file)

    def test_sees_steps_and_tokens_of_each_rank(self):
        seen = []

        def look(step, tokens):
            seen.append((step, tokens))
            return uniform(step, tokens)

        scenario = epsim.load(SMALL).with_loads(look)
        del seen[:]  # the mean that balance() scores on
        run = epsim.run(scenario, FEW)
        drawn = seen[-run.steps:]
        self.assertEqual([step for step, _ in drawn], list(range(run.steps)))
        self.assertEqual({len(tokens) for _, tokens in drawn}, {2})  # 16 GPUs, attention TP 8

    def test_skew_slows_a_run_and_the_plan_can_know_it(self):
        hot = numpy.ones((16, 64))
        hot[:, :4] = 8  # all of the first GPU

        scenario = epsim.load(SMALL, FEW).with_loads(lambda step, tokens: hot, plan=hot)
        balanced = epsim.balance(scenario, ["base", "eplb"]).to_dict()["policies"]
        # GPU 0 has 4 x 8 of 4 x 8 + 60 assignments: mean / max = (92 / 16) / 32.
        contiguous = epsim.balance(scenario, "contiguous").to_dict()["policies"][0]
        self.assertAlmostEqual(contiguous["balancedness_mean"], 92 / 16 / 32, places=6)
        self.assertGreater(balanced[1]["balancedness_mean"], contiguous["balancedness_mean"])

    def test_loads_that_are_set_stand_in_for_the_functions(self):
        hot = numpy.ones((16, 64))
        hot[:, :4] = 8
        own = epsim.load(SMALL, FEW).with_loads(lambda step, tokens: hot, plan=hot)
        even = {"kind": "uniform", "variation": "none"}
        file = epsim.run(SMALL, {**FEW, "loads": even}).figures
        self.assertEqual(epsim.run(own.with_(loads=even)).figures, file)
        self.assertEqual(epsim.run(own, {"loads": even}).figures, file)
        self.assertNotEqual(epsim.run(own).figures, file)
        planned = [epsim.balance(each, "eplb").to_dict()["policies"][0]["balancedness_planned"]
                   for each in (own, own.with_(plan_loads={"kind": "uniform"}))]
        self.assertNotEqual(*planned)
        with self.assertRaisesRegex(epsim.InputError, "set `loads` as a whole"):
            own.loads.low = 2

    def test_a_run_with_own_loads_is_not_run_again_from_its_folder(self):
        run = epsim.run(epsim.load(SMALL, FEW).with_loads(uniform))
        self.assertEqual(epsim.load(SMALL).with_loads(uniform).loads.kind, "python")
        with tempfile.TemporaryDirectory() as folder:
            run.save(f"{folder}/run")
            with self.assertRaisesRegex(epsim.InputError, "'python'"):
                epsim.run(f"{folder}/run/resolved.yaml")

    def test_refuses_plan_loads_that_are_none(self):
        for bad in (-5.0, numpy.inf, numpy.nan):
            loads = numpy.ones((16, 64))
            loads[2, 7] = bad
            with self.assertRaisesRegex(epsim.InputError, "layer 2 has the load .* for expert 7") as caught:
                epsim.load(SMALL).with_loads(uniform, plan=loads)
            self.assertEqual(caught.exception.key, "plan")

    def test_refuses_what_would_be_lost_on_the_way(self):
        ones = numpy.ones((16, 64))
        masked = numpy.ma.masked_array(ones, ones > 0)
        for loads, words in ((masked, "masked items"), (ones * 1j, "not an array of numbers"),
                             (numpy.full((16, 64), "1"), "not an array of numbers")):
            for key, function, plan in (("loads", lambda step, tokens: loads, None), ("plan", uniform, loads)):
                with self.assertRaisesRegex(epsim.InputError, words) as caught:
                    epsim.load(SMALL).with_loads(function, plan)
                self.assertEqual(caught.exception.key, key)
        with self.assertRaisesRegex(epsim.InputError, "is not a function"):
            epsim.load(SMALL).with_loads(ones)
        plan = ones.copy()
        scenario = epsim.load(SMALL).with_loads(uniform, plan)
        plan[:] = -1  # the scenario has its own
        epsim.balance(scenario, "base")

    def test_a_function_goes_with_its_scenario(self):
        class Hot:
            def __call__(self, step, tokens):
                return uniform(step, tokens)

        hot = Hot()
        hot.scenario = epsim.load(SMALL, FEW).with_loads(hot, plan=uniform(0, 0))
        hot.results = [epsim.run(hot.scenario), epsim.balance(hot.scenario, "base")]
        gone = weakref.ref(hot)
        del hot
        gc.collect()
        self.assertIsNone(gone())

    def test_refuses_what_is_no_load(self):
        def refused(loads, words):
            with self.assertRaisesRegex(epsim.InputError, words) as caught:
                epsim.load(SMALL).with_loads(lambda step, tokens: loads)
            self.assertEqual(caught.exception.key, "loads")

        refused(numpy.ones((15, 64)), "\\[16, 64\\]")
        refused("words", "not an array of numbers")
        refused(numpy.zeros((16, 64)), "layer 0 has no load")
        refused(-numpy.ones((16, 64)), "0 or more")
        refused(numpy.eye(16, 64), "none has more than 0.125")
        with self.assertRaisesRegex(epsim.InputError, "ZeroDivisionError") as caught:
            epsim.load(SMALL).with_loads(lambda step, tokens: 1 // 0)
        self.assertIn("loads_test.py", str(caught.exception))
        with self.assertRaises(epsim.InputError) as caught:
            epsim.load(SMALL).with_loads(uniform, plan=numpy.ones((3, 64)))
        self.assertEqual(caught.exception.key, "plan")


if __name__ == "__main__":
    unittest.main()
