"""The LLTM in torch's operators: the oracle. And random arguments for both."""

import torch
from torch.nn import functional as F


def lltm(x, weight, bias, h0, c0):
    h, c, hidden = h0, c0, []
    for x_t in x:
        i, o, g = F.linear(torch.cat((h, x_t), 1), weight, bias).chunk(3, 1)
        c = c + F.elu(g) * torch.sigmoid(i)
        h = torch.tanh(c) * torch.sigmoid(o)
        hidden.append(h)
    return torch.stack(hidden), h, c


def arguments(steps=3, batch=3, inputs=4, state=5, dtype=torch.float64, requires_grad=True):
    torch.manual_seed(5)
    bound = max(state, 1) ** -0.5
    tensors = (
        torch.randn(steps, batch, inputs, dtype=dtype),
        torch.empty(3 * state, state + inputs, dtype=dtype).uniform_(-bound, bound),
        torch.empty(3 * state, dtype=dtype).uniform_(-bound, bound),
        torch.randn(batch, state, dtype=dtype),
        torch.randn(batch, state, dtype=dtype),
    )
    return tuple(tensor.requires_grad_(requires_grad) for tensor in tensors)
