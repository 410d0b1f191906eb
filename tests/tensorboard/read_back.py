#!/usr/bin/env python3
"""TensorBoard's own reader must find in a run's event files what metrics.jsonl says.

usage: read_back.py PASSEL

Trains, takes the newest checkpoints away as if the run had been killed before
it saved them, resumes from an older one, and compares after each start.
"""

import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TRAIN_TAGS = {
    "train/loss": "loss",
    "lr": "lr",
    "perf/samples_per_s": "samples_per_second",
    "async/staleness_mean": "staleness_mean",
    "async/alive_workers": "workers",
}
EVAL_TAGS = {"eval/loss": "test_loss"}


def passel(*arguments):
    subprocess.run([PROGRAM, *arguments, "--quiet"], check=True, timeout=60)


def curves_of_metrics(run):
    """{tag: [(ticket, value)]} by metrics.jsonl, which a resume cuts itself."""
    curves = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        tags = {"train": TRAIN_TAGS, "eval": EVAL_TAGS}.get(record["event"], {})
        for tag, key in tags.items():
            curves.setdefault(tag, []).append((record["ticket"], record[key]))
    return curves


def curves_of_events(run):
    reader = EventAccumulator(str(run), size_guidance={"scalars": 0})
    reader.Reload()
    return {
        tag: [(point.step, point.value) for point in reader.Scalars(tag)]
        for tag in reader.Tags()["scalars"]
    }


class ReadBack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = Path(folder.name) / "run"

    def expect_the_same_curves(self, last_ticket):
        expected, got = curves_of_metrics(self.run_folder), curves_of_events(self.run_folder)
        self.assertEqual(set(expected), {*TRAIN_TAGS, *EVAL_TAGS})
        self.assertEqual(set(got), set(expected))
        for tag, points in expected.items():
            self.assertEqual([step for step, _ in got[tag]], [step for step, _ in points], tag)
            for (_, value), (_, wanted) in zip(got[tag], points):
                self.assertTrue(math.isclose(value, wanted, rel_tol=1e-6), (tag, value, wanted))
        self.assertEqual(got["train/loss"][-1][0], last_ticket)

    def test_curves_are_those_of_the_metrics_and_do_not_double_after_a_resume(self):
        passel("train", "--out", str(self.run_folder), "--dataset", "adding", "--hidden-size", "8",
               "--max-tickets", "40", "--log-interval", "5", "--checkpoint-interval", "10",
               "--keep-checkpoints", "4")  # fmt: skip
        self.expect_the_same_curves(40)

        checkpoints = self.run_folder / "checkpoints"
        for ticket in (30, 40):
            (checkpoints / f"checkpoint-{ticket:09}.safetensors").unlink()
        passel("resume", str(self.run_folder), "--max-tickets", "60")
        self.assertEqual(len(list(self.run_folder.glob("events.out.tfevents.*"))), 2)
        self.expect_the_same_curves(60)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
