"""The installed module, and what `pip install .` is told."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from places import SMALL, SOURCE


class InstallTest(unittest.TestCase):
    def test_cmake_installs_a_package_that_runs(self):
        with tempfile.TemporaryDirectory() as prefix:
            subprocess.run(["cmake", "--install", os.environ["EPSIM_BUILD_DIR"], "--component", "python", "--prefix",
                            prefix], check=True, stdout=subprocess.DEVNULL)
            (package,) = pathlib.Path(prefix).rglob("epsim/__init__.py")
            self.assertTrue((package.parent / "py.typed").exists() and (package.parent / "__init__.pyi").exists())
            says = "import epsim, sys; print(epsim.__file__); print(epsim.run(sys.argv[1]).completed_requests)"
            out = subprocess.run([sys.executable, "-c", says, SMALL], check=True, capture_output=True, text=True, cwd=prefix,
                                 env={**os.environ, "PYTHONPATH": str(package.parent.parent)}).stdout.split("\n")
            self.assertEqual(out[:2], [str(package), "40"])

    def test_pyproject_names_what_cmake_has(self):
        try:
            import tomllib
        except ImportError:
            self.skipTest("tomllib came with Python 3.11")
        project = tomllib.loads((SOURCE / "pyproject.toml").read_text())
        build = project["tool"]["scikit-build"]
        rules = (SOURCE / "sim/python/CMakeLists.txt").read_text()
        for target in build["build"]["targets"]:
            self.assertIn(f"pybind11_add_module({target} ", rules)
        for component in build["install"]["components"]:
            self.assertIn(f"COMPONENT {component})", rules)
        top = (SOURCE / "CMakeLists.txt").read_text()
        for option in build["cmake"]["define"]:
            self.assertIn(f"option({option} ", top)
        version = re.search(build["metadata"]["version"]["regex"], top)
        import epsim

        self.assertEqual(version["value"], epsim.__version__)


if __name__ == "__main__":
    unittest.main()
