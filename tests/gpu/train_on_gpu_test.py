#!/usr/bin/env python3
"""Runs of `passel train` on a GPU: train_on_gpu_test.py PASSEL"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import torch

PROGRAM = sys.argv.pop()
SMALL = ["--dataset", "adding", "--adding-steps", "20", "--hidden-size", "32", "--batch-size", "50",
         "--epochs", "1", "--max-tickets", "300"]  # fmt: skip
PLACES = {"shared": [], "staged": ["--no-cuda-ipc"]}


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Training(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def command(self, name: str, *options: str) -> list[str]:
        return [PROGRAM, "train", *SMALL, "--out", str(self.folder / name), *options]

    def passel(self, *command: str) -> str:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=300)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def events(self, name: str, kind: str) -> list[dict]:
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def loss(self, name: str) -> float:
        return self.events(name, "summary")[-1]["test_loss"]

    def test_every_mode_trains_as_well_as_on_the_cpu(self):
        for mode in ("ordered", "sync", "hogwild", "recorded"):
            self.passel(*self.command(f"cpu-{mode}", "--mode", mode))
            for place, options in PLACES.items():
                with self.subTest(mode=mode, place=place):
                    name = f"{place}-{mode}"
                    self.passel(*self.command(name, "--mode", mode, "--device", "cuda", *options))
                    self.assertLess(self.loss(name), 1.3 * self.loss(f"cpu-{mode}") + 0.02)

    def test_ordered_runs_have_the_same_bits_with_other_workers(self):
        for place, options in PLACES.items():
            with self.subTest(place=place):
                self.passel(*self.command(place, "--mode", "ordered", "--device", "cuda", *options))
                said = self.passel(PROGRAM, "verify", str(self.folder / place), "--workers", "3")
                self.assertIn("bit-identical", said)

    def test_killed_workers_are_replaced_and_leave_no_memory_behind(self):
        before = torch.cuda.mem_get_info()[0]
        options = ["--device", "cuda", "--workers", "2", "--max-tickets", "20000", "--epochs", "99"]
        with subprocess.Popen(self.command("run", *options)) as run:
            for kills in range(1, 4):
                self.wait_for_train_events(2 * kills, run)
                children = Path(f"/proc/{run.pid}/task").glob("*/children")
                pids = [int(pid) for file in children for pid in file.read_text().split()]
                if pids:
                    os.kill(pids[0], signal.SIGKILL)
        self.assertEqual(run.returncode, 0)
        summary = self.events("run", "summary")[-1]
        self.assertEqual(summary["tickets"], 20000)
        self.assertGreaterEqual(summary["respawns"], 1)
        self.assertGreater(torch.cuda.mem_get_info()[0], before - (64 << 20))

    # The file of events is all there is to look at.
    def wait_for_train_events(self, count: int, run: subprocess.Popen) -> None:
        deadline = time.monotonic() + 120
        while len(self.train_events()) < count and run.poll() is None:
            if time.monotonic() > deadline:
                run.kill()
                self.fail(f"{count} train events did not come within 120 s")
            time.sleep(0.01)

    def train_events(self) -> list[dict]:
        exists = (self.folder / "run" / "metrics.jsonl").exists()
        return self.events("run", "train") if exists else []

    def test_memory_of_each_worker_is_in_the_metrics(self):
        self.passel(*self.command("run", "--device", "cuda", "--workers", "2"))
        records = self.events("run", "memory")
        self.assertEqual({record["slot"] for record in records}, {0, 1})
        for record in records:
            self.assertGreater(record["peak_bytes"], 0)
            self.assertLessEqual(record["allocated_bytes"], record["reserved_bytes"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
