"""The goodput search: the program's bytes, Python policies."""

import contextlib
import io
import json
import pathlib
import subprocess
import tempfile
import unittest

import epsim
import numpy
from places import PROGRAM, SMALL


class GoodputTest(unittest.TestCase):
    def test_saves_the_files_of_the_program(self):
        slo = "ttft.p99<300ms"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "goodput", SMALL, "--policies", "base,eplb", "--slo", slo, "--seeds", "1",
                            "--tolerance", "0.2", "-q", "-o", f"{folder}/program"], check=True, stdout=subprocess.DEVNULL)
            found = epsim.goodput(SMALL, ["base", "eplb"], slo=slo, seeds=1, tolerance=0.2)
            found.save(f"{folder}/module")
            # The program's folder also keeps its finished searches.
            for name in ("goodput.json", "goodput.csv", "curve.csv", "resolved.yaml"):
                self.assertEqual(pathlib.Path(f"{folder}/program/{name}").read_bytes(),
                                 pathlib.Path(f"{folder}/module/{name}").read_bytes(), name)
        self.assertEqual((found.labels, list(found), len(found)), (["base", "eplb", "contiguous"],) * 2 + (3,))
        self.assertTrue("eplb" in found and "craft" not in found)
        for name in found.tables:
            self.assertIn(name, epsim.Goodput.__doc__)
        self.assertIn("goodput", found.report().html)
        self.assertEqual(found["eplb"].slo_requests_per_s.mean, found.to_dict()["policies"][1]["slo_requests_per_s"]["mean"])
        self.assertIn("slo_requests_per_s", dir(found["eplb"]))
        with self.assertRaises(KeyError):
            found["craft"]
        rates = found.tables["curve"]["offered_requests_per_s"]
        self.assertEqual((rates.dtype, len(rates)), (numpy.float64, len(found.tables["curve"]["policy"])))
        self.assertIn("<svg", found._repr_html_())

    def test_keeps_finished_searches_in_a_folder(self):
        ask = {"slo": "ttft.p99<300ms", "seeds": 1, "tolerance": 0.2}
        with tempfile.TemporaryDirectory() as folder:
            kept = f"{folder}/kept"
            found = epsim.goodput(SMALL, ["base", "eplb"], folder=kept, **ask)
            self.assertEqual(json.loads(pathlib.Path(kept, "goodput.json").read_text()), found.to_dict())
            probed = []
            again = epsim.goodput(SMALL, ["base", "eplb"], folder=kept, progress=lambda done, _: probed.append(done), **ask)
            self.assertEqual((probed[-1], again.to_dict()), (0, found.to_dict()))  # every search was finished
            for policies, overwrite in ((["base"], False), ([epsim.policy(lambda loads, shape: [], name="own")], True)):
                with self.assertRaises(epsim.InputError):
                    epsim.goodput(SMALL, policies, folder=kept, overwrite=overwrite, **ask)
            self.assertTrue(pathlib.Path(kept, "goodput.json").exists())

    def test_takes_a_python_policy(self):
        @epsim.policy
        def in_order(loads, shape):
            return numpy.tile(numpy.arange(shape.experts), (shape.layers, 1))

        found = epsim.goodput(SMALL, ["contiguous", in_order], slo="ttft.p99<300ms", seeds=1, tolerance=0.2,
                              only_listed=True).to_dict()
        first, second = found["policies"]
        self.assertEqual((first.pop("policy"), second.pop("policy")), ("contiguous", "in_order"))

    def test_refuses_an_slo_that_is_none(self):
        with self.assertRaises(epsim.InputError) as caught:
            epsim.goodput(SMALL, ["base"], slo="ttft.p98<1s")
        self.assertEqual(caught.exception.key, "slo")
        with self.assertRaises(epsim.InputError) as caught:
            epsim.goodput(SMALL, ["base"], rates=["10/min"])
        self.assertEqual(caught.exception.key, "rates")

    def test_refuses_arguments_of_other_types(self):
        for name, value in (("slo", 5), ("tolerance", "5%"), ("tolerance", None), ("only_listed", 1), ("overwrite", "no")):
            with self.assertRaises(epsim.InputError) as caught:
                epsim.goodput(SMALL, "base", **{name: value})
            self.assertEqual(caught.exception.key, name)

    def test_no_slo_is_none_and_progress_is_printed(self):
        few = {"requests.count": 6, "requests.output_tokens": 4}
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown):
            found = epsim.goodput(SMALL, "base", slo=None, seeds=1, tolerance=0.5, overrides=few, progress=True)
        self.assertIn("requests/s</text>", found._repr_html_())
        self.assertGreater(found["base"].knee.knee_requests_per_s.mean, 0)
        try:
            import pandas  # noqa: F401
        except ImportError:
            pass
        else:  # one seed has no interval
            self.assertEqual(found.to_pandas()["saturation_requests_per_s.half_width"].dtype, numpy.float64)
        try:
            import tqdm  # noqa: F401
        except ImportError:
            self.assertRegex(shown.getvalue(), rf"\b{len(found.tables['curve']['policy'])} of \? rates")

    def test_probes_the_rates_given(self):
        for rates in (numpy.array([7.5]), ["7.5/s"]):
            found = epsim.goodput(SMALL, "base", slo="ttft.p99<300ms", rates=rates, seeds=1, tolerance=0.5,
                                  overrides={"requests.count": 6, "requests.output_tokens": 4})
            self.assertIn(7.5, found.tables["curve"]["offered_requests_per_s"])


if __name__ == "__main__":
    unittest.main()
