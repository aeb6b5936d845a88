"""Policies per step that are Python functions."""

import inspect
import unittest

import epsim
import numpy
from places import SMALL

FEW = {"requests.count": 4, "requests.output_tokens": 4}


@epsim.step_policy
def stay_home(requests, predicted, home):
    """Every token is computed at its expert's home."""
    tokens = numpy.zeros_like(requests)
    tokens[home, numpy.arange(len(home))] = requests.sum(axis=0)
    return tokens


def refused(test, function, words, **options):
    with test.assertRaisesRegex(epsim.InputError, words) as caught:
        epsim.compare(SMALL, [epsim.step_policy(function, name="wrong", **options)], overrides=FEW)
    test.assertEqual(caught.exception.key, "wrong")
    return str(caught.exception)


class StepPolicyTest(unittest.TestCase):
    def test_sees_requests_predictions_and_homes(self):
        seen = []

        @epsim.step_policy
        def look(requests, predicted, home):
            seen.append((requests, predicted, home))
            return stay_home(requests, predicted, home)

        run = epsim.compare(SMALL, ["base", look], overrides=FEW)["look"]
        # OLMoE: 16 MoE layers of 64 experts, top-8; small.yaml has 16 GPUs: experts in order, 4 on each.
        self.assertEqual(len(seen), 16 * run.steps)
        requests, predicted, home = seen[0]
        self.assertEqual((requests.shape, requests.dtype), ((16, 64), numpy.int64))
        self.assertEqual(home.tolist(), [e // 4 for e in range(64)])
        self.assertEqual(predicted.sum(), 0)  # nothing is known of the first layer ahead
        self.assertAlmostEqual(seen[1][1].sum() / seen[1][0].sum(), 1, places=2)
        self.assertEqual(requests.sum() % 8, 0)

    def test_moving_tokens_balances_and_costs_copies(self):
        # Even over all GPUs, wherever the experts are: perfect balance, and a copy of every expert on demand.
        @epsim.step_policy(planning_time="0us")
        def spread(requests, predicted, home):
            tokens = numpy.tile(requests.sum(axis=0) // len(requests), (len(requests), 1))
            tokens[home, numpy.arange(len(home))] += requests.sum(axis=0) - tokens.sum(axis=0)
            return tokens

        compared = epsim.compare(SMALL, [stay_home, spread], overrides={"requests.count": 4})
        self.assertGreater(compared["spread"].balancedness_mean, compared["stay_home"].balancedness_mean)

    def test_copies_ahead_take_kv_room(self):
        @epsim.step_policy(extra_experts=2, on_demand=False)
        def ahead(requests, predicted, home):
            return stay_home(requests, predicted, home), numpy.zeros((len(home), len(requests)), bool)

        compared = epsim.compare(SMALL, [stay_home, ahead], overrides=FEW)
        # Two experts of three matrices 2048 x 1024 in bf16.
        room = [compared[name].kv_pool_gib_per_gpu for name in ("stay_home", "ahead")]
        self.assertAlmostEqual((room[0] - room[1]) * 2**30, 2 * 3 * 2048 * 1024 * 2, delta=2**16)

    def test_an_error_carries_its_traceback(self):
        text = refused(self, lambda requests, predicted, home: requests["no such row"], "IndexError")
        self.assertIn("step_policy_test.py", text)

    def test_refuses_options_that_it_has_not(self):
        with self.assertRaisesRegex(TypeError, "acuracy"):
            epsim.step_policy(stay_home.function, name="other", acuracy=0.9)
        self.assertIn("accuracy", inspect.signature(epsim.step_policy).parameters)
        for wrong in ({"extra_experts": 2.5}, {"extra_experts": -2}, {"on_demand": "no"}, {"extra_experts": 4}):
            with self.assertRaisesRegex(epsim.InputError, f"^`{list(wrong)[0]}`: "):
                epsim.step_policy(stay_home.function, name="other", **wrong)
        ahead = epsim.step_policy(stay_home.function, name="other", extra_experts=numpy.int64(2), on_demand=False)
        self.assertEqual(ahead.per_step, {"extra_experts": 2, "on_demand": False})

    def test_refuses_what_is_no_decision(self):
        refused(self, lambda r, p, h: None, "whole numbers \\[16, 64\\]")
        refused(self, lambda r, p, h: r.astype(float), "whole numbers")
        refused(self, lambda r, p, h: r * 2, "expert 0 has")
        refused(self, lambda r, p, h: (r, numpy.zeros((64, 16), bool)), "which it does not hold")
        refused(self, lambda r, p, h: (r, numpy.ones((64, 16), bool)), "extra_experts is 1", extra_experts=1,
                on_demand=False)
        refused(self, lambda r, p, h: (r, numpy.ones((64, 16), bool)), "where nothing was predicted", extra_experts=64,
                on_demand=False)


if __name__ == "__main__":
    unittest.main()
