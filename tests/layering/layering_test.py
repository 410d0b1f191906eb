#!/usr/bin/env python3
"""Plants violations in a tree of its own and expects each to be found."""

import tempfile
import unittest
from pathlib import Path

from layering import LINE_LIMIT, check_tree

CLEAN = {
    "shm/ring.cc": '#include "passel/shm/ring.h"\na.load(std::memory_order_relaxed);\n',
    "shm/torch/handle.h": "#include <ATen/core/Tensor.h>\n",
    "kernels/update.cc": "a.store(1, std::memory_order_relaxed);\n",
    "kernels/torch/ops.cc": "#include <torch/library.h>\n",
    "src/model.h": '#include "passel/kernels/lltm.h"\n#include "passel/shm/ring.h"\n',
    "src/long.cc": "\n" * LINE_LIMIT,
    "tests/wait_test.cc": "sleep_for(std::chrono::milliseconds(1));  // sleep_for(10s)\n"
    "sleep_for(std::chrono::microseconds(random() % 5000));\nusleep(500);\nsleep_for(2ms);\n",
    "tests/wait.py": "time.sleep(0.01)\n",
}


class Layering(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path, text in CLEAN.items():
            self.plant(path, text)

    def plant(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def expect(self, path, text, words, line=1):
        self.plant(path, text)
        found = check_tree(self.root)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{path}:{line}: "), found[0])
        self.assertIn(words, found[0])
        (self.root / path).unlink()

    def test_a_clean_tree_has_no_violation(self):
        self.assertEqual(check_tree(self.root), [])

    def test_an_empty_tree_is_not_taken_for_a_clean_one(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assertEqual(len(check_tree(Path(empty))), 1)

    def test_torch_h_in_a_header(self):
        self.expect("src/a.h", "#pragma once\n#include <torch/torch.h>\n", "torch/torch.h", 2)
        self.expect("tests/training/a.h", "#include <torch/torch.h>\n", "torch/torch.h")

    def test_includes_through_the_parent_folder(self):
        self.expect("src/a.cc", '#include "../run/config.h"\n', "../")

    def test_relaxed_atomics_in_other_places(self):
        self.expect("src/a.cc", "\na.load(std::memory_order_relaxed);\n", "relaxed", 2)
        self.expect("kernels/lltm.cc", "a.load(std::memory_order::relaxed);\n", "relaxed")

    def test_shm_and_kernels_that_see_each_other(self):
        self.expect("shm/a.cc", '#include "passel/kernels/lltm.h"\n', "passel/kernels/lltm.h")
        self.expect("shm/torch/a.cc", '#include "passel/kernels_torch/l.h"\n', "kernels_torch")
        self.expect("kernels/a.h", '#include "passel/shm/ring.h"\n', "passel/shm/ring.h")
        self.expect("kernels/torch/a.cc", '#include "passel/shm_torch/h.h"\n', "shm_torch")

    def test_layers_that_see_the_trainer(self):
        self.expect("shm/torch/a.cc", '#include "passel/train/config.h"\n', "passel/train")
        self.expect("kernels/torch/a.cc", '#include "passel/train/config.h"\n', "passel/train")

    def test_cuda_in_other_parts_of_the_trainer_than_its_own(self):
        self.expect("src/modes/a.cc", "#include <cuda_runtime_api.h>\n", "src/device/cuda")
        self.expect("src/device/a.h", '#include "passel/shm_cuda/device.h"\n', "src/device/cuda")

    def test_a_device_that_sees_the_trainer(self):
        self.expect("src/device/cuda/a.cc", '#include "passel/train/config.h"\n', "below")

    def test_torch_in_layers_that_are_free_of_it(self):
        for include in ("<torch/library.h>", "<ATen/ATen.h>", "<c10/util/Half.h>"):
            self.expect("shm/a.cc", f"#include {include}\n", "free of torch")
        self.expect("kernels/cuda/a.cu", "#include <ATen/ATen.h>\n", "free of torch")
        self.expect("tests/kernels/a.cc", "#  include <torch/torch.h>\n", "free of torch")

    def test_files_that_are_too_long(self):
        for name in ("a.h", "a.cc", "a.cu"):
            self.expect(f"src/{name}", "\n" * (LINE_LIMIT + 1), "lines", LINE_LIMIT + 1)

    def test_long_sleeps_in_tests(self):
        for call in (
            "std::this_thread::sleep_for(std::chrono::milliseconds(11));",
            "std::this_thread::sleep_for(1s);",
            "sleep_for(std::chrono::microseconds(10'001));",
            "sleep_for(pause);",
            "usleep(20000);",
            "sleep(1);",
            "nanosleep(&time, nullptr);",
        ):
            self.expect("tests/shm/a_test.cc", call, "sleep")
        self.expect("tests/e2e/a.py", "time.sleep(0.5)\n", "sleep")


if __name__ == "__main__":
    unittest.main()
