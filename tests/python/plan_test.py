"""Plans and balance: the program's figures, views of memory, Python policies."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import epsim
import numpy
from places import PROGRAM, SMALL

LOADS = numpy.array([[8, 1, 1, 2], [1, 1, 1, 1]], float)


@epsim.policy
def swapped(loads, shape):
    """Two GPUs, experts dealt out like cards."""
    return [[[0, 2], [1, 3]]] * shape.layers


class PlanTest(unittest.TestCase):
    def test_writes_the_plan_of_the_program(self):
        request = {"policy": "eplb", "weights": LOADS.tolist(), "num_gpus": 2, "num_replicas": 6}
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "request.json").write_text(json.dumps(request))
            subprocess.run([PROGRAM, "plan", f"{folder}/request.json", "-o", f"{folder}/program.json"], check=True,
                           stdout=subprocess.DEVNULL)
            plan = epsim.plan("eplb", LOADS, gpus=2, replicas=6)
            plan.save(f"{folder}/module.json")
            self.assertEqual(*(pathlib.Path(folder, name).read_bytes() for name in ("program.json", "module.json")))
            with self.assertRaises(FileExistsError):
                plan.save(f"{folder}/module.json")
            with self.assertRaises(TypeError):
                plan.save(3)
            plan.save(f"{folder}/sglang.json", format="sglang")
            later = epsim.plan("eplb", LOADS[:, ::-1], gpus=2, replicas=6, previous=f"{folder}/module.json")
            self.assertIsNotNone(later.to_dict()["moved_copies"])
        # 6 slots on 2 GPUs hold 2 copies; the hottest expert of layer 0 has 8 of 12.
        self.assertEqual(plan.copies.sum(axis=1).tolist(), [6, 6])
        self.assertGreaterEqual(plan.copies[0, 0], 2)
        self.assertIn("hottest", plan.explain())
        self.assertIn("<svg", plan._repr_html_())
        self.assertIn("eplb", plan.report().html)

    def test_a_python_policy_makes_plans(self):
        plan = epsim.plan(swapped, LOADS, gpus=2)
        self.assertEqual([slots.tolist() for slots in plan.slots], [[0, 2, 1, 3]] * 2)
        self.assertEqual(plan.first_slots[0].tolist(), [0, 2, 4])
        # Layer 0: GPUs have 9 and 3, mean 6; in order they have 9 and 3 too. Layer 1 is even.
        self.assertEqual(plan.balancedness.tolist(), [6 / 9, 1])
        self.assertEqual(plan.policy, "swapped")

    def test_arrays_share_the_plans_memory(self):
        plan = epsim.plan("contiguous", LOADS, gpus=2)
        first, second = plan.slots[0], plan.slots[0]
        self.assertTrue(numpy.shares_memory(first, second))
        self.assertFalse(first.flags.owndata or first.flags.writeable)
        del plan
        self.assertEqual(first.tolist(), [0, 1, 2, 3])

    def test_refuses_bad_requests(self):
        with self.assertRaises(epsim.InputError) as caught:
            epsim.plan("elpb", LOADS, gpus=2)
        self.assertEqual(caught.exception.allowed[0], "eplb")
        with self.assertRaises(epsim.InputError) as caught:
            epsim.plan("eplb", LOADS, gpus=2).save("never.json", format="sglan")
        self.assertEqual((caught.exception.key, caught.exception.allowed[0]), ("format", "sglang"))
        with self.assertRaises(epsim.InputError):
            epsim.plan(epsim.step_policy(lambda r, p, h: r, name="step"), LOADS, gpus=2)
        for option in ({"replicas": 6}, {"replication_factor": 2}, {"options": {"num_redundant_experts": 2}}):
            with self.assertRaisesRegex(epsim.InputError, "'swapped' is a function") as caught:
                epsim.plan(swapped, LOADS, gpus=2, **option)
            self.assertEqual([caught.exception.key], list(option))
        with self.assertRaisesRegex(TypeError, "save\\(\\) this one"):
            epsim.plan("eplb", LOADS, gpus=2, previous=epsim.plan("eplb", LOADS, gpus=2))

    def test_errors_are_of_the_arguments(self):
        def refused(key, *words, **options):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.plan(*words, **options)
            error = caught.exception
            self.assertEqual((error.key, error.file, error.line), (key, None, None))
            self.assertTrue(str(error).startswith(f"`{key}`: "), error)
            return error

        cold = LOADS.copy()
        cold[1, 2] = numpy.nan
        self.assertIn("layer 1 has the load nan for expert 2", str(refused("loads", "eplb", cold, gpus=2)))
        self.assertEqual(refused("policy", "elpb", LOADS, gpus=2).allowed[0], "eplb")
        refused("gpus", "eplb", LOADS, gpus=-1)
        refused("nodes", "eplb", LOADS, gpus=2, nodes=5)
        refused("replicas", "eplb", LOADS, gpus=2, replicas=3)
        refused("groups", "eplb", LOADS, gpus=2, groups=0)
        refused("loads", "eplb", numpy.ma.masked_greater(LOADS, 7), gpus=2)
        refused("loads", "eplb", LOADS * 1j, gpus=2)
        refused("model", "eplb", LOADS, gpus=2, model=3)
        with self.assertRaises(epsim.InputError) as caught:
            epsim.plan("eplb", gpus=2, model="olmoe-1b-7b", trace={"kind": "uniform", "a": 1, "b": 2})
        self.assertNotIn("plan:", str(caught.exception))
        self.assertEqual([error.file for error in caught.exception.errors], [None] * 2)

    def test_takes_arrays_of_every_kind(self):
        want = epsim.plan("eplb", LOADS, gpus=2, replicas=6).to_dict()
        given = [LOADS.tolist(), list(LOADS), [list(layer) for layer in LOADS.astype(numpy.int64)],
                 LOADS.astype(numpy.longdouble), numpy.ma.masked_array(LOADS)]
        try:
            import pandas
        except ImportError:
            pass
        else:
            given.append(pandas.DataFrame(LOADS))
        for loads in given:
            plan = epsim.plan("eplb", loads, gpus=numpy.int64(2), replicas=numpy.int32(6))
            self.assertEqual(plan.to_dict(), want, type(loads))

    def test_takes_a_section_of_a_scenario(self):
        section = epsim.load(SMALL).plan_loads
        plans = [epsim.plan("eplb", gpus=16, model="olmoe-1b-7b", trace=trace) for trace in (section, section.to_dict())]
        self.assertEqual(plans[0].to_dict(), plans[1].to_dict())


class BalanceTest(unittest.TestCase):
    def test_figures_are_those_of_the_program(self):
        words = [PROGRAM, "balance", SMALL, "--policies", "base,eplb,libra", "--json"]
        printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        balanced = epsim.balance(SMALL, ["base", "eplb", "libra"])
        self.assertEqual(balanced.to_dict(), json.loads(printed))
        self.assertIn("libra", str(balanced))
        self.assertEqual((balanced.labels, list(balanced), len(balanced)), (["base", "eplb", "libra"],) * 2 + (3,))
        self.assertTrue("libra" in balanced and "craft" not in balanced)
        self.assertEqual(balanced["eplb"].balancedness_mean, json.loads(printed)["policies"][1]["balancedness_mean"])
        with self.assertRaises(KeyError):
            balanced["craft"]
        self.assertIn("<svg", balanced.report().html)
        with tempfile.TemporaryDirectory() as folder:
            balanced.save(f"{folder}/balance.json")
            self.assertEqual(pathlib.Path(folder, "balance.json").read_text(), printed)

    def test_takes_python_policies(self):
        @epsim.policy
        def in_order(loads, shape):
            return numpy.tile(numpy.arange(shape.experts), (shape.layers, 1))

        first, second = epsim.balance(SMALL, ["contiguous", in_order]).to_dict()["policies"]
        self.assertEqual((first.pop("policy"), second.pop("policy")), ("contiguous", "in_order"))
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()
