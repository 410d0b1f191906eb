#!/usr/bin/env python3
"""bench_gpu_training.py over a CUDA runtime without a GPU: bench_gpu_training_test.py PROGRAM RESIDENT"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import bench_gpu_training  # noqa: E402
import steady  # noqa: E402

PROGRAM, RESIDENT = sys.argv[1:3]
del sys.argv[1:]


def begins(slot: int, time: float) -> dict:
    return {"event": "worker", "state": "training", "slot": slot, "time": time}


def line(ticket: int, time: float, epoch: int = 0) -> dict:
    return {"event": "train", "ticket": ticket, "time": time, "epoch": epoch}


class Interval(unittest.TestCase):
    def test_begins_when_all_workers_train(self):
        found = [begins(0, 1.0), line(10, 2.0), begins(1, 2.5), line(20, 3.0), line(50, 4.0), line(80, 5.5)]
        self.assertEqual(steady.interval(found, 2), (60, 2.5))

    def test_is_empty_before(self):
        found = [begins(0, 1.0), line(10, 2.0), line(20, 3.0)]
        self.assertEqual(steady.interval(found, 2), (0, 0.0))
        self.assertEqual(steady.interval([*found, begins(1, 3.5), line(30, 4.0)], 2), (0, 0.0))

    def test_leaves_out_the_ends_of_epochs(self):
        found = [begins(0, 0.0), line(10, 1.0), line(20, 2.0), line(30, 9.0, 1), line(40, 9.5, 1)]
        self.assertEqual(steady.interval(found, 1), (20, 1.5))


class Rows(unittest.TestCase):
    SPEEDS = {
        ("ordered", 128, 1): {"gpu": [100.0, 200.0, 90.0], "resident": [100.0, 250.0, 100.0], "cpu": [10.0, 10.0, 10.0]},
        ("ordered", 128, 2): {"gpu": [150.0, 160.0, 90.0], "resident": [150.0, 160.0, 90.0], "cpu": [20.0, 20.0, 20.0]},
    }  # fmt: skip

    def rows(self) -> dict[str, dict]:
        made = bench_gpu_training.rows(self.SPEEDS, {1: "one", 2: "two"}, "here")
        return {row["name"]: row for row in made}

    def test_are_beside_the_cpu_the_batches_on_the_device_and_one_worker(self):
        self.assertEqual(
            list(self.rows()),
            ["train_gpu_ordered_b64_s128_w1", "train_gpu_copies_ordered_b64_s128_w1",
             "train_gpu_ordered_b64_s128_w2", "train_gpu_copies_ordered_b64_s128_w2",
             "train_gpu_scaling_ordered_b64_s128_w2"],
        )  # fmt: skip

    def test_have_the_median_of_the_ratios_within_rounds(self):
        copies = self.rows()["train_gpu_copies_ordered_b64_s128_w1"]
        self.assertEqual((copies["value"], copies["peer_value"], copies["ratio"]), (100.0, 100.0, 0.9))
        self.assertEqual(self.rows()["train_gpu_ordered_b64_s128_w2"]["ratio"], 7.5)
        self.assertEqual(self.rows()["train_gpu_scaling_ordered_b64_s128_w2"]["ratio"], 1.0)

    def test_say_where_and_how_often(self):
        row = self.rows()["train_gpu_scaling_ordered_b64_s128_w2"]
        self.assertEqual((row["machine"], row["samples"], row["unit"]), ("two; here", 3, "samples/s"))


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = Path(folder.name) / "training.json"

    def bench(self, program: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, HERE / "bench_gpu_training.py", "--quick", "--program", program,
             "--resident", RESIDENT, "--json", self.json],
            env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip

    def test_measures_all_cases(self):
        done = self.bench(PROGRAM, FAKE_GPUS="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {row["name"]: row for row in json.loads(self.json.read_text())}
        expected = {
            f"train_gpu_{what}{mode}_b64_s128_w{workers}"
            for mode in ("hogwild", "ordered") for workers in (1, 2)
            for what in (("", "copies_", "scaling_") if workers > 1 else ("", "copies_"))
        }  # fmt: skip
        self.assertEqual(set(rows), expected)
        for row in rows.values():
            self.assertGreater(row["value"], 0)
            self.assertAlmostEqual(row["ratio"], row["value"] / row["peer_value"])
            self.assertIn("no GPU at all", row["machine"])
            self.assertIn("the parameters are on it", row["machine"])
        self.assertIn("without MPS", rows["train_gpu_hogwild_b64_s128_w2"]["machine"])
        self.assertNotIn("without MPS", rows["train_gpu_hogwild_b64_s128_w1"]["machine"])

    def test_says_that_there_is_no_gpu_and_succeeds(self):
        done = self.bench(PROGRAM, FAKE_GPUS="0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^bench-gpu-training: skipped: no GPU: .*There is no such GPU")
        self.assertFalse(self.json.exists())

    def test_fails_where_the_program_does(self):
        done = self.bench("/bin/false")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/bin/false ended with 1", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
