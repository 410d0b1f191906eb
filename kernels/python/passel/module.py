"""LLTM as a module: the counterpart of passel::nn::LLTM in C++."""

from typing import Optional

import torch
from torch import Tensor, nn

from passel.functional import lltm, lltm_padded

State = tuple[Tensor, Tensor]


class LLTM(nn.Module):
    """A stack of LLTM layers, with the options, arguments and results of torch.nn.LSTM.

    Layer 0 has the parameters weight [3S, S + I] and bias [3S], layer k weight_lK
    [3S, 2S] and bias_lK, as Passel's checkpoints and C++ module name them.

    dropout is applied to each layer's output but the last one's, in training.
    With batch_first x and output are [B, T, ...] instead of [T, B, ...].
    With keep_every > 0 training takes less memory and more time: see passel.functional.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        batch_first: bool = False,
        keep_every: int = 0,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if min(input_size, hidden_size, num_layers) <= 0:
            raise ValueError(
                f"LLTM expected positive sizes, got input_size {input_size}, "
                f"hidden_size {hidden_size} and num_layers {num_layers}"
            )
        if not 0 <= dropout <= 1:
            raise ValueError(f"LLTM expected dropout between 0 and 1, got {dropout}")
        if keep_every < 0:
            raise ValueError(f"LLTM expected keep_every of 0 or more, got {keep_every}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.dropout = dropout
        self.batch_first = batch_first
        self.keep_every = keep_every
        for k in range(num_layers):
            columns = hidden_size + (input_size if k == 0 else hidden_size)
            weight = torch.empty(3 * hidden_size, columns, device=device, dtype=dtype)
            bias = torch.empty(3 * hidden_size, device=device, dtype=dtype)
            self.register_parameter(self._name("weight", k), nn.Parameter(weight))
            self.register_parameter(self._name("bias", k), nn.Parameter(bias))
        self.reset_parameters()

    @staticmethod
    def _name(name: str, layer: int) -> str:
        return name if layer == 0 else f"{name}_l{layer}"

    def reset_parameters(self) -> None:
        """Uniform in ±1/√S, drawn in the order in which the C++ module draws."""
        bound = self.hidden_size**-0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (("num_layers", 1), ("dropout", 0.0), ("batch_first", False), ("keep_every", 0)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text

    def _initial_state(self, x: Tensor, state: Optional[State]) -> State:
        expected = (self.num_layers, x.shape[1], self.hidden_size)
        if state is None:
            zeros = x.new_zeros(expected)
            return zeros, zeros
        h0, c0 = state
        if h0.shape != expected or c0.shape != expected:
            raise ValueError(
                f"LLTM expected state (h0, c0) with [L, B, S] = {list(expected)} each, "
                f"got {list(h0.shape)} and {list(c0.shape)}"
            )
        return h0, c0

    def forward(
        self, x: Tensor, state: Optional[State] = None, lengths: Optional[Tensor] = None
    ) -> tuple[Tensor, State]:
        """x [T, B, I]; state (h0, c0), [L, B, S] each, zero if None; lengths [B]
        where sequences are padded (see passel.lltm_padded). Returns the output
        [T, B, S] and the state (h_n, c_n) at each sequence's end, [L, B, S] each."""
        if x.dim() != 3 or x.shape[2] != self.input_size:
            axes = "B, T" if self.batch_first else "T, B"
            raise ValueError(f"LLTM expected x [{axes}, {self.input_size}], got {list(x.shape)}")
        output = x.transpose(0, 1) if self.batch_first else x
        h0, c0 = self._initial_state(output, state)
        ends_h, ends_c = [], []
        for k in range(self.num_layers):
            weight = getattr(self, self._name("weight", k))
            bias = getattr(self, self._name("bias", k))
            if k > 0:
                output = nn.functional.dropout(output, self.dropout, self.training)
            if lengths is None:
                output, h, c = lltm(output, weight, bias, h0[k], c0[k], self.keep_every)
            else:
                output, h, c = lltm_padded(output, weight, bias, h0[k], c0[k], lengths, self.keep_every)
            ends_h.append(h)
            ends_c.append(c)
        if self.batch_first:
            output = output.transpose(0, 1)
        return output, (torch.stack(ends_h), torch.stack(ends_c))
