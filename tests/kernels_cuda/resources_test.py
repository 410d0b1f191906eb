#!/usr/bin/env python3
"""What the compiler says of each CUDA kernel, kept in bounds: resources_test.py TABLE"""

import sys
import unittest
from pathlib import Path

TABLE = Path(sys.argv.pop())
ARRAYS = ("LltmPointwiseForward", "LltmPointwiseBackward")
TYPES = ("float", "double", "Bfloat16", "Float16")
# 128 threads a block: 8 blocks fit into a multiprocessor's 65,536 registers.
MOST_REGISTERS = 80


def kernels():
    for line in TABLE.read_text().splitlines():
        architecture, registers, stack, spilled, shared, name = line.split(maxsplit=5)
        yield architecture, int(registers), int(stack), int(spilled), int(shared), name


class Resources(unittest.TestCase):
    def test_every_type_has_its_kernels_on_every_architecture(self):
        found = list(kernels())
        for architecture in {kernel[0] for kernel in found}:
            for arrays in ARRAYS:
                for kind in TYPES:
                    names = [k[5] for k in found if k[0] == architecture and f"{arrays}<{kind}," in k[5]]
                    self.assertEqual(len(names), 2, (architecture, arrays, kind))

    def test_the_architectures_reach_from_turing_to_hopper(self):
        architectures = {kernel[0] for kernel in kernels()}
        self.assertLessEqual({"sm_75", "sm_80", "sm_90"}, architectures)

    def test_no_kernel_is_too_large(self):
        for architecture, registers, _, _, shared, name in kernels():
            with self.subTest(architecture=architecture, name=name):
                self.assertLessEqual(registers, MOST_REGISTERS)
                self.assertEqual(shared, 0)

    def test_no_kernel_spills_or_has_a_stack(self):
        for architecture, _, stack, spilled, _, name in kernels():
            with self.subTest(architecture=architecture, name=name):
                self.assertEqual((stack, spilled), (0, 0))


if __name__ == "__main__":
    unittest.main()
