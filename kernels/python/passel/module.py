"""LLTM as a module: the counterpart of passel::nn::LLTM in C++."""

import operator
import warnings
from typing import Optional

import torch
from torch import Tensor, nn

from passel.functional import lltm, lltm_padded

State = tuple[Tensor, Tensor]


def _size(name: str, value) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"LLTM expected {name} to be an int, got {type(value).__name__}")
    return operator.index(value)


def _expect_pair(state, letters: str) -> None:
    got = type(state).__name__
    if isinstance(state, (tuple, list)):
        if len(state) == 2 and all(isinstance(part, Tensor) for part in state):
            return
        got = [type(part).__name__ for part in state]
    raise TypeError(f"LLTM expected state (h0, c0) of two tensors {letters}, got {got}")


class LLTM(nn.Module):
    """A stack of LLTM layers, with the arguments and results of torch.nn.LSTM.

    Its options are these. There is no bidirectional, bias or proj_size.

    Layer 0 has the parameters weight [3S, S + I] and bias [3S], layer k weight_lK
    [3S, 2S] and bias_lK, as Passel's checkpoints and C++ module name them.

    dropout is applied to each layer's output but the last one's, in training.
    With batch_first x and output are [B, T, ...] instead of [T, B, ...]. Without a batch
    they are [T, ...], and states [L, S].
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
        input_size = _size("input_size", input_size)
        hidden_size = _size("hidden_size", hidden_size)
        num_layers = _size("num_layers", num_layers)
        keep_every = _size("keep_every", keep_every)
        if min(input_size, hidden_size, num_layers) <= 0:
            raise ValueError(
                f"LLTM expected positive sizes, got input_size {input_size}, "
                f"hidden_size {hidden_size} and num_layers {num_layers}"
            )
        if not 0 <= dropout <= 1:
            raise ValueError(f"LLTM expected dropout between 0 and 1, got {dropout}")
        if keep_every < 0:
            raise ValueError(f"LLTM expected keep_every of 0 or more, got {keep_every}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"LLTM applies dropout between layers, so dropout {dropout} does nothing with num_layers 1",
                stacklevel=2,
            )
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

    def _check_x(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            packed = isinstance(x, nn.utils.rnn.PackedSequence)
            hint = ": pass x and lengths, as pad_packed_sequence() returns them" if packed else ""
            raise TypeError(f"LLTM expected x to be a tensor, got {type(x).__name__}{hint}")
        if x.dim() not in (2, 3) or x.shape[-1] != self.input_size:
            axes = "B, T" if self.batch_first else "T, B"
            raise ValueError(
                f"LLTM expected x [{axes}, {self.input_size}], or [T, {self.input_size}] without a batch, "
                f"got {list(x.shape)}"
            )

    def _initial_state(self, sizes: list[int], x: Tensor, state: Optional[State]) -> State:
        if state is None:
            zeros = x.new_zeros(sizes)
            return zeros, zeros
        letters = "[L, B, S]" if len(sizes) == 3 else "[L, S]"
        _expect_pair(state, letters)
        h0, c0 = state
        if list(h0.shape) != sizes or list(c0.shape) != sizes:
            raise ValueError(
                f"LLTM expected state (h0, c0) with {letters} = {sizes} each, "
                f"got {list(h0.shape)} and {list(c0.shape)}"
            )
        return h0, c0

    def forward(
        self, x: Tensor, state: Optional[State] = None, lengths: Optional[Tensor] = None
    ) -> tuple[Tensor, State]:
        """x [T, B, I]; state (h0, c0), [L, B, S] each, zero if None; lengths [B]
        where sequences are padded (see passel.lltm_padded). Returns the output
        [T, B, S] and the state (h_n, c_n) at each sequence's end, [L, B, S] each."""
        self._check_x(x)
        batch_axis = 0 if self.batch_first else 1
        batch = [x.shape[batch_axis]] if x.dim() == 3 else []
        h0, c0 = self._initial_state([self.num_layers, *batch, self.hidden_size], x, state)
        if batch:
            return self._run(x, h0, c0, lengths)
        output, (h, c) = self._run(x.unsqueeze(batch_axis), h0.unsqueeze(1), c0.unsqueeze(1), lengths)
        return output.squeeze(batch_axis), (h.squeeze(1), c.squeeze(1))

    def _run(self, x: Tensor, h0: Tensor, c0: Tensor, lengths: Optional[Tensor]) -> tuple[Tensor, State]:
        output = x.transpose(0, 1) if self.batch_first else x
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
