#!/usr/bin/env python3
"""passel.LLTM: module_test.py LIBRARY"""

import copy
import unittest

import loaded  # noqa: F401
import torch

import passel
from passel._library import check_version


class Module(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(9)

    def test_has_the_shapes_of_an_lstm(self):
        for batch_first in (False, True):
            options = {"num_layers": 2, "batch_first": batch_first}
            ours, lstm = passel.LLTM(4, 6, **options), torch.nn.LSTM(4, 6, **options)
            x = torch.randn(5, 3, 4)
            output, (h, c) = ours(x)
            expected, (h_lstm, c_lstm) = lstm(x)
            self.assertEqual((output.shape, h.shape, c.shape), (expected.shape, h_lstm.shape, c_lstm.shape))
            output, state = ours(x, (h, c))
            self.assertEqual(output.shape, expected.shape)

    def test_takes_one_sequence_without_a_batch_as_an_lstm_does(self):
        for batch_first in (False, True):
            module = passel.LLTM(4, 6, num_layers=2, batch_first=batch_first)
            x, state = torch.randn(5, 4), (torch.randn(2, 6), torch.randn(2, 6))
            axis = 0 if batch_first else 1
            for lengths in (None, torch.tensor([3])):
                output, ends = module(x, state, lengths)
                one = module(x.unsqueeze(axis), tuple(s.unsqueeze(1) for s in state), lengths)
                torch.testing.assert_close(output, one[0].squeeze(axis), rtol=0, atol=0)
                torch.testing.assert_close(ends, tuple(s.squeeze(1) for s in one[1]), rtol=0, atol=0)
            self.assertEqual(module(x)[0].shape, (5, 6))

    def test_is_a_chain_of_layers(self):
        module = passel.LLTM(4, 6, num_layers=2)
        x, h0, c0 = torch.randn(5, 3, 4), torch.randn(2, 3, 6), torch.randn(2, 3, 6)
        output, (h, c) = module(x, (h0, c0))
        first, h_first, c_first = passel.lltm(x, module.weight, module.bias, h0[0], c0[0])
        second, h_second, c_second = passel.lltm(first, module.weight_l1, module.bias_l1, h0[1], c0[1])
        torch.testing.assert_close(output, second, rtol=0, atol=0)
        torch.testing.assert_close(h, torch.stack((h_first, h_second)), rtol=0, atol=0)
        torch.testing.assert_close(c, torch.stack((c_first, c_second)), rtol=0, atol=0)

    def test_ends_padded_sequences_where_they_end(self):
        module = passel.LLTM(4, 6, num_layers=2, batch_first=True)
        x = torch.randn(3, 5, 4)
        output, (h, c) = module(x, lengths=torch.tensor([2, 5, 0]))
        alone, (h_alone, c_alone) = module(x[:1, :2])
        torch.testing.assert_close(output[:1, :2], alone, rtol=0, atol=0)
        torch.testing.assert_close((h[:, :1], c[:, :1]), (h_alone, c_alone), rtol=0, atol=0)
        self.assertEqual(output[0, 2:].abs().max(), 0)
        self.assertEqual(c[:, 2].abs().max(), 0)

    def test_drops_out_between_layers_with_torchs_generator(self):
        module, x = passel.LLTM(4, 6, num_layers=2, dropout=0.5), torch.randn(5, 3, 4)
        torch.manual_seed(1)
        first = module(x)[0]
        self.assertFalse(torch.equal(first, module(x)[0]))
        torch.manual_seed(1)
        torch.testing.assert_close(first, module(x)[0], rtol=0, atol=0)
        module.eval()
        torch.testing.assert_close(module(x)[0], module(x)[0], rtol=0, atol=0)

    def test_learns_the_same_where_steps_are_computed_again(self):
        x, gradients = torch.randn(7, 3, 4), []
        for keep_every in (0, 3):
            torch.manual_seed(2)
            module = passel.LLTM(4, 6, num_layers=2, keep_every=keep_every)
            module(x)[0].square().sum().backward()
            module(x, lengths=torch.tensor([2, 7, 0]))[0].sum().backward()
            gradients.append([parameter.grad for parameter in module.parameters()])
        torch.testing.assert_close(*gradients, rtol=0, atol=0)
        self.assertEqual(repr(module), "LLTM(4, 6, num_layers=2, keep_every=3)")

    def test_can_be_copied_saved_and_converted(self):
        module, x = passel.LLTM(4, 6, num_layers=2), torch.randn(5, 3, 4)
        other = passel.LLTM(4, 6, num_layers=2)
        other.load_state_dict(module.state_dict())
        for twin in (other, copy.deepcopy(module)):
            torch.testing.assert_close(twin(x)[0], module(x)[0], rtol=0, atol=0)
        self.assertEqual(module.bfloat16()(x.bfloat16())[0].dtype, torch.bfloat16)

    def test_learns(self):
        """To say at the end what the first step said."""
        module, head = passel.LLTM(1, 16), torch.nn.Linear(16, 1)
        optimizer = torch.optim.Adam([*module.parameters(), *head.parameters()], lr=0.02)
        for _ in range(150):
            x = torch.rand(6, 32, 1)
            loss = (head(module(x)[1][0][0]) - x[0]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.assertLess(loss.item(), 0.02)  # 1/12 for who knows the mean alone

    def test_warns_of_dropout_that_has_no_place(self):
        with self.assertWarnsRegex(UserWarning, "dropout 0.5 does nothing with num_layers 1"):
            passel.LLTM(4, 6, dropout=0.5)

    def test_says_what_it_is(self):
        self.assertEqual(repr(passel.LLTM(4, 6, num_layers=2)), "LLTM(4, 6, num_layers=2)")

    def test_refuses_what_does_not_fit(self):
        for arguments in ((0, 6), (4, 6, 0), (4, 6, 1, 1.5), (4, 6, 1, 0.0, False, -1)):
            with self.assertRaises(ValueError):
                passel.LLTM(*arguments)
        for arguments in ((4.0, 6), (4, "6"), (True, 6), (4, 6, 1.0), (4, 6, 1, 0.0, False, 1.5)):
            with self.assertRaisesRegex(TypeError, "to be an int, got"):
                passel.LLTM(*arguments)
        module, x = passel.LLTM(4, 6), torch.zeros(3, 2, 4)
        for wrong in (torch.zeros(3, 2, 5), torch.zeros(4), torch.zeros(1, 3, 2, 4)):
            with self.assertRaisesRegex(ValueError, r"x \[T, B, 4\], or \[T, 4\] without a batch, got \["):
                module(wrong)
        with self.assertRaisesRegex(ValueError, r"\[L, B, S\] = \[1, 2, 6\] each, got \[2, 6\]"):
            module(x, (torch.zeros(2, 6), torch.zeros(2, 6)))
        with self.assertRaisesRegex(ValueError, r"\[L, S\] = \[1, 6\] each, got \[1, 1, 6\]"):
            module(x[:, 0], (torch.zeros(1, 1, 6), torch.zeros(1, 1, 6)))
        for wrong in (torch.zeros(2, 1, 2, 6), (torch.zeros(1, 2, 6),), (torch.zeros(1, 2, 6), None)):
            with self.assertRaisesRegex(TypeError, r"state \(h0, c0\) of two tensors \[L, B, S\], got"):
                module(x, wrong)
        with self.assertRaisesRegex(TypeError, "tensor, got PackedSequence: pass x and lengths"):
            module(torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2])))
        with self.assertRaisesRegex(ValueError, "lengths between 0 and T = 3, got 1 to 4"):
            module(torch.zeros(3, 2, 4), lengths=torch.tensor([4, 1]))

    def test_refuses_a_library_that_was_built_for_another_torch(self):
        check_version("2.11.1", "2.11.0+cu130")
        with self.assertRaisesRegex(ImportError, "built for torch 2.10.0, but this is torch 2.11.0"):
            check_version("2.10.0", "2.11.0")


if __name__ == "__main__":
    unittest.main()
