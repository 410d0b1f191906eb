#!/usr/bin/env python3
"""The bundle on a machine without the build's packages: bundle_test.py CMAKE BUILD

The machine is this one in a mount namespace, where empty folders lie over the checkout
and the build and empty files over every library that the bundle brings along.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CMAKE, BUILD = sys.argv[1:3]
del sys.argv[1:]
ROOT = Path(__file__).resolve().parents[2]
SITE_PACKAGES = Path(importlib.util.find_spec("torch").submodule_search_locations[0]).parent
MIB = 1 << 20
NAMESPACE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
LIBRARY_FOLDERS = [Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64")]

# Arguments: the checkout, the build, the bundle, site-packages, then a command.
IN_NAMESPACE = """
set -e
checkout=$1 build=$2 bundle=$3 site=$4
shift 4
mount --bind "$site" "$bundle.site"
for library in $HIDDEN; do mount --bind "$bundle.empty" "$library"; done
mount -t tmpfs none "$build"
mount -t tmpfs none "$checkout"
cd "$bundle"
exec env -u HIDDEN PASSEL_TORCH="$bundle.site/torch" "$@"
"""


def hidden_libraries(bundle: Path) -> list[str]:
    """Where this machine has what the bundle brings along."""
    found = []
    for library in (bundle / "lib").iterdir():
        for folder in LIBRARY_FOLDERS:
            if (folder / library.name).exists():
                found.append(str((folder / library.name).resolve()))
    return found


def namespaces_work() -> bool:
    return subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], check=False).returncode == 0


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.bundle = cls.folder / "bundle"
        subprocess.run(
            [CMAKE, "--install", BUILD, "--component", "gpu_bundle", "--prefix", cls.bundle, "--strip"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        (cls.folder / "bundle.empty").touch()
        (cls.folder / "bundle.site").mkdir()

    def run_there(self, *command) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*NAMESPACE, "sh", "-c", IN_NAMESPACE, "sh", ROOT, BUILD, self.bundle, SITE_PACKAGES, *command],
            env={**os.environ, "HIDDEN": " ".join(hidden_libraries(self.bundle)), "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300,
        )  # fmt: skip

    def expect_success(self, *command) -> str:
        done = self.run_there(*command)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_is_small_enough_to_carry(self):
        size = sum(file.stat().st_size for file in self.bundle.rglob("*") if file.is_file())
        self.assertLess(size, 60 * MIB)

    def test_hides_what_it_brings_along(self):
        self.assertGreater(len(hidden_libraries(self.bundle)), 2)
        done = self.run_there("env", "LD_LIBRARY_PATH=" + str(self.folder / "bundle.site/torch/lib"), "src/passel", "--version")
        self.assertNotEqual(done.returncode, 0, "the program ran without the bundle's libraries")

    def test_trains(self):
        run = self.folder / "run"
        self.expect_success(
            "./with-torch", "src/passel", "train", "--dataset", "adding", "--workers", "2",
            "--max-tickets", "50", "--out", run,
        )  # fmt: skip
        self.assertTrue(list(run.glob("checkpoints/*.safetensors")))

    def test_has_the_data_of_the_benchmarks(self):
        self.expect_success("sh", "-c", './with-torch sh -c \'test -s "$PASSEL_DATA/train-images-idx3-ubyte.gz"\'')

    def test_checks_the_gpu_or_says_that_there_is_none(self):
        self.assertIn("gpu-check: no GPU here", self.expect_success("./gpu-check"))

    def test_runs_the_tests_it_carries(self):
        self.expect_success("./with-torch", "tests/kernels/kernels_test", "--gtest_filter=KnownBits*")
        self.expect_success("./with-torch", "tests/shm_cuda/shm_cuda_real_test")
        self.expect_success("./with-torch", "tests/shm_torch/shm_torch_test", "--gtest_filter=TensorQueue*")

    def test_runs_the_benchmarks(self):
        self.expect_success(
            "./with-torch", "python3", "tests/bench/bench_modes.py", "--quick", "--program", "src/passel",
            "--json", self.folder / "modes.json",
        )  # fmt: skip
        self.assertIn("ordered", (self.folder / "modes.json").read_text())

    def test_measures_training_on_a_gpu_or_says_that_there_is_none(self):
        command = ["./with-torch", "python3", "tests/bench/bench_gpu_training.py", "--program", "src/passel"]
        self.assertIn("skipped: no GPU", self.expect_success(*command))

    def test_says_what_is_missing_where_there_is_no_torch(self):
        done = self.run_there("env", "PASSEL_TORCH=/nowhere", "./gpu-check")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("Set PASSEL_TORCH to torch's folder", done.stdout)


if __name__ == "__main__":
    if not namespaces_work():
        print("skipped: this machine grants no mount namespace")
        sys.exit(77)
    unittest.main()
