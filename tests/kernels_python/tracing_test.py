#!/usr/bin/env python3
"""The operators in torch's dispatcher, tracers and compilers: tracing_test.py LIBRARY"""

import unittest

import loaded  # noqa: F401
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import opcheck

import composed
import passel

OPS = torch.ops.passel


TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def forward_arguments(steps, dtype, requires_grad):
    """Of lltm_forward: the cell state of 16-bit types is float32."""
    tensors = composed.arguments(steps, dtype=dtype, requires_grad=requires_grad)
    if dtype.itemsize > 2:
        return tensors
    return (*tensors[:4], tensors[4].detach().float().requires_grad_(requires_grad))


def backward_arguments(dtype, requires_grad, keep_every):
    with torch.no_grad():
        tensors = forward_arguments(2, dtype, False)
        hidden, h, c, cells, gates, packed = OPS.lltm_forward(*tensors, keep_every)
    tensors = [a.requires_grad_(requires_grad) for a in tensors]
    grads = [torch.randn_like(a) for a in (hidden, h, c)]
    return (*tensors, hidden, cells, gates, packed, *grads, [True] * 5, keep_every)


def head_arguments(requires_grad=True, dtype=torch.float64):
    """x [B, S], weight [C, S] and bias [C], and of each loss its targets."""
    tensors = [torch.randn(*sizes, dtype=dtype).requires_grad_(requires_grad) for sizes in ((6, 8), (4, 8), (4,))]
    return tensors, {"linear_cross_entropy": torch.randint(4, (6,)), "linear_mse": torch.randn(6, 4, dtype=dtype)}


