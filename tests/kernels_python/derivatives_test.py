#!/usr/bin/env python3
"""Derivatives of the operators: derivatives_test.py LIBRARY"""

import unittest

import loaded  # noqa: F401
import torch
from torch.autograd import gradcheck, gradgradcheck

import composed
import passel


class Derivatives(unittest.TestCase):
    def test_agree_with_finite_differences(self):
        for steps in (0, 1, 2, 4):
            self.assertTrue(gradcheck(passel.lltm, composed.arguments(steps, 3, 17, 5)))

    def test_agree_with_finite_differences_where_steps_are_computed_again(self):
        for keep_every in (1, 2, 9):
            self.assertTrue(gradcheck(lambda *a: passel.lltm(*a, keep_every), composed.arguments(4)))
            self.assertTrue(
                gradgradcheck(lambda *a: passel.lltm(*a, keep_every), composed.arguments(3, 2, 3, 4))
            )

    def test_of_half_types_come_in_their_types_and_near_those_of_single_precision(self):
        for dtype, place in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
            halves = [a.detach().to(dtype).requires_grad_() for a in composed.arguments(5, dtype=torch.float32)]
            singles = [a.detach().float().requires_grad_() for a in halves]
            got, expected = (
                torch.autograd.grad(sum(out.float().sum() for out in passel.lltm(*a)), a) for a in (halves, singles)
            )
            for grad, reference in zip(got, expected, strict=True):
                self.assertEqual(grad.dtype, dtype)
                self.assertLess((grad.float() - reference).norm(), 2 * place * reference.norm())

    def test_of_the_second_order_of_half_types_are_near_those_of_single_precision(self):
        def second(dtype):
            tensors = [
                a.detach().bfloat16().to(dtype).requires_grad_()
                for a in composed.arguments(3, 2, 4, 8, torch.float32)
            ]
            (by_x,) = torch.autograd.grad(passel.lltm(*tensors)[0].float().sum(), tensors[0], create_graph=True)
            return torch.autograd.grad(by_x.float().square().sum(), tensors[1])[0]

        got, expected = second(torch.bfloat16), second(torch.float32)
        self.assertEqual(got.dtype, torch.bfloat16)
        self.assertLess((got.float() - expected).norm(), 5e-2 * expected.norm())

    def test_agree_with_finite_differences_for_one_step(self):
        x, *others = composed.arguments(1)
        self.assertTrue(gradcheck(passel.lltm_cell, (x[0].detach().requires_grad_(), *others)))

    def test_agree_with_finite_differences_for_padded_sequences(self):
        lengths = torch.tensor([1, 3, 0])
        self.assertTrue(gradcheck(lambda *a: passel.lltm_padded(*a, lengths), composed.arguments()))

    def test_agree_with_finite_differences_for_each_argument_alone(self):
        for wanted in range(5):
            tensors = composed.arguments(2, requires_grad=False)
            tensors[wanted].requires_grad_()
            self.assertTrue(gradcheck(passel.lltm, tensors))

    def test_of_the_second_order_agree_with_finite_differences(self):
        for steps in (0, 1, 3):
            self.assertTrue(gradgradcheck(passel.lltm, composed.arguments(steps, 2, 3, 4)))

    def test_of_the_third_order_equal_those_of_the_composed_cell(self):
        def third(function):
            x, *others = composed.arguments(2)
            value = sum(out.sin().sum() for out in function(x, *others))
            for _ in range(3):
                (value,) = torch.autograd.grad(value, x, create_graph=True)
                value, grad = (value**2).sum(), value
            return grad

        torch.testing.assert_close(third(passel.lltm), third(composed.lltm))

    def test_are_finite_where_the_candidate_is_huge(self):
        for dtype in (torch.float32, torch.float64):
            for z in (100.0, 1e-8, 0.0, -1e-8, -100.0):
                x, weight, bias, h0, c0 = (
                    torch.zeros_like(a) for a in composed.arguments(1, 1, 1, 1, dtype)
                )
                bias[2] = z
                bias.requires_grad_()
                passel.lltm(x, weight, bias, h0, c0)[2].sum().backward()
                expected = 0.5 if z > 0 else 0.5 * torch.tensor(z).exp().item()
                self.assertAlmostEqual(bias.grad[2].item(), expected, places=6, msg=f"z = {z}")

    def test_of_double_arguments_have_double_precision(self):
        tensors = composed.arguments(4, 3, 7, 9)
        ours, theirs = passel.lltm(*tensors), composed.lltm(*tensors)
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(
            torch.autograd.grad(sum(out.sum() for out in ours), tensors),
            torch.autograd.grad(sum(out.sum() for out in theirs), tensors),
            rtol=1e-12,
            atol=1e-13,
        )

    def test_take_gradients_and_arguments_of_any_strides(self):
        x, weight, bias, h0, c0 = composed.arguments(4, 3, 6, 5)
        strided = (
            x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_(),
            weight.detach().t().contiguous().t().requires_grad_(),
            bias.detach().repeat_interleave(2)[::2].requires_grad_(),
            h0.detach()[:1].expand(3, 5).requires_grad_(),
            c0.detach().requires_grad_(),
        )
        dense = tuple(a.detach().clone(memory_format=torch.contiguous_format).requires_grad_() for a in strided)
        for grad in (torch.ones((), dtype=x.dtype).expand(4, 3, 5), torch.randn(5, 3, 4, dtype=x.dtype).permute(2, 1, 0)):
            got = torch.autograd.grad(passel.lltm(*strided)[0], strided, grad)
            expected = torch.autograd.grad(passel.lltm(*dense)[0], dense, grad.contiguous())
            torch.testing.assert_close(got, expected, rtol=0, atol=0)

    def test_notice_what_was_changed_in_place(self):
        for changed in ("x", "h0", "c0", "hidden"):
            x, weight, bias, h0, c0 = composed.arguments()
            hidden, _, _ = passel.lltm(x, weight, bias, h0, c0)
            loss = hidden.sum()
            with torch.no_grad():
                {"x": x, "h0": h0, "c0": c0, "hidden": hidden}[changed].add_(1)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()

    def test_are_those_of_the_weights_that_forward_read(self):
        tensors = composed.arguments()
        expected = torch.autograd.grad(passel.lltm(*tensors)[0].sum(), tensors)
        loss = passel.lltm(*tensors)[0].sum()
        with torch.no_grad():
            tensors[1].add_(1)
        got = torch.autograd.grad(loss, tensors, retain_graph=True)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        with self.assertRaisesRegex(RuntimeError, "weight .* was changed in place"):
            torch.autograd.grad(loss, tensors, create_graph=True)

    def test_work_for_more_rows_than_a_grid_has_blocks(self):
        x, *others = composed.arguments(1, 70_000, 1, 2, torch.float32)
        (grad,) = torch.autograd.grad(passel.lltm_cell(x[0], *others)[0].sum(), x)
        (expected,) = torch.autograd.grad(composed.lltm(x, *others)[1].sum(), x)
        torch.testing.assert_close(grad, expected)

    def test_are_zero_for_sizes_of_zero(self):
        for sizes in ((0, 2, 3, 4), (3, 0, 3, 4), (3, 2, 0, 4), (3, 2, 3, 0)):
            with self.subTest(sizes=sizes):
                steps, batch, _, state = sizes
                tensors = composed.arguments(*sizes)
                hidden, h, c = passel.lltm(*tensors)
                self.assertEqual(hidden.shape, (steps, batch, state))
                grads = torch.autograd.grad((hidden.sum() + h.sum() + c.sum()), tensors)
                self.assertEqual([g.shape for g in grads], [a.shape for a in tensors])
                if 0 in (steps, batch, state):
                    self.assertEqual(grads[1].abs().sum(), 0)


if __name__ == "__main__":
    unittest.main()
