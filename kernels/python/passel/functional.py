"""The operators as functions. T steps, B batch, I input, S state.

x, weight, bias and h0 have one type: float32, float64, float16 or bfloat16. With
the last two sums, gates and the cell state are float32, and hidden states are
rounded to x's type after each step, on every device; c0 may be of either type.
Autocast casts all but the cell state. Differentiable to any order, in forward mode
and by torch.func, too; derivatives of the second order and above, those in forward
mode and all transforms of torch.func run in torch's operators, many times slower.
Shapes, types and devices that do not fit raise ValueError or TypeError.

keep_every trades time for memory: 0 keeps the gates and cell states of all steps
for backward; k > 0 keeps the cell state after every k-th step alone, and backward
computes the rest again, which costs about a third of a training step's time more.
On the CPU about sqrt(T) takes the least memory, and no bit depends on it.
"""

import torch
from torch import Tensor


def lltm(
    x: Tensor, weight: Tensor, bias: Tensor, h0: Tensor, c0: Tensor, keep_every: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Runs an LLTM over a whole sequence.

    x [T, B, I], weight [3S, S + I] (h's columns first; rows: input, output,
    candidate gate), bias [3S], h0 and c0 [B, S]. Returns the hidden states
    [T, B, S], the last hidden and the last cell state [B, S].

        i, o, z = ([h, x] @ weight.T + bias).chunk(3)
        c = c + elu(z) * sigmoid(i)
        h = tanh(c) * sigmoid(o)
    """
    return torch.ops.passel.lltm(x, weight, bias, h0, c0, keep_every)


def lltm_padded(
    x: Tensor, weight: Tensor, bias: Tensor, h0: Tensor, c0: Tensor, lengths: Tensor, keep_every: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """lltm() for sequences of different lengths, padded to T steps.

    lengths [B], of an integer type, each from 0 to T. Hidden states after the end
    of a sequence are zero; the last states are those at its end. Which work is
    done depends on the values in lengths, so torch.compile runs it between two
    graphs; fullgraph=True, torch.export and torch.vmap over lengths that are
    differentiated through refuse it.
    """
    return torch.ops.passel.lltm_padded(x, weight, bias, h0, c0, lengths, keep_every)


def lltm_cell(
    input: Tensor, weights: Tensor, bias: Tensor, old_h: Tensor, old_cell: Tensor
) -> tuple[Tensor, Tensor]:
    """One step, with the arguments and results of PyTorch's C++ extension tutorial.

    input [B, I], weights [3S, S + I], bias [3S] or [1, 3S], old_h and old_cell
    [B, S]. Returns new_h and new_cell [B, S]. A sequence is faster in lltm().
    """
    return torch.ops.passel.lltm_cell(input, weights, bias, old_h, old_cell)
