#!/usr/bin/env python3
"""Runs of `passel train` on a GPU: train_on_gpu_test.py PASSEL

With FAKE_GPUS in the environment PASSEL is a program that makes GPUs up (tests/device), to
see that these tests are right.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import torch

PROGRAM = sys.argv.pop()
MADE_UP = "FAKE_GPUS" in os.environ
DATA = os.environ.get("PASSEL_DATA", "/usr/share/datasets/fashion-mnist")
SMALL = ["--dataset", "adding", "--adding-steps", "10", "--hidden-size", "32", "--batch-size", "50",
         "--optimizer", "adam", "--lr", "0.01", "--lr-schedule", "cosine", "--epochs", "2"]  # fmt: skip
LEARNT = 0.04  # a loss below; who always says the mean has 1/6
MANY = "3000" if MADE_UP else "20000"  # tickets, long after the last kill
IMAGES = ["--data", DATA, "--hidden-size", "128", "--batch-size", "64", "--optimizer", "adam",
          "--lr", "0.002", "--clip-norm", "1", "--epochs", "1", "--workers", "2"]  # fmt: skip
PLACES = {"shared": [], "staged": ["--no-cuda-ipc"]}


def free_memory() -> int:
    return 0 if MADE_UP else torch.cuda.mem_get_info()[0]


@unittest.skipUnless(torch.cuda.is_available() or MADE_UP, "no GPU")
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

    def summary(self, name: str) -> dict:
        return self.events(name, "summary")[-1]

    def test_two_modes_come_to_the_accuracy_of_the_cpu(self):
        for mode in ("ordered", "hogwild"):
            accuracy = {}
            for device in ("cpu", "cuda"):
                run = str(self.folder / f"{device}-{mode}")
                self.passel(PROGRAM, "train", *IMAGES, "--mode", mode, "--device", device, "--out", run)
                accuracy[device] = self.summary(run)["test_accuracy"]
            with self.subTest(mode=mode):
                self.assertGreater(accuracy["cpu"], 0.8)
                self.assertGreater(accuracy["cuda"], accuracy["cpu"] - 0.02)

    def test_every_mode_learns_as_on_the_cpu(self):
        places = {"cpu": [], **{place: ["--device", "cuda", *more] for place, more in PLACES.items()}}
        for mode in ("ordered", "sync", "hogwild", "recorded"):
            for place, options in places.items():
                with self.subTest(mode=mode, place=place):
                    self.passel(*self.command(f"{place}-{mode}", "--mode", mode, *options))
                    self.assertLess(self.summary(f"{place}-{mode}")["test_loss"], LEARNT)

    def test_atomic_additions_learn_as_on_the_cpu(self):
        options = ["--device", "cuda", "--atomic-adds", "--workers", "3"]
        for state in ("shared", "private"):
            with self.subTest(state=state):
                self.passel(*self.command(state, *options, "--optimizer-state", state))
                self.assertLess(self.summary(state)["test_loss"], LEARNT)

    def test_ordered_runs_have_the_same_bits_with_other_workers(self):
        for place, options in PLACES.items():
            with self.subTest(place=place):
                self.passel(*self.command(place, "--mode", "ordered", "--device", "cuda", *options))
                said = self.passel(PROGRAM, "verify", str(self.folder / place), "--workers", "3")
                self.assertIn("bit-identical", said)

    def test_ordered_runs_have_the_same_bits_when_workers_are_killed(self):
        options = ["--mode", "ordered", "--device", "cuda", "--max-tickets", "3000", "--epochs", "99"]
        self.train_under_kills("run", *options, "--workers", "2")
        self.passel(*self.command("undisturbed", *options, "--workers", "1"))
        self.assertGreaterEqual(self.summary("run")["respawns"], 1)
        self.assertEqual(self.summary("run")["param_hash"], self.summary("undisturbed")["param_hash"])

    def test_stateful_runs_learn_as_on_the_cpu(self):
        stream = ["--dataset", "adding-stream", "--stateful", "--adding-steps", "6"]
        stream += ["--mode", "ordered"]
        self.passel(*self.command("cpu", *stream))
        expected = self.summary("cpu")["test_loss"]
        for place, options in PLACES.items():
            with self.subTest(place=place):
                self.passel(*self.command(place, *stream, "--device", "cuda", *options))
                self.assertLess(self.summary(place)["test_loss"], 1.3 * expected + 0.02)
                said = self.passel(PROGRAM, "verify", str(self.folder / place), "--workers", "3")
                self.assertIn("bit-identical", said)

    def test_killed_workers_are_replaced_and_leave_no_memory_behind(self):
        before = free_memory()
        options = ["--device", "cuda", "--max-tickets", MANY, "--epochs", "99"]
        self.train_under_kills("run", *options, "--workers", "2")
        summary = self.summary("run")
        self.assertEqual(summary["tickets"], int(MANY))
        self.assertGreaterEqual(summary["respawns"], 1)
        self.assertGreaterEqual(free_memory(), before - (64 << 20))

    def train_under_kills(self, name: str, *options: str) -> None:
        with subprocess.Popen(self.command(name, *options)) as run:
            for kills in range(1, 4):
                self.wait_for_train_events(2 * kills, run)
                children = Path(f"/proc/{run.pid}/task").glob("*/children")
                pids = [int(pid) for file in children for pid in file.read_text().split()]
                if pids:
                    os.kill(pids[0], signal.SIGKILL)
        self.assertEqual(run.returncode, 0)

    # The file of events is all there is to look at, until the run ends.
    def wait_for_train_events(self, count: int, run: subprocess.Popen) -> None:
        deadline = time.monotonic() + 120
        ended = os.pidfd_open(run.pid)
        self.addCleanup(os.close, ended)
        end = select.poll()
        end.register(ended, select.POLLIN)
        while len(self.train_events()) < count and not end.poll(10):
            if time.monotonic() > deadline:
                run.kill()
                self.fail(f"{count} train events did not come within 120 s")

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
            self.assertGreater(record["computed_seconds"], 0)

    def test_caches_are_emptied_after_checkpoints_if_asked_for(self):
        options = ["--device", "cuda", "--workers", "2", "--checkpoint-interval", "300"]
        for name, more, least in (("kept", [], 0), ("emptied", ["--empty-cache"], 1)):
            self.passel(*self.command(name, *options, *more, "--epochs", "1"))
            last = {record["slot"]: record for record in self.events(name, "memory")}
            for record in last.values():
                self.assertIn(record["cache_emptied"], range(least, 2 * least + 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
