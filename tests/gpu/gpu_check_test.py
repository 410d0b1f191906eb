#!/usr/bin/env python3
"""gpu_check.py where no GPU is seen: gpu_check_test.py BUILD"""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

BUILD = sys.argv.pop()
HERE = Path(__file__).resolve().parent


def tests_in(folder: Path) -> set[str]:
    """Names of the tests in the sources: of the fixtures in C++, of the methods in Python."""
    text = "\n".join(file.read_text() for file in folder.glob("*_on_gpu_test.*"))
    cpp = re.findall(r"^(?:TYPED_)?TEST(?:_F)?\(\w+, (\w+)\)", text, re.MULTILINE)
    return {*cpp, *re.findall(r"^    def (test_\w+)", text, re.MULTILINE)}


class WithoutAGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done = subprocess.run(
            [sys.executable, HERE / "gpu_check.py", "--build", BUILD],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=250,
        )  # fmt: skip

    def test_says_so_and_succeeds(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout)
        self.assertIn("gpu-check: no GPU here", self.done.stdout)
        self.assertTrue(self.done.stdout.endswith("but nothing ran: no GPU\n"), self.done.stdout)

    def test_names_each_test_as_skipped(self):
        skipped = [line for line in self.done.stdout.splitlines() if "skipped" in line.lower()]
        names = tests_in(HERE)
        self.assertGreater(len(names), 15)
        for name in names:
            self.assertTrue(any(re.search(rf"\b{name}\b", line) for line in skipped), name)

    def test_runs_no_benchmark_and_no_test_but_that_of_what_the_runtime_says(self):
        self.assertNotRegex(self.done.stdout, r"\[       OK \] (?!TheRuntime\.)|\.\.\. ok$|us a step")


if __name__ == "__main__":
    unittest.main()
