"""What a node tells Prometheus: containers, queue, latencies, failures by type."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from swe_exec_server.node import Node

SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600, 3600)


class NodeMetrics:
    """The metrics of one node, in a registry of their own."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.registry = CollectorRegistry()
        self.created = Histogram(
            "swe_exec_create_seconds",
            "Start of a container, queueing excluded",
            registry=self.registry,
            buckets=SECONDS,
        )
        self.executed = Histogram(
            "swe_exec_command_seconds", "Run of a command", registry=self.registry, buckets=SECONDS
        )
        self.failures = Counter("swe_exec_failures", "Requests that failed, by code", ["code"], registry=self.registry)
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        status = self._node.status()
        yield GaugeMetricFamily("swe_exec_containers", "Containers in use", status.active_containers)
        yield GaugeMetricFamily("swe_exec_containers_max", "The cap", status.max_containers)
        yield GaugeMetricFamily("swe_exec_queue", "Creates that wait for a slot", status.queued)
        yield GaugeMetricFamily("swe_exec_commands_running", "Commands that run now", self._node.running_commands)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
