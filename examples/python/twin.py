#!/usr/bin/env python3
"""The Python twin of Passel's image classifier: loads its files, gives its answers.

    passel export runs/first -o lltm.pt
    python examples/python/twin.py lltm.pt
    python examples/python/twin.py --safetensors runs/first/checkpoints/NAME.safetensors

Reads an image row by row: x [T, B, I] holds T rows of I pixels. Prints
test_accuracy, the fraction of the test set that is classified right.
"""

import argparse
import gzip
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


class Lltm(nn.Module):
    """weight [3S, S + I] with h's columns first; rows: input, output, candidate gate."""

    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        bound = hidden**-0.5
        self.weight = nn.Parameter(torch.empty(3 * hidden, hidden + inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(3 * hidden).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [T, B, I] -> h_T [B, S], from h_0 = c_0 = 0."""
        h = c = x.new_zeros(x.shape[1], self.bias.numel() // 3)
        for x_t in x:
            gates = F.linear(torch.cat((h, x_t), dim=1), self.weight, self.bias)
            i, o, g = gates.chunk(3, dim=1)
            c = c + F.elu(g) * torch.sigmoid(i)
            h = torch.tanh(c) * torch.sigmoid(o)
        return h


class Classifier(nn.Module):
    def __init__(self, inputs: int, hidden: int, classes: int):
        super().__init__()
        self.lltm = Lltm(inputs, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [T, B, I] -> logits [B, classes]."""
        return self.head(self.lltm(x))


def classifier_from(tensors: dict[str, torch.Tensor]) -> Classifier:
    classes, hidden = tensors["head.weight"].shape
    model = Classifier(tensors["lltm.weight"].shape[1] - hidden, hidden, classes)
    model.load_state_dict(tensors, strict=True)
    return model


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """The parameters only; a checkpoint holds the optimiser's state too."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith(("lltm.", "head."))]
        return {name: file.get_tensor(name) for name in names}


def read_images(path: Path) -> torch.Tensor:
    """[N, rows, columns], normalised as in training."""
    data = gzip.decompress(path.read_bytes())
    n, rows, columns = (int.from_bytes(data[at : at + 4], "big") for at in (4, 8, 12))
    pixels = torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=16)
    return (pixels.reshape(n, rows, columns) / 255 - 0.2860) / 0.3530


def read_labels(path: Path) -> torch.Tensor:
    data = gzip.decompress(path.read_bytes())
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=8).long()


@torch.no_grad()
def accuracy(model: Classifier, images: torch.Tensor, labels: torch.Tensor) -> float:
    right = 0
    for x, y in zip(images.split(1000), labels.split(1000)):
        right += (model(x.transpose(0, 1)).argmax(dim=1) == y).sum().item()
    return right / len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="file written by passel export")
    parser.add_argument("--safetensors", action="store_true", help="the file is a checkpoint")
    parser.add_argument("--data", type=Path, default=FASHION_MNIST, metavar="DIR",
                        help="folder of t10k-*-ubyte.gz (default: %(default)s)")  # fmt: skip
    args = parser.parse_args()

    if args.safetensors:
        tensors = read_safetensors(args.model)
    else:
        tensors = torch.load(args.model, weights_only=True)
    images = read_images(args.data / "t10k-images-idx3-ubyte.gz")
    labels = read_labels(args.data / "t10k-labels-idx1-ubyte.gz")
    print(f"test_accuracy {accuracy(classifier_from(tensors), images, labels):.4f}")


if __name__ == "__main__":
    main()
