"""The type stub says what the module has, help() says units."""

import ast
import collections.abc
import importlib.util
import inspect
import pydoc
import re
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

    def test_the_stub_has_the_modules_parameters_and_attributes(self):
        # MutableMapping's own methods and decorators' overloads are not repeated.
        inherited = set(dir(collections.abc.MutableMapping))
        stub = ast.parse((SOURCE / "sim/python/epsim/__init__.pyi").read_text()).body
        members = {}
        for node in stub:
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                arguments = [one.arg for one in node.args.args + node.args.kwonlyargs]
                self.assertEqual(arguments, list(inspect.signature(getattr(epsim, node.name)).parameters), node.name)
            elif isinstance(node, ast.ClassDef):
                named = {part.name if isinstance(part, ast.FunctionDef) else part.target.id for part in node.body
                         if isinstance(part, (ast.FunctionDef, ast.AnnAssign))}
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                members[node.name] = named.union(*(members.get(base, set()) for base in bases))
        for name, named in members.items():
            if not name.startswith("_") and not issubclass(getattr(epsim, name), (Exception, epsim.Policy, epsim.Report)):
                there = {part for part in dir(getattr(epsim, name)) if not part.startswith("_")}
                said = {part for part in named if not part.startswith("_")}
                self.assertEqual(there - inherited - set(dir(dict)), said - inherited, name)

    def test_the_page_calls_what_there_is(self):
        calls = 0
        for block in (SOURCE / "docs/python.md").read_text().split("```python\n")[1:]:
            for node in ast.walk(ast.parse(block.split("```")[0])):
                if isinstance(node, ast.Call) and re.fullmatch(r"epsim(\.\w+)+", ast.unparse(node.func)):
                    inspect.signature(eval(ast.unparse(node.func))).bind(*node.args, **{one.arg: one.value for one in node.keywords})
                    calls += 1
        self.assertGreater(calls, 12)

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
        self.assertNotIn("Unit: .", text)
        self.assertIn("[MoE layers, GPUs]", text)


if __name__ == "__main__":
    unittest.main()
