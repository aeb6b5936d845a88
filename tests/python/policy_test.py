"""Policies that are Python functions."""

import copy
import functools
import pickle
import unittest

import epsim
import numpy
from places import SMALL, SOURCE


@epsim.policy
def in_order(loads, shape):
    """Experts in order: what `contiguous` does."""
    return numpy.tile(numpy.arange(shape.experts), (shape.layers, 1))


def figures(run):
    """All but what names the policy."""
    return {name: value for name, value in run.figures.items() if not isinstance(value, str)}


class PolicyTest(unittest.TestCase):
    def test_experts_in_order_are_contiguous(self):
        compared = epsim.compare(SMALL, ["contiguous", in_order], seeds=2)
        self.assertEqual(figures(compared["contiguous"]), figures(compared["in_order"]))
        self.assertEqual(compared.labels, ["contiguous", "in_order", "base"])

    def test_may_stand_alone_and_first(self):
        self.assertEqual(epsim.compare(SMALL, in_order).labels, ["in_order"])
        compared = epsim.compare(SMALL, [in_order, "eplb"])
        self.assertEqual(figures(compared["eplb"]), figures(epsim.compare(SMALL, ["base", "eplb"])["eplb"]))

    def test_sees_loads_and_shape(self):
        seen = {}

        @epsim.policy(name="looks")
        def look(loads, shape):
            seen.update(loads=loads, shape=shape)
            return in_order(loads, shape)

        epsim.compare(SMALL, [look])
        # OLMoE: 16 MoE layers of 64 experts; small.yaml has two nodes of 8 GPUs.
        self.assertEqual((seen["loads"].shape, seen["loads"].dtype), ((16, 64), numpy.float64))
        shape = seen["shape"]
        self.assertEqual((shape.gpus, shape.gpus_per_node, shape.nodes, shape.layers, shape.experts), (16, 8, 2, 16, 64))

    def test_copies_are_charged(self):
        @epsim.policy
        def hot_copies(loads, shape):
            # Lists per GPU: four experts in order, and the hottest expert of the layer on GPU 0 once more.
            out = []
            for layer in loads:
                gpus = [list(range(4 * g, 4 * g + 4)) for g in range(shape.gpus)]
                gpus[1 if int(layer.argmax()) < 4 else 0].append(int(layer.argmax()))
                out.append(gpus)
            return out

        compared = epsim.compare(SMALL, [in_order, hot_copies])
        self.assertEqual(compared["in_order"].kv_lost_to_copies_share, 0)
        self.assertGreater(compared["hot_copies"].kv_lost_to_copies_share, 0)

    def test_an_error_carries_its_traceback(self):
        @epsim.policy
        def fails(loads, shape):
            return loads["no such row"]

        with self.assertRaises(epsim.InputError) as caught:
            epsim.compare(SMALL, ["base", fails])
        text = str(caught.exception)
        self.assertEqual(caught.exception.key, "fails")
        self.assertIn("IndexError", text)
        self.assertIn("policy_test.py", text)

    def test_refuses_slots_that_are_no_plan(self):
        def refused(slots, words):
            with self.assertRaisesRegex(epsim.InputError, words):
                epsim.compare(SMALL, [epsim.policy(lambda loads, shape: slots, name="wrong")])

        refused(None, "one entry for each of the 16 layers")
        refused([[0]] * 15, "one entry for each of the 16 layers")
        refused([list(range(63))] * 16, "63 slots, which do not divide over 16 GPUs")
        refused([list(range(63)) + [64]] * 16, "names expert 64; experts are 0..63")
        refused([list(range(63)) + [-1]] * 16, "names expert -1")
        refused([[0] * 64] * 16, "expert 1 is on no GPU in layer 0")
        refused(numpy.zeros((16, 64)), "whole numbers")
        refused([[[0]] * 15] * 16, "15 lists of experts for 16 GPUs")
        refused([["a"] * 16] * 16, "whole numbers")

    def test_the_policy_of_the_page_runs(self):
        page = (SOURCE / "docs/python.md").read_text()
        block = next(part.split("```")[0] for part in page.split("```python\n") if part.startswith("import numpy"))
        names = {"epsim": epsim, "scenario": epsim.load(SMALL)}
        exec(block, names)
        compared = epsim.compare(SMALL, ["base", names["hottest_twice"]])
        self.assertGreater(compared["hottest_twice"].kv_lost_to_copies_share, 0)

    def test_a_function_without_its_kind_is_refused(self):
        for study in (lambda raw: epsim.compare(SMALL, ["base", raw]), lambda raw: epsim.balance(SMALL, raw),
                      lambda raw: epsim.plan(raw, numpy.ones((2, 4)), gpus=2)):
            with self.assertRaisesRegex(epsim.InputError, "@epsim.policy"):
                study(in_order.function)

    def test_ctrl_c_in_a_policy_is_ctrl_c(self):
        def stopped(loads, shape):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            epsim.plan(epsim.policy(stopped), numpy.ones((2, 4)), gpus=2)

    def test_callables_without_a_name_are_given_one(self):
        whole = functools.partial(lambda loads, shape, step: numpy.arange(0, shape.experts, step)[None], step=1)
        self.assertEqual(epsim.plan(epsim.policy(whole, name="whole"), [[1, 1]], gpus=2).policy, "whole")
        for decorate in (epsim.policy, epsim.step_policy):
            with self.assertRaisesRegex(TypeError, "name='mine'"):
                decorate(whole)
            with self.assertRaisesRegex(TypeError, "not 3"):
                decorate(3)

    def test_a_dataframe_is_read_by_row(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        slots = [[1, 0, 3, 2], [3, 2, 1, 0]]
        plan = epsim.plan(epsim.policy(lambda loads, shape: pandas.DataFrame(slots), name="framed"), numpy.ones((2, 4)), gpus=2)
        self.assertEqual([layer.tolist() for layer in plan.slots], slots)

    def test_names_can_name_files(self):
        for name in ("a/b", "../b", ".hidden"):
            with self.assertRaisesRegex(epsim.InputError, "cannot name files"):
                epsim.compare(SMALL, ["base", epsim.policy(in_order.function, name=name)])

    def test_is_pickled_by_its_name(self):
        self.assertIs(pickle.loads(pickle.dumps(in_order)), in_order)
        self.assertIs(copy.deepcopy(in_order), in_order)
        with self.assertRaises((pickle.PicklingError, AttributeError)):
            pickle.dumps(epsim.policy(lambda loads, shape: [], name="nameless"))

    def test_no_policies_are_refused(self):
        for study in (epsim.compare, epsim.goodput):
            for none in ([], None, ()):
                with self.assertRaisesRegex(epsim.InputError, "name at least one"):
                    study(SMALL, none)
        with self.assertRaisesRegex(epsim.InputError, "name at least one"):
            epsim.sweep(SMALL, {"seed": [1]}, [])

    def test_names_are_its_own(self):
        for name in ("eplb", "in_order"):
            with self.assertRaises(epsim.InputError):
                epsim.compare(SMALL, [in_order, epsim.policy(in_order.function, name=name)])


if __name__ == "__main__":
    unittest.main()
