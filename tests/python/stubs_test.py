"""The type stub says what the module has, help() says units."""

import importlib.util
import pydoc
import unittest

import epsim
from places import SOURCE


class StubsTest(unittest.TestCase):
    def test_the_stub_is_what_its_writer_writes(self):
        spec = importlib.util.spec_from_file_location("python_stub", SOURCE / "scripts/python_stub.py")
        maker = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(maker)
        self.assertEqual((SOURCE / "sim/python/epsim/__init__.pyi").read_text(), maker.stub())

    def test_the_stub_names_what_is_exported(self):
        stub = (SOURCE / "sim/python/epsim/__init__.pyi").read_text()
        for name in epsim.__all__:
            self.assertTrue(any(form in stub for form in (f"class {name}", f"def {name}(", f"import {name} as")), name)

    def test_everything_public_has_a_docstring(self):
        for name in epsim.__all__:
            thing = getattr(epsim, name)
            self.assertTrue(thing.__doc__, name)
            for part in ("read", "fit", "generate", "presets") if name == "traces" else []:
                self.assertTrue(getattr(thing, part).__doc__, f"{name}.{part}")
            for part in vars(thing) if isinstance(thing, type) else []:
                if not part.startswith("_") and callable(getattr(thing, part, None)):
                    self.assertTrue(getattr(thing, part).__doc__, f"{name}.{part}")

    def test_help_says_units(self):
        text = pydoc.render_doc(epsim.Run, renderer=pydoc.plaintext)
        self.assertIn("Unit: ms.", text)
        self.assertIn("[MoE layers, GPUs]", text)


if __name__ == "__main__":
    unittest.main()
