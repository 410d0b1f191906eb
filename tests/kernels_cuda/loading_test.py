#!/usr/bin/env python3
"""libpassel_cuda.so in Python: loading_test.py LIBPASSEL_OPS LIBPASSEL_CUDA"""

import subprocess
import sys
import unittest

import torch

CUDA = sys.argv.pop()
OPS = sys.argv.pop()
OPERATORS = ("passel::lltm_forward", "passel::lltm_backward")
ON_CUDA = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)

torch.ops.load_library(OPS)
HAD_KERNELS = [torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA") for name in OPERATORS]
torch.ops.load_library(CUDA)


def arguments(dtype=torch.float32):
    shapes = ((2, 3, 4), (15, 9), (15,), (3, 5), (3, 5))
    return [torch.zeros(shape, dtype=dtype) for shape in shapes]


def forward(*tensors):
    """Straight to the kernel that CUDA tensors get."""
    return torch.ops.passel.lltm_forward.default.redispatch(ON_CUDA, *tensors)


class Loading(unittest.TestCase):
    def test_registers_kernels_for_cuda_where_there_were_none(self):
        self.assertEqual(HAD_KERNELS, [False, False])
        for name in OPERATORS:
            self.assertTrue(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"))

    def test_may_come_before_the_schemas(self):
        code = (
            "import sys, torch\n"
            "for library in sys.argv[1:]: torch.ops.load_library(library)\n"
            "assert torch._C._dispatch_has_kernel_for_dispatch_key('passel::lltm_forward', 'CUDA')\n"
        )
        subprocess.run([sys.executable, "-c", code, CUDA, OPS], check=True, timeout=120)

    def test_the_kernels_refuse_tensors_that_are_not_on_a_gpu(self):
        for device in ("cpu", "meta"):
            with self.assertRaisesRegex(ValueError, f"x on a CUDA device, got {device}"):
                forward(*(tensor.to(device) for tensor in arguments()))
        hidden = torch.zeros(2, 3, 5)
        with self.assertRaisesRegex(ValueError, "x on a CUDA device, got cpu"):
            torch.ops.passel.lltm_backward.default.redispatch(
                ON_CUDA, *arguments(), hidden, hidden, torch.zeros(2, 3, 15), torch.zeros(1),
                None, None, None, [True] * 5,
            )  # fmt: skip

    def test_the_cpu_keeps_its_own_kernels(self):
        outputs = torch.ops.passel.lltm(*arguments())
        self.assertEqual([tuple(output.shape) for output in outputs], [(2, 3, 5), (3, 5), (3, 5)])


class HalfTypes(unittest.TestCase):
    """Shapes and types of what the CUDA kernels return, from the meta device."""

    def test_keep_states_and_gates_in_single_precision(self):
        for dtype in (torch.float16, torch.bfloat16):
            *tensors, cell = (tensor.to("meta") for tensor in arguments(dtype))
            result = torch.ops.passel.lltm_forward(*tensors, cell.float())
            types = [output.dtype for output in result]
            single = torch.float32
            self.assertEqual(types, [dtype, dtype, single, single, single, single])

    def test_refuse_a_cell_state_of_16_bits_in_the_operator_below(self):
        tensors = [tensor.to("meta") for tensor in arguments(torch.bfloat16)]
        with self.assertRaisesRegex(TypeError, "c0 of type Float beside x of a 16-bit type, got BFloat16"):
            torch.ops.passel.lltm_forward(*tensors)

    def test_come_from_the_cpus_kernels_as_from_those_of_cuda(self):
        for dtype in (torch.float16, torch.bfloat16):
            *tensors, cell = arguments(dtype)
            here = torch.ops.passel.lltm_forward(*tensors, cell.float())
            there = torch.ops.passel.lltm_forward(*(a.to("meta") for a in tensors), cell.float().to("meta"))
            self.assertEqual([(a.shape, a.dtype) for a in here], [(a.shape, a.dtype) for a in there])

    def test_trace_as_the_kernels_for_fake_cuda_tensors(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode(allow_non_fake_inputs=False) as mode, torch.no_grad():
            fakes = [
                torch.empty(tensor.shape, dtype=torch.bfloat16, device="cuda")
                for tensor in arguments()
            ]
            hidden, h_last, c_last = torch.ops.passel.lltm(*fakes)
            self.assertIs(type(hidden).__name__, type(fakes[0]).__name__)
            self.assertEqual((hidden.dtype, c_last.dtype), (torch.bfloat16, torch.float32))
            self.assertEqual(hidden.device.type, "cuda")
            self.assertEqual(tuple(hidden.shape), (2, 3, 5))
            self.assertIsNotNone(mode)


class MixedDevices(unittest.TestCase):
    def test_are_refused_with_the_arguments_name(self):
        x, weight, bias, h0, c0 = arguments()
        for mixed in ((x.to("meta"), weight, bias, h0, c0), (x, weight.to("meta"), bias, h0, c0)):
            with self.assertRaisesRegex((ValueError, RuntimeError), "meta"):
                torch.ops.passel.lltm_forward(*mixed)


if __name__ == "__main__":
    unittest.main()
