#!/usr/bin/env python3
"""Models cross from `passel` to passel.LLTM and back: checkpoint_test.py PASSEL LIBRARY"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import loaded  # noqa: F401
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import passel

PROGRAM = sys.argv.pop()
HIDDEN = 16


class Regressor(torch.nn.Module):
    """The adding problem's model, with the names that Passel gives its tensors."""

    def __init__(self):
        super().__init__()
        self.lltm = passel.LLTM(2, HIDDEN)
        self.head = torch.nn.Linear(HIDDEN, 1)

    def forward(self, x):
        """x [T, B, 2] -> [B]"""
        _, (h, _) = self.lltm(x)
        return self.head(h[0]).squeeze(1)


def program(*arguments) -> str:
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise AssertionError(f"passel {arguments} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def newest_checkpoint(run: Path) -> Path:
    return max((run / "checkpoints").glob("checkpoint-*.safetensors"))


def read(path: Path):
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


def adding_problem(steps, batch):
    x = torch.rand(steps, batch, 2)
    x[:, :, 1] = 0
    first, second = torch.randint(steps // 2, (batch,)), torch.randint(steps // 2, steps, (batch,))
    for rows in (first, second):
        x[rows, torch.arange(batch), 1] = 1
    return x, (x[:, :, 0] * x[:, :, 1]).sum(0)


class Checkpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        torch.manual_seed(2)
        cls.run_folder = Path(cls.folder.name) / "run"
        program(
            "train", "--dataset", "adding", "--hidden-size", HIDDEN, "--max-tickets", 50,
            "--workers", 1, "--out", cls.run_folder, "--quiet",
        )  # fmt: skip

    def test_of_passel_load_into_the_module(self):
        exported = Path(self.folder.name) / "model.pt"
        program("export", self.run_folder, "-o", exported)
        model = Regressor()
        model.load_state_dict(torch.load(exported, weights_only=True), strict=True)
        tensors, _ = read(newest_checkpoint(self.run_folder))
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.detach(), tensors[name], rtol=0, atol=0)
        x, _ = adding_problem(12, 4)
        self.assertTrue(model(x).isfinite().all())

    def test_trained_on_in_python_are_evaluated_and_resumed_by_passel(self):
        tensors, metadata = read(newest_checkpoint(self.run_folder))
        model = Regressor()
        model.load_state_dict({name: tensors[name] for name in model.state_dict()})
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(20):
            x, target = adding_problem(12, 32)
            optimizer.zero_grad()
            (model(x) - target).square().mean().backward()
            optimizer.step()
        trained = Path(self.folder.name) / "trained.safetensors"
        tensors |= {name: value.detach().clone() for name, value in model.state_dict().items()}
        # The checksums were those of the old values.
        metadata = {k: v for k, v in metadata.items() if not k.startswith("passel.checksum")}
        save_file(tensors, trained, metadata)
        with self.assertRaisesRegex(AssertionError, "ended with 3:\n.* sets the metadata passel.checksum to none"):
            program("eval", trained)
        save_file(tensors, trained, metadata | {"passel.checksum": "none"})

        before, after = program("eval", self.run_folder), program("eval", trained)
        self.assertNotEqual(before, after)
        resumed = Path(self.folder.name) / "resumed"
        program(
            "train", "--dataset", "adding", "--hidden-size", HIDDEN, "--max-tickets", 60,
            "--workers", 1, "--resume", trained, "--out", resumed, "--quiet",
        )  # fmt: skip
        self.assertRegex(newest_checkpoint(resumed).name, re.compile("0*60.safetensors$"))


if __name__ == "__main__":
    unittest.main()
