"""The LLTM recurrent network for PyTorch, on Passel's kernels.

    import passel

    lstm_like = passel.LLTM(input_size=28, hidden_size=128)
    output, (h_n, c_n) = lstm_like(x)             # x [T, B, 28]
    hidden, h_last, c_last = passel.lltm(x, weight, bias, h0, c0)
    new_h, new_cell = passel.lltm_cell(input, weights, bias, old_h, old_cell)

The same operators are in torch.ops.passel.
"""

from passel._library import load as _load

_load()

from passel.functional import lltm, lltm_cell, lltm_padded  # noqa: E402
from passel.module import LLTM  # noqa: E402

__all__ = ["LLTM", "lltm", "lltm_cell", "lltm_padded"]
