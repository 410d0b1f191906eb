#!/usr/bin/env python3
"""usage: roofline_test.py bench-kernels.json

The plot of a run that was just made, and of rows whose places are known.
"""

import json
import sys
import unittest
import xml.etree.ElementTree as ElementTree

import roofline

RESULTS = json.load(open(sys.argv.pop(1)))


def shapes(drawing: str, name: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(drawing).findall("{http://www.w3.org/2000/svg}" + name)


def row(name: str, fraction: float, peer: float) -> dict:
    return {
        "name": name, "value": fraction, "peer_value": peer, "flops_per_byte": 20,
        "peak_gflops": 100, "memory_gb_per_s": 10, "l2_gb_per_s": 50,
    }  # fmt: skip


class Roofline(unittest.TestCase):
    def test_has_two_points_for_each_training_step_of_a_run(self):
        circles = shapes(roofline.svg(RESULTS), "circle")
        legend, sequences = 2, 2
        self.assertEqual(len(circles), legend + 2 * sequences)

    def test_leaves_out_parts_other_peers_and_other_vectors(self):
        names = ("lltm_forward_t1_s1", "lltm_t1_s1_vs_lstm", "lltm_t1_s1_avx2", "lltm_nodx_t1_s1")
        rows = [row("lltm_t1_s1", 0.5, 0.1), *(row(name, 0.5, 0.1) for name in names)]
        self.assertEqual(len(shapes(roofline.svg(rows), "circle")), 2 + 2)

    def test_draws_the_whole_peak_on_the_roof_and_less_below_it(self):
        drawing = roofline.svg([row("lltm_t1_s1", 1, 0.1)])
        roof = next(one for one in shapes(drawing, "line") if one.get("y1") == one.get("y2")
                    and one.get("stroke") == roofline.ROOF)  # fmt: skip
        heights = sorted(float(one.get("cy")) for one in shapes(drawing, "circle")[:2])
        self.assertAlmostEqual(heights[0], float(roof.get("y1")), delta=0.1)
        self.assertGreater(heights[1], heights[0] + 50)

    def test_refuses_results_without_a_training_step(self):
        with self.assertRaisesRegex(SystemExit, "expected rows named lltm_t"):
            roofline.svg([row("tensor_handles", 1, 1)])


if __name__ == "__main__":
    unittest.main()
