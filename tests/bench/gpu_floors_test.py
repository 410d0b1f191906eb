#!/usr/bin/env python3
"""The floors of bench_gpu.py, for a device whose figures are known."""

import contextlib
import io
import json
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import bench_gpu
from measure import write_results

from gpu_floors import Device, Work, floor_microseconds

H200 = Device(
    processors=132, clock=1.98e9, memory_bytes_a_second=4.9e12, shared_bytes=227 << 10, capability=(9, 0)
)


def work(state, batch, precision="fp32", backward=False, **sizes):
    return Work(**{"batch": batch, "input": 0, "state": state, "steps": 1000,
                   "precision": precision, "backward": backward, **sizes})  # fmt: skip


class OfTheDevice(unittest.TestCase):
    def test_are_made_of_its_properties(self):
        properties = SimpleNamespace(
            multi_processor_count=132, clock_rate=1_980_000, memory_clock_rate=3_201_000,
            memory_bus_width=6144, shared_memory_per_block_optin=227 << 10, major=9, minor=0,
        )  # fmt: skip
        device = Device.of(properties)
        self.assertAlmostEqual(device.memory_bytes_a_second / 4.9e12, 1, delta=0.01)
        self.assertEqual(replace(device, memory_bytes_a_second=4.9e12), H200)

    def test_has_the_peaks_that_its_maker_says(self):
        for precision, teraflops, use in (("fp32", 67, 1), ("tf32", 494, 0.4), ("bf16", 990, 0.4)):
            peak = H200.processors * H200.operations_a_second(precision) / 1e12
            self.assertAlmostEqual(peak / (teraflops * use), 1, delta=0.1)


class OfAForwardStep(unittest.TestCase):
    # Estimated by hand for this chip, sequential work alone: least and most microseconds.
    ESTIMATES = {
        (128, 16, "fp32"): (0.9, 1.1), (128, 16, "bf16"): (0.8, 0.9),
        (512, 16, "fp32"): (2.1, 2.4), (512, 16, "tf32"): (1.2, 1.5),
        (512, 64, "fp32"): (2.4, 2.6), (512, 64, "bf16"): (1.3, 1.5),
        (1024, 16, "fp32"): (3.3, 3.6), (1024, 64, "fp32"): (8, 9.5), (1024, 64, "bf16"): (2.9, 2.9),
    }  # fmt: skip

    def test_is_near_what_was_estimated_by_hand(self):
        for (state, batch, precision), (least, most) in self.ESTIMATES.items():
            with self.subTest(state=state, batch=batch, precision=precision):
                floor = floor_microseconds(H200, work(state, batch, precision))
                self.assertGreater(floor, 0.6 * least)
                self.assertLess(floor, 1.1 * most)

    def test_is_no_less_for_more_work(self):
        for precision in ("fp32", "tf32", "bf16"):
            base = floor_microseconds(H200, work(512, 16, precision, input=64))
            for more in (work(1024, 16, precision, input=64), work(512, 64, precision, input=64),
                         work(512, 16, precision, input=4096)):  # fmt: skip
                self.assertGreater(floor_microseconds(H200, more), base)

    def test_is_the_latency_for_hardly_any_work(self):
        floor = floor_microseconds(H200, work(8, 1))
        self.assertAlmostEqual(floor, (550 + 1000) / 1980, delta=0.02)

    def test_is_that_of_memory_where_that_is_slow(self):
        slow = replace(H200, memory_bytes_a_second=1e9)
        one = work(128, 16, input=32, steps=10)
        moved = 16 * 16 * 128 + 4 * 16 * (128 + 32) + 4 * 3 * 128 * (128 + 32) / 10
        self.assertAlmostEqual(floor_microseconds(slow, one), moved / 1e9 * 1e6, places=6)

    def test_is_that_of_weights_from_the_cache_where_they_do_not_fit_on_the_chip(self):
        small = replace(H200, processors=16)
        slice_of_weights = 3 * 1024**2 * 4 / 16
        self.assertGreater(
            floor_microseconds(small, work(1024, 1)), slice_of_weights / (57 * 1.98e9) * 1e6
        )

    def test_needs_a_whole_grid_on_chips_without_clusters(self):
        older = replace(H200, capability=(8, 0))
        self.assertGreater(floor_microseconds(older, work(128, 16)), (1800 + 1000) / 1980)

    def test_leaves_out_what_is_not_known_of_a_chip(self):
        unknown = replace(H200, capability=(99, 0))
        floor = floor_microseconds(unknown, work(1024, 64, "bf16"))
        self.assertGreater(floor, (1000 + 550) / 1980)
        self.assertLess(floor, floor_microseconds(H200, work(1024, 64, "bf16")) + 1e-9)


class OfABackwardStep(unittest.TestCase):
    def test_is_more_than_that_of_the_forward_step(self):
        for state in (128, 512, 1024):
            for precision in ("fp32", "tf32", "bf16"):
                forward = floor_microseconds(H200, work(state, 16, precision, input=state))
                backward = floor_microseconds(H200, work(state, 16, precision, True, input=state))
                self.assertGreater(backward, forward)


class BesideTheFigures(unittest.TestCase):
    def test_stand_in_the_table_and_in_the_file(self):
        sides = [{"side": side, "state": 128, "batch": 16, "precision": "fp32", "forward": us, "backward": 2 * us}
                 for side, us in (("passel", 10.0), ("composed", 50.0), ("lstm", 8.0))]  # fmt: skip
        rows = bench_gpu.rows({"launch": 2.5, "results": sides}, "_graph", 7, H200, "a GPU")
        self.assertEqual(len(rows), 4)
        backward = next(row for row in rows if row["name"] == "lltm_gpu_backward_s128_b16_fp32_graph_vs_lstm")
        self.assertEqual((backward["value"], backward["ratio"], backward["floor_of_launches"]), (20.0, 0.8, 5.0))
        whole = work(128, 16, backward=True, input=128, steps=bench_gpu.STEPS)
        self.assertEqual(backward["floor"], floor_microseconds(H200, whole))
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
            write_results(rows, Path(folder) / "gpu.json")
            self.assertEqual(json.loads((Path(folder) / "gpu.json").read_text()), rows)
        heading, first, *_ = printed.getvalue().splitlines()
        self.assertTrue(heading.endswith("  floor  floor of launches"))
        self.assertTrue(first.endswith(f"  {rows[0]['floor']:>5.3g}  {5.0:>17.3g}"))


if __name__ == "__main__":
    unittest.main()
