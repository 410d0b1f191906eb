"""The least time that a step of the LLTM can take on a GPU, from what the device is.

A model of a kernel that keeps the weights of h on the chip for the whole sequence, the
best design there is: work that the steps do one after another on the processors (SMs)
that share a row, h handed from step to step, and work on whole sequences beside it. Good
to about 40 %; what is measured should lie above it. Letters: T steps, B batch, I input,
S state.
"""

from dataclasses import dataclass
from math import ceil
from typing import Optional

# A processor's share of the second level cache's bandwidth.
INGEST_BYTES_A_CLOCK = 57
# From load to publication: shared memory, products, reduction, activations.
CHAIN_CLOCKS = 1000
CLUSTER_SYNC_CLOCKS = 550
GRID_SYNC_CLOCKS = 1800
CLUSTERS = (8, 16)
CLUSTER_ROWS = (8, 16)
# Of the peak, on so few rows.
TENSOR_CORE_USE = 0.4
# Compute capability: operations a clock and processor, (fp32, tf32, bf16).
OPERATIONS_A_CLOCK = {
    (7, 5): (128, None, None),
    (8, 0): (128, 1024, 2048),
    (8, 6): (256, 256, 512),
    (8, 9): (256, 256, 512),
    (9, 0): (256, 2048, 4096),
    (10, 0): (256, 4096, 8192),
    (12, 0): (256, 256, 512),
}
PRECISIONS = ("fp32", "tf32", "bf16")


@dataclass(frozen=True)
class Device:
    processors: int
    clock: float  # 1/s
    memory_bytes_a_second: float
    shared_bytes: int  # of a processor
    capability: tuple[int, int]

    @classmethod
    def of(cls, properties) -> "Device":
        """From torch.cuda.get_device_properties()."""
        transfers = 2 * properties.memory_clock_rate * 1e3  # two a clock, which comes in kHz
        return cls(
            processors=properties.multi_processor_count,
            clock=properties.clock_rate * 1e3,
            memory_bytes_a_second=transfers * properties.memory_bus_width / 8,
            shared_bytes=properties.shared_memory_per_block_optin,
            capability=(properties.major, properties.minor),
        )

    def operations_a_second(self, precision: str) -> Optional[float]:
        """Of one processor; None where that is not known."""
        known = OPERATIONS_A_CLOCK.get(self.capability, (None,) * 3)[PRECISIONS.index(precision)]
        if known is None:
            return None
        return known * self.clock * (1 if precision == "fp32" else TENSOR_CORE_USE)


@dataclass(frozen=True)
class Work:
    """Of one step."""

    batch: int
    input: int
    state: int
    steps: int
    precision: str
    backward: bool

    @property
    def element(self) -> int:
        return 2 if self.precision == "bf16" else 4

    @property
    def weights_of_h(self) -> int:
        """Bytes."""
        return 3 * self.state**2 * self.element

    @property
    def sequential(self) -> float:
        """Operations between one step and the next: h or its gradient by the gates."""
        return 6 * self.batch * self.state**2

    @property
    def batched(self) -> float:
        """Operations that need no other step: x by the gates; gradients of x and the weights."""
        if not self.backward:
            return 6 * self.batch * self.state * self.input
        return 6 * self.batch * self.state * (self.state + 2 * self.input)

    @property
    def memory(self) -> float:
        """Bytes that must come from or go to memory; the weights once for the sequence."""
        ours, kept = self.batch * self.element, 16 * self.batch * self.state  # c and gates in fp32
        states = ours * self.state * (2 if self.backward else 1)  # h; its gradient
        inputs = ours * self.input * (2 if self.backward else 1)  # x; its gradient
        weights = 3 * self.state * (self.state + self.input) * self.element
        return kept + states + inputs + weights * (2 if self.backward else 1) / self.steps

    def exchanged(self, rows: int) -> float:
        """Bytes that each processor must see of the step before: h, or the gates' gradients."""
        return rows * self.state * self.element * (3 if self.backward else 1)


def sequential_seconds(device: Device, work: Work, processors: int, rows: int, sync: float) -> float:
    rate = device.operations_a_second(work.precision)
    compute = 0.0 if rate is None else work.sequential / (processors * rate)
    ingest = work.exchanged(rows)
    if work.weights_of_h > device.processors * device.shared_bytes:
        ingest += work.weights_of_h / device.processors
    moved = ingest / (INGEST_BYTES_A_CLOCK * device.clock)
    return max(compute, moved) + (sync + CHAIN_CLOCKS) / device.clock


def designs(device: Device, work: Work):
    """Processors at work, rows that one of them sees, and clocks until all know of a step."""
    yield device.processors, work.batch, GRID_SYNC_CLOCKS
    if device.capability < (9, 0):
        return
    for size in CLUSTERS:
        for rows in CLUSTER_ROWS:
            clusters = ceil(work.batch / rows)
            fits = work.weights_of_h <= size * device.shared_bytes
            if fits and clusters * size <= device.processors:
                yield clusters * size, rows, CLUSTER_SYNC_CLOCKS


def floor_microseconds(device: Device, work: Work) -> float:
    sequential = min(sequential_seconds(device, work, *design) for design in designs(device, work))
    rate = device.operations_a_second(work.precision)
    batched = 0.0 if rate is None else work.batched / (device.processors * rate)
    memory = work.memory / device.memory_bytes_a_second
    return 1e6 * max(sequential + batched, memory)
