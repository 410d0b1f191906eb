#!/usr/bin/env python3
"""What does not fit is one sentence, what is unusual works: misuse_test.py LIBRARY"""

import sys
import unittest

import loaded  # noqa: F401
import torch

import composed
import passel

LENGTHS = torch.tensor([1, 3, 0])
NAMES = ("x", "weight", "bias", "h0", "c0")


class Misuse(unittest.TestCase):
    def setUp(self):
        self.tensors = composed.arguments(dtype=torch.float32, requires_grad=False)

    def with_argument(self, place, value):
        return [value if k == place else a for k, a in enumerate(self.tensors)]

    def test_of_none_names_the_argument(self):
        for place, name in enumerate(NAMES):
            for call in (passel.lltm, lambda *a: passel.lltm_padded(*a, LENGTHS)):
                with self.assertRaisesRegex(TypeError, f"expected {name} to be a tensor, got none"):
                    call(*self.with_argument(place, None))
        with self.assertRaisesRegex(TypeError, "expected lengths to be a tensor, got none"):
            passel.lltm_padded(*self.tensors, None)
        x, *others = self.tensors
        with self.assertRaisesRegex(TypeError, "expected input to be a tensor, got none"):
            passel.lltm_cell(None, *others)
        with self.assertRaisesRegex(TypeError, "expected bias to be a tensor, got none"):
            passel.lltm_cell(x[0], others[0], None, *others[2:])

    def test_of_tensors_that_are_not_dense_names_the_argument(self):
        for place, name in enumerate(NAMES):
            for made in (torch.Tensor.to_sparse, torch.Tensor.to_mkldnn):
                with self.assertRaisesRegex(TypeError, f"expected {name} to be a dense tensor, got one of layout"):
                    passel.lltm(*self.with_argument(place, made(self.tensors[place])))
        rows = [torch.randn(2, 4), torch.randn(3, 4)]
        for layout in (torch.strided, torch.jagged):
            nested = torch.nested.nested_tensor(rows, layout=layout)
            with self.assertRaisesRegex(TypeError, "expected x to be a dense tensor"):
                passel.lltm(nested, *self.tensors[1:])

    def test_of_types_without_kernels_names_the_argument(self):
        x, *others = self.tensors
        for wrong in (x.long(), x.bool(), x.to(torch.complex64), torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)):
            with self.assertRaisesRegex(TypeError, "expected x of type Float, Double, Half or BFloat16, got"):
                passel.lltm(wrong, *others)

    def test_of_states_of_padded_sequences_names_the_shape(self):
        for place, name in ((3, "h0"), (4, "c0")):
            state = self.tensors[place]
            for wrong in (torch.cat((state, state)), state[:2], state[:, :4]):
                expected = rf"expected {name} \[B, S\] = .*, got \[{wrong.shape[0]}, {wrong.shape[1]}\]"
                if name == "h0" and wrong.shape[1] == 4:
                    expected = r"expected c0 \[B, S\] = \[3, 4\], got \[3, 5\]"
                with self.assertRaisesRegex(ValueError, expected):
                    passel.lltm_padded(*self.with_argument(place, wrong), LENGTHS)

    def test_of_lengths_says_what_they_should_be(self):
        for error, text, lengths in (
            (ValueError, r"lengths \[B\] = \[3\], got \[\]", torch.tensor(3)),
            (ValueError, r"lengths \[B\] = \[3\], got \[2\]", LENGTHS[:2]),
            (ValueError, r"lengths \[B\] = \[3\], got \[3, 1\]", LENGTHS[:, None]),
            (ValueError, "between 0 and T = 3, got -1 to 3", torch.tensor([-1, 3, 0])),
            (ValueError, "between 0 and T = 3, got 0 to 4", torch.tensor([1, 4, 0])),
            (ValueError, "on a device that holds values, got meta", LENGTHS.to("meta")),
            (TypeError, "integer type, got Float", LENGTHS.float()),
            (TypeError, "integer type, got Bool", LENGTHS.bool()),
        ):
            with self.assertRaisesRegex(error, text):
                passel.lltm_padded(*self.tensors, lengths)


class Unusual(unittest.TestCase):
    def setUp(self):
        self.tensors = composed.arguments(dtype=torch.float32, requires_grad=False)

    def equal(self, got, expected):
        torch.testing.assert_close([*got], [*expected], rtol=0, atol=0)

    def test_lengths_are_taken_in_every_integer_type(self):
        expected = passel.lltm_padded(*self.tensors, LENGTHS)
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint64):
            self.equal(passel.lltm_padded(*self.tensors, LENGTHS.to(dtype)), expected)

    def test_lengths_of_zero_leave_the_states_as_they_are(self):
        _, _, _, h0, c0 = self.tensors
        hidden, h, c = passel.lltm_padded(*self.tensors, torch.zeros(3, dtype=torch.long))
        self.equal((hidden, h, c), (torch.zeros(3, 3, 5), h0, c0))

    def test_nothing_beyond_an_end_is_looked_at(self):
        x, *others = (a.clone().requires_grad_() for a in self.tensors)
        spoiled = x.detach().clone()
        for row, length in enumerate(LENGTHS):
            spoiled[length:, row] = float("nan")
        spoiled.requires_grad_()
        results = [passel.lltm_padded(a, *others, LENGTHS) for a in (spoiled, x)]
        self.equal(*results)
        grads = [
            torch.autograd.grad(sum(out.sum() for out in result), (a, *others))
            for result, a in zip(results, (spoiled, x), strict=True)
        ]
        self.equal(*grads)

    def test_steps_kept_may_be_more_than_there_are(self):
        tensors = [a.clone().requires_grad_() for a in self.tensors]
        expected = torch.autograd.grad(passel.lltm(*tensors)[0].sum(), tensors)
        for keep_every in (3, 4, 2**31, 2**62, sys.maxsize):
            got = torch.autograd.grad(passel.lltm(*tensors, keep_every)[0].sum(), tensors)
            torch.testing.assert_close(got, expected)
            meta = passel.lltm(*(a.to("meta") for a in tensors), keep_every)
            self.assertEqual(meta[0].shape, (3, 3, 5))

    def test_views_of_all_kinds_are_read_right(self):
        x, weight, bias, h0, c0 = self.tensors

        def off_by_one(tensor):
            return torch.cat((torch.zeros(1), tensor.flatten()))[1:].view(tensor.shape)

        self.equal(passel.lltm(*map(off_by_one, self.tensors)), passel.lltm(*self.tensors))
        overlapping = torch.randn(72).as_strided((3, 3, 4), (4, 1, 1))
        negative = torch.complex(x, x).conj().imag
        self.assertTrue(negative.is_neg())
        for view in (overlapping, negative, torch._efficientzerotensor(x.shape)):
            plain = torch.zeros(x.shape) + view
            self.equal(passel.lltm(view, weight, bias, h0, c0), passel.lltm(plain, weight, bias, h0, c0))

    def test_values_that_are_not_finite_reach_whom_they_reach_in_torchs_operators(self):
        for value in (float("nan"), float("inf"), -float("inf"), 3e38, 1e-45):
            tensors = [a.clone() for a in self.tensors]
            tensors[0][1, 1, 2] = value
            tensors = [a.requires_grad_() for a in tensors]
            results = passel.lltm(*tensors), composed.lltm(*tensors)
            torch.testing.assert_close(*results, equal_nan=True, rtol=1e-4, atol=1e-5)
            grads = [torch.autograd.grad(hidden.sum(), tensors[1:]) for hidden, _, _ in results]
            torch.testing.assert_close(*grads, equal_nan=True, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
