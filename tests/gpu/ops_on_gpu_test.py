#!/usr/bin/env python3
"""The operators on a GPU, in Python: ops_on_gpu_test.py LIBPASSEL_CUDA LIBPASSEL_OPS

Without a GPU every test says that it was skipped.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kernels_python"))
import composed  # noqa: E402
import loaded  # noqa: E402,F401
import torch  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

import passel  # noqa: E402

torch.ops.load_library(sys.argv.pop())


def arguments(*sizes, dtype=torch.float64, requires_grad=True):
    tensors = composed.arguments(*sizes, requires_grad=False)
    return [t.to("cuda", dtype).requires_grad_(requires_grad) for t in tensors]


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class OnGpu(unittest.TestCase):
    def test_derivatives_agree_with_finite_differences(self):
        for steps in (0, 1, 2, 4):
            self.assertTrue(gradcheck(passel.lltm, arguments(steps, 3, 17, 5)))
        self.assertTrue(gradgradcheck(passel.lltm, arguments(2, 2, 3, 4)))

    def test_steps_that_are_computed_again_have_the_same_derivatives(self):
        for keep_every in (1, 2, 9):
            self.assertTrue(gradcheck(lambda *a, k=keep_every: passel.lltm(*a, k), arguments(4, 3, 17, 5)))
        tensors = arguments(28, 16, 28, 128, dtype=torch.float32)
        for _ in range(3):  # the third is a replay where graphs are on
            kept, again = (
                torch.autograd.grad(passel.lltm(*tensors, keep_every)[0].square().sum(), tensors[:3])
                for keep_every in (0, 5)
            )
            torch.testing.assert_close(kept, again)

    def test_second_derivatives_of_half_types_come_in_their_types(self):
        tensors = arguments(3, 2, 4, 8, dtype=torch.bfloat16)
        hidden, _, _ = passel.lltm(*tensors)
        (by_x,) = torch.autograd.grad(hidden.float().sum(), tensors[0], create_graph=True)
        by_weight = torch.autograd.grad(by_x.float().square().sum(), tensors[1])[0]
        self.assertEqual((by_x.dtype, by_weight.dtype), (torch.bfloat16, torch.bfloat16))
        self.assertTrue(by_weight.isfinite().all())

    def test_opcheck(self):
        for dtype in (torch.float32, torch.bfloat16):
            tensors = arguments(3, 2, 4, 8, dtype=dtype)
            if dtype is torch.bfloat16:
                tensors[4] = tensors[4].detach().float().requires_grad_()
            torch.library.opcheck(torch.ops.passel.lltm_forward.default, tensors)

    def test_autocast_keeps_the_cell_state_in_single_precision(self):
        tensors = arguments(5, 3, 4, 8, dtype=torch.float32)
        with torch.autocast("cuda", torch.bfloat16):
            hidden, _, c_last = passel.lltm(*tensors)
        self.assertEqual((hidden.dtype, c_last.dtype), (torch.bfloat16, torch.float32))
        expected, _, _ = passel.lltm(*tensors)
        torch.testing.assert_close(hidden.float(), expected, rtol=5e-2, atol=5e-2)
        hidden.sum().backward()
        self.assertEqual(tensors[1].grad.dtype, torch.float32)

    def test_compiled_programs_call_the_kernels(self):
        module = passel.LLTM(4, 8).cuda()
        x = torch.randn(5, 3, 4, device="cuda")
        compiled = torch.compile(lambda x: module(x)[0].tanh().sum(), backend="aot_eager")
        torch.testing.assert_close(compiled(x), module(x)[0].tanh().sum())

    def test_may_be_captured_in_a_graph_of_the_users(self):
        module = passel.LLTM(4, 8).cuda().requires_grad_(False)
        x = torch.randn(5, 3, 4, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                module(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = module(x)[0]
        for _ in range(3):
            x.normal_()
            graph.replay()
            torch.testing.assert_close(captured, module(x)[0])

    def test_learns_as_on_the_cpu(self):
        def train(device):
            torch.manual_seed(2)
            module, head = passel.LLTM(1, 16).to(device), torch.nn.Linear(16, 1).to(device)
            optimizer = torch.optim.Adam([*module.parameters(), *head.parameters()], lr=0.02)
            for _ in range(150):
                x = torch.rand(6, 32, 1).to(device)
                loss = (head(module(x)[1][0][0]) - x[0]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss.item()

        self.assertLess(train("cuda"), 0.02)
        self.assertLess(train("cpu"), 0.02)

    def test_memory_does_not_grow(self):
        tensors = arguments(28, 16, 28, 128, dtype=torch.float32)

        def step():
            sum(out.sum() for out in passel.lltm(*tensors)).backward()
            for tensor in tensors:
                tensor.grad = None

        for _ in range(5):
            step()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for _ in range(50):
            step()
        torch.cuda.synchronize()
        self.assertEqual(torch.cuda.memory_allocated(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
