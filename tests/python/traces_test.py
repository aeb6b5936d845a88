"""Traces: generated, read and fitted as the program does."""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import epsim
import numpy
from places import PROGRAM, SOURCE


def program(*words):
    subprocess.run([PROGRAM, "trace", *words], check=True, stdout=subprocess.DEVNULL)


class TracesTest(unittest.TestCase):
    def test_generates_what_the_program_generates(self):
        trace = epsim.traces.generate("olmoe", rows=3, sources=2, tokens_per_row=64, seed=5)
        self.assertEqual((trace.loads.shape, trace.loads.dtype), ((3, 16, 2, 64), numpy.float64))
        # Every token of a rank chooses 8 experts in each layer.
        self.assertTrue((trace.loads.sum(axis=3) == 64 * 8).all())
        self.assertTrue((trace.tokens == 64).all())
        with tempfile.TemporaryDirectory() as folder:
            program("generate", "olmoe", "--rows", "3", "--sources", "2", "--tokens-per-row", "64", "--seed", "5", "-o",
                    f"{folder}/program.h5")
            trace.save(f"{folder}/module.h5")
            with self.assertRaises(epsim.InputError):
                trace.save(f"{folder}/module.h5")
            for name in ("program", "module"):
                read = epsim.traces.read(f"{folder}/{name}.h5")
                self.assertTrue((read.loads == trace.loads).all())
                self.assertEqual(read.info, trace.info)

    def test_single_tokens(self):
        trace = epsim.traces.generate("olmoe", tokens=600, seed=2)
        self.assertEqual((trace.experts.shape, trace.experts.dtype), ((600, 16, 8), numpy.uint16))
        self.assertEqual(trace.to_pandas().shape, (16, 64))
        self.assertEqual(trace.to_pandas().to_numpy().sum(), 600 * 16 * 8)

    def test_fits_what_the_program_fits(self):
        trace = epsim.traces.generate("olmoe", rows=2, sources=1, tokens_per_row=64)
        with tempfile.TemporaryDirectory() as folder:
            trace.save(f"{folder}/trace.h5")
            program("fit", f"{folder}/trace.h5", "-o", f"{folder}/model.yaml")
            model = epsim.traces.fit(f"{folder}/trace.h5")
            self.assertEqual(model.yaml, pathlib.Path(folder, "model.yaml").read_text())
        again = epsim.traces.generate(model, tokens=10)
        self.assertEqual(again.experts.shape, (10, 16, 8))

    def test_cuts_and_compares_as_the_program_does(self):
        trace = epsim.traces.generate("olmoe", rows=4, sources=1, tokens_per_row=64)
        with tempfile.TemporaryDirectory() as folder:
            trace.save(f"{folder}/a.h5")
            program("slice", f"{folder}/a.h5", "--rows", "1:3", "--layers", "2,5", "-o", f"{folder}/program.h5")
            part = trace.slice(rows=(1, 3), layers=[2, 5])
            self.assertTrue((part.loads == epsim.traces.read(f"{folder}/program.h5").loads).all())
            self.assertTrue((part.loads == trace.loads[1:3, [2, 5]]).all())  # every layer of OLMoE is a MoE layer
            epsim.traces.generate("olmoe", rows=4, sources=1, tokens_per_row=64, seed=2).save(f"{folder}/b.h5")
            printed = subprocess.run([PROGRAM, "trace", "compare", f"{folder}/a.h5", f"{folder}/b.h5", "--by-layer",
                                      "--json"], check=True, capture_output=True, text=True).stdout
            compared = epsim.traces.compare(trace, f"{folder}/b.h5")
            compared.save(f"{folder}/compared.json")
            self.assertEqual(pathlib.Path(folder, "compared.json").read_text(), printed)
        self.assertEqual(epsim.traces.compare(trace, trace).goodness, 1)
        self.assertLess(compared.goodness, 1)
        self.assertIn("<svg", compared._repr_html_())
        with self.assertRaises(epsim.InputError):
            trace.slice(rows=(4, 5))
        for wrong in ((-2, 3), (3, 1), (1, 1)):
            with self.assertRaisesRegex(epsim.InputError, "0 <= first < end"):
                trace.slice(rows=wrong)
        with self.assertRaises(epsim.InputError):
            epsim.traces.compare(trace, trace.slice(layers=[2]))

    def test_the_block_of_the_page_runs(self):
        page = (SOURCE / "docs/python.md").read_text()
        block = next(part.split("```")[0] for part in page.split("```python\n") if part.startswith("import json"))
        names = {"epsim": epsim, "np": numpy,
                 "scenario": epsim.load(SOURCE / "experiments/quickstart/deepseek-r1-p4de.yaml")}
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                exec(block, names)
                with open("experts.json") as file:
                    engine = numpy.shape(json.load(file)["physical_to_logical_map"])
            finally:
                os.chdir(before)
        self.assertEqual(names["loads"].shape, (58, 256))
        self.assertEqual(names["plan"].copies.sum(), 58 * 288)
        self.assertEqual(engine, (61, 288))
        self.assertEqual(names["recorded"].info["layer_numbers"], list(range(3, 61)))

    def test_arrays_share_the_traces_memory(self):
        trace = epsim.traces.generate("olmoe", rows=1, sources=1, tokens_per_row=8)
        loads = trace.loads
        self.assertTrue(numpy.shares_memory(loads, trace.loads))
        self.assertFalse(loads.flags.owndata or loads.flags.writeable)
        total = loads.sum()
        del trace
        self.assertEqual(loads.sum(), total)
        self.assertEqual(total, 16 * 8 * 8)

    def test_shows_itself(self):
        trace = epsim.traces.generate("olmoe", rows=1, sources=1, tokens_per_row=8)
        self.assertTrue(str(trace.slice(layers=[2])).startswith("part of generated trace\n"))
        with tempfile.TemporaryDirectory() as folder:
            trace.save(f"{folder}/trace.h5")
            numpy.save(f"{folder}/ids.npy", epsim.traces.generate("olmoe", tokens=4).experts)
            for file, experts in (("trace.h5", 0), ("ids.npy", 64)):
                words = [PROGRAM, "trace", "info", f"{folder}/{file}", "--experts", str(experts)]
                printed = subprocess.run(words[:None if experts else 4], check=True, capture_output=True, text=True).stdout
                self.assertEqual(str(epsim.traces.read(f"{folder}/{file}", experts=experts)), printed)
        self.assertIn("16 MoE layers", str(trace))
        self.assertIn("<svg", trace._repr_html_())
        self.assertEqual(repr(trace), "<epsim.traces.Trace: generated trace>")
        large = epsim.traces.generate("deepseek-r1-prefill", rows=1, sources=1, tokens_per_row=8)
        self.assertIn("8 of 58 layers", large._repr_html_())  # 8 x 256 cells
        self.assertLess(len(large._repr_html_()), 300000)
        self.assertIs(copy.deepcopy(trace), trace)
        self.assertEqual(trace.to_dict()["format"], 1)
        self.assertIn("olmoe", epsim.traces.presets())

    def test_a_script_leaves_no_folder(self):
        # A thread that still waits at the end keeps the trace.
        script = ("import epsim, threading\nt = epsim.traces.generate('olmoe', rows=1, sources=1, tokens_per_row=8)\n"
                  "threading.Thread(target=lambda: (threading.Event().wait(), t), daemon=True).start()\nprint(t.path)\n")
        path = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()
        self.assertTrue(path.endswith("trace.h5"))
        self.assertFalse(pathlib.Path(path).parent.exists())

    def test_refuses_bad_input(self):
        for rows, tokens in ((None, None), (1, 1), (0, None)):
            with self.assertRaises(epsim.InputError):
                epsim.traces.generate("olmoe", rows=rows, tokens=tokens)
        for options, key in (({}, "rows"), ({"rows": 1.0}, "rows"), ({"rows": 1, "seed": -1}, "seed")):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.traces.generate("olmoe", **options)
            self.assertEqual(caught.exception.key, key)
            self.assertNotIn("--", str(caught.exception))
        for model, width, key in (("olmoe", 0, "tokens_per_row"), ("olmo", 8, "model")):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.traces.generate(model, rows=1, tokens_per_row=width)
            self.assertEqual(caught.exception.key, key)
            self.assertIn(f"`{key}`", str(caught.exception))
        for options in ({"top_k": 8.0}, {"top_k": "8"}, {"model": 3}, {"layer_numbers": ["3"]}):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.traces.read("nowhere.h5", **options)
            self.assertEqual([caught.exception.key], list(options))
        trace = epsim.traces.generate("olmoe", rows=1, sources=1, tokens_per_row=8)
        for options in ({"rows": 5}, {"rows": (0.5, 1)}, {"layers": ["3"]}, {"rows": (0, 2)}):
            with self.assertRaises(epsim.InputError) as caught:
                trace.slice(**options)
            self.assertEqual([caught.exception.key], list(options))
            self.assertNotIn("epsim-trace-", str(caught.exception))
        with self.assertRaisesRegex(epsim.InputError, "there is no folder .*nodir"):
            trace.save("nodir/trace.h5")
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(epsim.InputError) as caught:
                trace.save(f"{folder}/trace", format="epsin")
            self.assertEqual((caught.exception.key, caught.exception.allowed[0]), ("format", "epsim"))
            with self.assertRaises(epsim.InputError) as caught:  # it holds loads alone
                trace.save(f"{folder}/trace.csv", format="token_csv")
            self.assertIsNone(caught.exception.file)
            self.assertNotIn("epsim-trace-", str(caught.exception))
        with self.assertRaises(epsim.InputError) as caught:
            epsim.traces.generate("olmo", rows=1)
        self.assertEqual(caught.exception.allowed[0], "olmoe")
        with self.assertRaises(epsim.InputError) as caught:
            epsim.traces.read(SOURCE / "nowhere.h5")
        self.assertTrue(caught.exception.file.endswith("nowhere.h5"))


if __name__ == "__main__":
    unittest.main()
