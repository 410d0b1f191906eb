#!/usr/bin/env python3
"""Which library of CUDA kernels the package loads by itself: cuda_library_test.py LIBPASSEL_OPS [LIBPASSEL_CUDA]"""

import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

CUDA = Path(sys.argv.pop()) if len(sys.argv) > 2 else None
OPS = Path(sys.argv[-1])

import loaded  # noqa: E402
import torch  # noqa: E402

sys.path.append(str(loaded.ROOT / "kernels" / "python" / "cpp_extension"))
import kernel_sources  # noqa: E402

import passel  # noqa: E402
from passel import _library  # noqa: E402

IMPORT_IT = """
import torch, passel
assert passel.__file__.startswith({folder!r}), passel.__file__
print("kernels for CUDA:", torch._C._dispatch_has_kernel_for_dispatch_key("passel::lltm_forward", "CUDA"))
passel.LLTM(4, 6)(torch.randn(3, 2, 4))[0].sum().backward()
assert not torch.cuda.is_initialized()
"""


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()


class Choice(WithFolder):
    def test_is_none_where_none_lies(self):
        self.assertIsNone(_library.cuda_library(self.folder, "13.0"))

    def test_is_the_one_that_lies_in_the_package(self):
        for name in ("libpassel_cuda.so", "_cuda.so", "_cuda.abi3.so"):
            (self.folder / name).touch()
            self.assertEqual(_library.cuda_library(self.folder, "13.0"), self.folder / name)
            (self.folder / name).unlink()

    def test_is_none_where_torch_has_no_cuda(self):
        (self.folder / "libpassel_cuda.so").touch()
        self.assertIsNone(_library.cuda_library(self.folder, None))


class Loading(unittest.TestCase):
    def test_of_none_does_nothing(self):
        _library.load_cuda_kernels(None, self.fail)

    def test_says_what_failed_and_what_to_do_and_goes_on(self):
        def fail(library):
            raise OSError("libcudart.so.13: cannot open shared object file")

        with self.assertWarnsRegex(RuntimeWarning, "libcudart.so.13: cannot open.*pip install ./kernels/python"):
            _library.load_cuda_kernels(Path("libpassel_cuda.so"), fail)

    def test_is_silent_where_it_works(self):
        got = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _library.load_cuda_kernels(Path("libpassel_cuda.so"), got.append)
        self.assertEqual(got, [Path("libpassel_cuda.so")])


class Building(WithFolder):
    """By setup.py and jit.py."""

    def test_is_done_where_it_can_be(self):
        for setting in (None, "", "AUTO", "ON"):
            self.assertTrue(kernel_sources.builds_cuda(setting, why_not=None))
        for setting in (None, "", "AUTO"):
            self.assertFalse(kernel_sources.builds_cuda(setting, "no CUDA toolkit was found"))

    def test_is_left_out_where_nobody_wants_it(self):
        self.assertFalse(kernel_sources.builds_cuda("OFF", why_not=None))

    def test_says_why_it_cannot_be(self):
        with self.assertRaisesRegex(ValueError, "PASSEL_CUDA is ON, but this torch has no CUDA"):
            kernel_sources.builds_cuda("ON", "this torch has no CUDA")
        with self.assertRaisesRegex(ValueError, "AUTO, ON or OFF, got 'yes'"):
            kernel_sources.builds_cuda("yes", why_not=None)

    def test_needs_torch_with_cuda_and_the_toolkit_of_its_major_number(self):
        self.assertIsNone(kernel_sources.why_no_cuda("13.0", "13.2"))
        self.assertRegex(kernel_sources.why_no_cuda(None, "13.0"), "this torch has no CUDA")
        self.assertRegex(kernel_sources.why_no_cuda("13.0", None), "set CUDA_HOME")
        self.assertRegex(kernel_sources.why_no_cuda("13.0", "12.9"), "toolkit is 12.9, that of this torch 13.0")

    def test_asks_the_toolkit_for_its_version(self):
        self.assertIsNone(kernel_sources.toolkit_version(None))
        self.assertIsNone(kernel_sources.toolkit_version(str(self.folder)))
        nvcc = self.folder / "bin" / "nvcc"
        nvcc.parent.mkdir()
        nvcc.write_text("#!/bin/sh\necho Cuda compilation tools, release 12.9, V12.9.1\n")
        nvcc.chmod(0o755)
        self.assertEqual(kernel_sources.toolkit_version(str(self.folder)), "12.9")

    def test_has_all_sources(self):
        names = {Path(path).name for path in kernel_sources.CUDA_SOURCES}
        self.assertLess({"lltm_cuda.cc", "lltm_checks.cc", "lltm_pack.cc", "lltm_forward_half.cu"}, names)
        self.assertFalse([path for path in kernel_sources.SOURCES if "/cuda/" in path])


class Import(WithFolder):
    def setUp(self):
        super().setUp()
        self.package = self.folder / "passel"
        shutil.copytree(Path(passel.__file__).parent, self.package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        (self.package / OPS.name).symlink_to(OPS.resolve())

    def import_it(self):
        return subprocess.run(
            [sys.executable, "-c", IMPORT_IT.format(folder=str(self.folder))],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True, timeout=120,
        )  # fmt: skip

    def test_loads_no_kernels_where_none_lie_beside(self):
        done = self.import_it()
        self.assertEqual((done.stdout, done.stderr), ("kernels for CUDA: False\n", ""))

    def test_works_beside_a_library_that_does_not_load(self):
        (self.package / "libpassel_cuda.so").write_text("no library")
        done = self.import_it()
        self.assertEqual(done.stdout, "kernels for CUDA: False\n")
        # A torch without CUDA is not asked to load anything.
        warned = "RuntimeWarning: passel's CUDA kernels were not loaded" in done.stderr
        self.assertEqual(warned, torch.version.cuda is not None)

    def test_loads_the_kernels_that_lie_beside_where_build_and_torch_have_cuda(self):
        if CUDA:
            (self.package / "libpassel_cuda.so").symlink_to(CUDA.resolve())
        done = self.import_it()
        loaded = CUDA is not None and torch.version.cuda is not None
        self.assertEqual((done.stdout, done.stderr), (f"kernels for CUDA: {loaded}\n", ""))


if __name__ == "__main__":
    unittest.main()
