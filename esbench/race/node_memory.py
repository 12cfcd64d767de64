"""The memory that nodes need, and what this host has."""

from __future__ import annotations

from esbench.errors import EngineError
from esbench.race.node_options import NodeOptions
from esbench.units import format_bytes

LEAST_HEAP_BYTES = 64 << 20
_BESIDES_HEAP_BYTES = 200 << 20  # of a node's Java


def refuse_beyond_memory(node: NodeOptions, total_bytes: int, available_bytes: int) -> None:
    """Raise an EngineError for nodes that need more memory than is available on a host that has `total_bytes`."""
    needed = memory_needed(node)
    if needed <= available_bytes:
        return
    asked = "a node" if node.nodes == 1 else f"{node.nodes} nodes"
    what = f"{asked} with {format_bytes(node.heap_bytes)} of heap need{'s' * (node.nodes == 1)} {format_bytes(needed)}"
    memory = f"{format_bytes(available_bytes)} of this host's {format_bytes(total_bytes)} of memory are available"
    fitting = available_bytes // (node.heap_bytes + _BESIDES_HEAP_BYTES)
    heap = heap_that_fits(available_bytes, node.nodes)
    ways = [f"--nodes={fitting}"] * (fitting > 0) + ([f"--heap={heap >> 20}m"] if heap else [])
    others = "" if needed > total_bytes else "end what else runs, such as nodes that were kept"
    hint = " or ".join(ways) + (" fits" if ways else "")
    raise EngineError(f"{what}, and {memory}", hint="; ".join(filter(None, (hint, others))))


def memory_needed(node: NodeOptions) -> int:
    """Return the bytes of memory that the nodes of these options need."""
    return node.nodes * (node.heap_bytes + _BESIDES_HEAP_BYTES)


def heap_that_fits(available_bytes: int, nodes: int) -> int | None:
    """Return the largest heap with which that number of nodes fits: bytes, whole MB; None if no node runs with it."""
    heap_bytes = ((available_bytes // nodes - _BESIDES_HEAP_BYTES) >> 20) << 20
    return heap_bytes if heap_bytes >= LEAST_HEAP_BYTES else None


def host_memory() -> tuple[int, int]:
    """Return this host's memory, and the part of it that is available, in bytes."""
    import psutil

    memory = psutil.virtual_memory()
    return memory.total, memory.available
