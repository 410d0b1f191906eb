#!/usr/bin/env python3
"""The operators under torch.func and forward-mode derivatives: transforms_test.py LIBRARY"""

import unittest

import loaded  # noqa: F401
import torch
import torch.autograd.forward_ad as forward_ad
from torch.autograd import gradcheck
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap

import composed
import passel

LENGTHS = torch.tensor([1, 3, 0])


def loss(op, *tensors):
    return sum(out.sin().sum() for out in op(*tensors))


def both(make):
    """What `make` makes of our operator and of the oracle."""
    return make(passel.lltm), make(composed.lltm)


class Transforms(unittest.TestCase):
    def setUp(self):
        self.tensors = composed.arguments(requires_grad=False)

    def agree(self, make):
        torch.testing.assert_close(*both(make))

    def test_differentiate_by_every_argument(self):
        every = tuple(range(5))
        self.agree(lambda op: grad(lambda *a: loss(op, *a), every)(*self.tensors))
        self.agree(lambda op: grad(lambda *a: grad(lambda *b: loss(op, *b))(*a).square().sum(), every)(*self.tensors))

    def test_give_jacobians_and_hessians(self):
        x, weight, bias, h0, c0 = composed.arguments(2, 2, 2, 2, requires_grad=False)
        for transform in (jacrev, jacfwd, hessian):
            self.agree(lambda op, t=transform: t(lambda b: op(x, weight, b, h0, c0)[0].sum(1))(bias))

    def test_differentiate_forward(self):
        tangents = tuple(torch.randn_like(a) for a in self.tensors)
        self.agree(lambda op: jvp(op, self.tensors, tangents))

        def dual_tangents(op):
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(a, t) for a, t in zip(self.tensors, tangents, strict=True)]
                return [forward_ad.unpack_dual(out).tangent for out in op(*duals)]

        self.agree(dual_tangents)
        self.assertTrue(gradcheck(passel.lltm, composed.arguments(2, 2, 2, 2), check_forward_ad=True))

    def test_give_the_gradients_of_each_row(self):
        _, weight, bias, _, _ = self.tensors

        def of_a_row(op):
            def row_loss(w, x, h, c):
                return loss(op, x.unsqueeze(1), w, bias, h.unsqueeze(0), c.unsqueeze(0))

            return vmap(grad(row_loss), in_dims=(None, 1, 0, 0))(weight, self.tensors[0], *self.tensors[3:])

        self.agree(of_a_row)

    def test_map_over_every_argument(self):
        for mapped in range(5):
            in_dims = tuple(0 if k == mapped else None for k in range(5))
            tensors = [torch.stack((a, 2 * a)) if k == mapped else a for k, a in enumerate(self.tensors)]
            got = vmap(passel.lltm, in_dims)(*tensors)
            for k in range(2):
                alone = [a[k] if j == mapped else a for j, a in enumerate(tensors)]
                torch.testing.assert_close([out[k] for out in got], [*passel.lltm(*alone)])

    def test_work_in_every_type_and_under_autocast(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            tensors = [a.to(dtype) for a in self.tensors]
            got = grad(lambda w: passel.lltm(tensors[0], w, *tensors[2:])[0].float().sum())(tensors[1])  # noqa: B023
            weight = tensors[1].clone().requires_grad_()
            passel.lltm(tensors[0], weight, *tensors[2:])[0].float().sum().backward()
            place = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
            self.assertLess((got - weight.grad).float().norm(), place * weight.grad.float().norm())
        singles = [a.float() for a in self.tensors]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = grad(lambda w: passel.lltm(singles[0], w, *singles[2:])[0].float().sum())(singles[1])
        self.assertEqual(got.dtype, torch.float32)

    def test_take_one_step_and_padded_sequences(self):
        x, weight, bias, h0, c0 = self.tensors
        for op, first, others in (
            (passel.lltm_cell, x[0], (bias, h0, c0)),
            (passel.lltm_padded, x, (bias, h0, c0, LENGTHS)),
        ):
            got = grad(lambda w, x, *others: loss(op, x, w, *others))(weight, first, *others)  # noqa: B023
            leaf = weight.clone().requires_grad_()
            loss(op, first, leaf, *others).backward()
            torch.testing.assert_close(got, leaf.grad)

    def test_say_what_they_cannot_map_over(self):
        def padded(lengths, weight):
            return passel.lltm_padded(self.tensors[0], weight, *self.tensors[2:], lengths)[0].sum()

        with self.assertRaisesRegex(RuntimeError, "vmap"):
            vmap(grad(padded, 1), (0, None))(torch.stack((LENGTHS, LENGTHS)), self.tensors[1])

    def test_take_the_module(self):
        modules, x = [passel.LLTM(4, 6, num_layers=2) for _ in range(2)], torch.randn(3, 2, 4)
        parameters, buffers = stack_module_state(modules)

        def value(parameters):
            return functional_call(modules[0], (parameters, buffers), (x,))[0].square().sum()

        got = vmap(grad(value))(parameters)
        for k, module in enumerate(modules):
            module(x)[0].square().sum().backward()
            for name, parameter in module.named_parameters():
                torch.testing.assert_close(got[name][k], parameter.grad)


if __name__ == "__main__":
    unittest.main()
