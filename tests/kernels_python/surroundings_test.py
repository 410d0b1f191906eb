#!/usr/bin/env python3
"""passel.LLTM in what PyTorch does with modules: surroundings_test.py LIBRARY"""

import copy
import io
import os
import pickle
import select
import signal
import threading
import unittest
import warnings

import loaded  # noqa: F401
import torch
from torch.nn.utils import parametrizations, prune
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

import passel

LENGTHS = torch.tensor([1, 3])


def exit_of(pid: int) -> int:
    """The exit code of a child, which has a minute."""
    ended = os.pidfd_open(pid)
    try:
        in_time = select.select([ended], [], [], 60)[0]
    finally:
        os.close(ended)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if not in_time:
        raise AssertionError("the child process hangs")
    return os.waitstatus_to_exitcode(status)


class Surroundings(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.module, self.x = passel.LLTM(4, 6, num_layers=2), torch.randn(3, 2, 4)

    def same(self, got, expected):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)

    def gradients(self, run):
        self.module.zero_grad()
        run().sum().backward()
        return [parameter.grad for parameter in self.module.parameters()]

    def test_copies_and_pickles_compute_the_same(self):
        file = io.BytesIO()
        torch.save(self.module, file)
        file.seek(0)
        self.module(self.x)[0].sum().backward()
        for twin in (
            copy.deepcopy(self.module),
            pickle.loads(pickle.dumps(self.module)),
            torch.load(file, weights_only=False),
            AveragedModel(self.module),
        ):
            self.same(twin(self.x), self.module(self.x))

    def test_a_trace_serves_other_shapes(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, and it warns of checks of shapes
            traced = torch.jit.trace(self.module, self.x)
        other = torch.randn(5, 7, 4)
        self.same(traced(other), self.module(other))

    def test_an_exported_program_serves_other_shapes(self):
        dims = {"x": {0: torch.export.Dim("T", min=2, max=99), 1: torch.export.Dim("B", min=2, max=99)}}
        program = torch.export.export(self.module, (self.x,), dynamic_shapes=dims)
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        other = torch.randn(5, 7, 4)
        self.same(torch.export.load(file).module()(other), self.module(other))

    def test_padded_sequences_are_not_exported(self):
        with self.assertRaisesRegex(Exception, "lltm_padded cannot be traced or exported: .* values in lengths"):
            torch.export.export(self.module, (self.x,), {"lengths": LENGTHS})

    def test_torch_compile_leaves_padded_sequences_out_of_its_graphs(self):
        def doubled(x, lengths):
            return self.module(x * 2, lengths=lengths)[0] * 2

        compiled = torch.compile(doubled, backend="aot_eager")
        for lengths in (LENGTHS, LENGTHS.flip(0)):
            self.same(compiled(self.x, lengths), doubled(self.x, lengths))
        self.same(self.gradients(lambda: compiled(self.x, LENGTHS)), self.gradients(lambda: doubled(self.x, LENGTHS)))

    def test_recomputed_activations_give_the_same_gradients(self):
        x = self.x.requires_grad_()
        expected = self.gradients(lambda: self.module(x)[0])
        for reentrant in (False, True):
            got = self.gradients(lambda: checkpoint(lambda a: self.module(a)[0], x, use_reentrant=reentrant))  # noqa: B023
            self.same(got, expected)

    def test_saved_tensors_may_be_kept_elsewhere(self):
        expected = self.gradients(lambda: self.module(self.x)[0])
        with torch.autograd.graph.save_on_cpu():
            self.same(self.gradients(lambda: self.module(self.x)[0]), expected)

    def test_parametrized_and_pruned_weights_learn(self):
        for change in (
            lambda m: parametrizations.weight_norm(m, "weight"),
            lambda m: parametrizations.spectral_norm(m, "weight_l1"),
            lambda m: parametrizations.orthogonal(m, "weight_l1"),
            lambda m: prune.l1_unstructured(m, "weight", 0.5),
        ):
            module = passel.LLTM(4, 6, num_layers=2)
            change(module)
            for _ in range(2):
                module(self.x)[0].sum().backward()
            self.assertEqual([name for name, p in module.named_parameters() if p.grad is None], [])

    def test_layers_may_share_weights(self):
        module = passel.LLTM(6, 6, num_layers=2)
        module.weight_l1, module.bias_l1 = module.weight, module.bias
        x = torch.randn(3, 2, 6)
        module(x)[0].sum().backward()
        first, second = (p.detach().clone().requires_grad_() for _ in range(2) for p in [module.weight])
        zero = torch.zeros(2, 6)
        hidden = passel.lltm(x, first, module.bias, zero, zero)[0]
        passel.lltm(hidden, second, module.bias, zero, zero)[0].sum().backward()
        torch.testing.assert_close(module.weight.grad, first.grad + second.grad)

    def test_hooks_are_called(self):
        called = []
        self.module.register_forward_hook(lambda *_: called.append("forward"))
        self.module.register_full_backward_hook(lambda *_: called.append("backward"))
        self.module.weight.register_hook(lambda _: called.append("weight"))
        self.module(self.x.requires_grad_())[0].sum().backward()
        self.assertEqual(sorted(called), ["backward", "forward", "weight"])

    def test_threads_share_a_module(self):
        expected, wrong = self.module(self.x)[0], []

        def run():
            for _ in range(50):
                output = self.module(self.x)[0]
                torch.autograd.grad(output.sum(), [*self.module.parameters()])
                if not torch.equal(output, expected):
                    wrong.append(output)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_forked_process_computes_with_one_thread(self):
        """With more it would hang, as in all of torch's operators that had threads before."""
        module, x = passel.LLTM(32, 64), torch.randn(28, 64, 32)
        torch.set_num_threads(2)
        module(x)[0].sum().backward()
        pid = os.fork()
        if pid == 0:
            torch.set_num_threads(1)
            module(x)[0].sum().backward()
            os._exit(17)
        self.assertEqual(exit_of(pid), 17)

    def test_other_defaults_of_torch_change_no_type(self):
        tensors = [self.x, self.module.weight, self.module.bias, torch.zeros(2, 6), torch.zeros(2, 6)]
        torch.set_default_dtype(torch.float64)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        for results in (passel.lltm(*tensors), passel.lltm_padded(*tensors, LENGTHS), self.module(self.x)[1]):
            self.assertEqual({out.dtype for out in results}, {torch.float32})
        self.assertEqual(passel.LLTM(4, 6).weight.dtype, torch.float64)

    def test_what_was_computed_in_inference_mode_is_told_apart(self):
        with torch.inference_mode():
            expected = self.module(self.x)
            x = self.x.clone()
        self.same(self.module(self.x), expected)
        with self.assertRaisesRegex(RuntimeError, "Inference tensors cannot be saved for backward"):
            self.module(x)


if __name__ == "__main__":
    unittest.main()