class Head(unittest.TestCase):
    def test_passes_all_checks_of_operators(self):
        for requires_grad in (False, True):
            tensors, targets = head_arguments(requires_grad)
            opcheck(OPS.linear.default, tensors)
            opcheck(OPS.linear_forward.default, tensors)
            for name, target in targets.items():
                opcheck(getattr(OPS, name).default, (*tensors, target))
                opcheck(getattr(OPS, name + "_forward").default, (*tensors, target))

    def test_passes_all_checks_of_the_backward_operator(self):
        (x, weight, bias), _ = head_arguments(requires_grad=False)
        output, packed = OPS.linear_forward(x, weight, bias)
        for mask in ([True] * 3, [True, False, False], [False, True, False], [False, False, True]):
            arguments = (x if mask[1] else None, packed if mask[0] else None, output, None, 8, mask)
            opcheck(OPS.linear_backward.default, arguments)

    def test_knows_shapes_without_values(self):
        with FakeTensorMode():
            tensors, targets = head_arguments()
            for name, target in targets.items():
                loss = getattr(OPS, name)(*tensors, target)
                self.assertEqual(loss.shape, ())
                loss.backward()
                self.assertEqual([a.grad.shape for a in tensors], [a.shape for a in tensors])

    def test_compiles_without_a_break_in_the_graph(self):
        for dynamic in (False, True):
            tensors, targets = head_arguments()
            for name, target in targets.items():
                loss = getattr(OPS, name)
                compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=dynamic)
                got, expected = compiled(*tensors, target), loss(*tensors, target)
                torch.testing.assert_close(got, expected, rtol=0, atol=0)
                torch.testing.assert_close(
                    torch.autograd.grad(got, tensors), torch.autograd.grad(expected, tensors), rtol=0, atol=0
                )

    def test_computes_in_single_precision_under_autocast(self):
        tensors, targets = head_arguments(dtype=torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = OPS.linear_cross_entropy(*tensors, targets["linear_cross_entropy"])
            self.assertEqual(OPS.linear_mse(*tensors, targets["linear_mse"]).dtype, torch.float32)
        self.assertEqual(loss.dtype, torch.float32)
        loss.backward()
        self.assertEqual(tensors[1].grad.dtype, torch.bfloat16)


class Tracing(unittest.TestCase):
    def test_passes_all_checks_of_operators(self):
        for requires_grad in (False, True):
            for steps in (0, 1, 3):
                tensors = composed.arguments(steps, requires_grad=requires_grad)
                opcheck(OPS.lltm_forward.default, tensors)
                opcheck(OPS.lltm.default, tensors)
            x, *others = composed.arguments(1, requires_grad=requires_grad)
            opcheck(OPS.lltm_cell.default, (x[0].detach().requires_grad_(requires_grad), *others))

    def test_passes_all_checks_of_the_backward_operator(self):
        for requires_grad in (False, True):
            for dtype in TYPES:
                for keep_every in (0, 2):
                    with self.subTest(dtype=dtype, keep_every=keep_every, requires_grad=requires_grad):
                        arguments = backward_arguments(dtype, requires_grad, keep_every)
                        opcheck(OPS.lltm_backward.default, arguments)

    def test_passes_all_checks_of_operators_in_every_type_and_with_steps_computed_again(self):
        for dtype in TYPES:
            for keep_every in (0, 1, 2):
                with self.subTest(dtype=dtype, keep_every=keep_every):
                    opcheck(OPS.lltm_forward.default, (*forward_arguments(3, dtype, True), keep_every))
                    opcheck(OPS.lltm.default, (*composed.arguments(3, dtype=dtype), keep_every))

    def test_traces_the_types_and_shapes_that_the_kernels_return(self):
        for dtype in TYPES:
            for keep_every in (0, 2, 9):
                tensors = forward_arguments(5, dtype, False)
                real = OPS.lltm_forward(*tensors, keep_every)
                with FakeTensorMode() as mode:
                    fake = OPS.lltm_forward(*(mode.from_tensor(a) for a in tensors), keep_every)
                self.assertEqual([(a.shape, a.dtype) for a in fake], [(a.shape, a.dtype) for a in real])

    def test_knows_shapes_without_values(self):
        with FakeTensorMode():
            for dtype, cell in ((torch.float32, torch.float32), (torch.bfloat16, torch.float32)):
                tensors = composed.arguments(7, 2, 3, 4, dtype)
                hidden, h, c = passel.lltm(*tensors)
                (hidden.sum() + c.sum()).backward()
                self.assertEqual((hidden.shape, h.shape, c.shape), ((7, 2, 4), (2, 4), (2, 4)))
                self.assertEqual((hidden.dtype, h.dtype, c.dtype), (dtype, dtype, cell))
                self.assertEqual(tensors[1].grad.shape, (12, 7))

    def test_knows_shapes_on_devices_that_are_not_here(self):
        with FakeTensorMode(allow_non_fake_inputs=True):
            tensors = [torch.empty(a.shape, device="cuda") for a in composed.arguments(7, 2, 3, 4)]
            self.assertEqual(passel.lltm(*tensors)[0].device.type, "cuda")

    def test_compiles_without_a_break_in_the_graph(self):
        for dynamic in (False, True):
            compiled = torch.compile(passel.lltm, backend="aot_eager", fullgraph=True, dynamic=dynamic)
            for steps, batch in ((3, 2), (5, 4)):
                tensors = composed.arguments(steps, batch)
                got, expected = compiled(*tensors), passel.lltm(*tensors)
                torch.testing.assert_close(got, expected, rtol=0, atol=0)
                torch.testing.assert_close(
                    torch.autograd.grad(sum(out.sum() for out in got), tensors),
                    torch.autograd.grad(sum(out.sum() for out in expected), tensors),
                )

    def test_compiles_in_every_type_and_with_steps_computed_again(self):
        for dtype in TYPES:
            for keep_every in (0, 2):
                run = lambda *a, k=keep_every: passel.lltm(*a, k)  # noqa: E731
                compiled = torch.compile(run, backend="aot_eager", fullgraph=True, dynamic=True)
                tensors = composed.arguments(5, dtype=dtype)
                got, expected = compiled(*tensors), run(*tensors)
                torch.testing.assert_close(got, expected, rtol=0, atol=0)
                torch.testing.assert_close(
                    torch.autograd.grad(sum(out.float().sum() for out in got), tensors),
                    torch.autograd.grad(sum(out.float().sum() for out in expected), tensors),
                    rtol=0, atol=0,
                )  # fmt: skip

    def test_compiles_the_module(self):
        module = passel.LLTM(4, 6, num_layers=2)
        compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
        x = torch.randn(3, 2, 4)
        torch.testing.assert_close(compiled(x), module(x), rtol=0, atol=0)

    def test_casts_under_autocast_all_but_the_cell_state(self):
        for dtype in (torch.bfloat16, torch.float16):
            tensors = composed.arguments(dtype=torch.float32)
            with torch.autocast("cpu", dtype=dtype):
                hidden, h, c = passel.lltm(*tensors)
            self.assertEqual((hidden.dtype, h.dtype, c.dtype), (dtype, dtype, torch.float32))
            halves = [a.to(dtype) for a in tensors[:4]]
            torch.testing.assert_close((hidden, h, c), passel.lltm(*halves, tensors[4]), rtol=0, atol=0)
            (hidden.sum() + c.sum()).backward()
            self.assertEqual(tensors[1].grad.dtype, torch.float32)

    def test_runs_in_inference_mode(self):
        with torch.inference_mode():
            tensors = composed.arguments(requires_grad=False)
            torch.testing.assert_close(passel.lltm(*tensors), composed.lltm(*tensors))

    def test_says_which_shape_type_or_device_does_not_fit(self):
        x, weight, bias, h0, c0 = composed.arguments(2, 3, 4, 5, torch.float32)
        for error, text, arguments in (
            (ValueError, r"weight \[3S, S \+ I\] = \[15, 9\], got \[15, 8\]", (x, weight[:, 1:], bias, h0, c0)),
            (ValueError, r"c0 \[B, S\] = \[3, 5\], got \[2, 5\]", (x, weight, bias, h0, c0[1:])),
            (ValueError, r"x \[T, B, I\] and h0 \[B, S\], got x \[3, 4\]", (x[0], weight, bias, h0, c0)),
            (TypeError, "bias of type Float as x, got Double", (x, weight, bias.double(), h0, c0)),
            (TypeError, "x of type Float, Double, Half or BFloat16, got Long", (x.long(), weight, bias, h0, c0)),
            (ValueError, "h0 on cpu as x, got meta", (x, weight, bias, h0.to("meta"), c0)),
        ):
            with self.assertRaisesRegex(error, text):
                passel.lltm(*arguments)


if __name__ == "__main__":
    unittest.main()
