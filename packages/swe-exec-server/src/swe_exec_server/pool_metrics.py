"""What a pool tells Prometheus: leases and health by node, the queue, how long allocations take, failures by code."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from swe_exec_server.pool_wire import PoolStatusResponse


class PoolMetrics:
    """One pool's numbers, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.failures = Counter("swe_pool_failures", "Requests that failed, by code", ["code"], registry=self.registry)
        self.allocated = Histogram(
            "swe_pool_allocate_seconds",
            "Time of an allocation, queue included",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600),
            registry=self.registry,
        )
        self._queued = Gauge("swe_pool_queued", "Allocations that wait for room", registry=self.registry)
        self._leases = Gauge("swe_pool_leases", "Containers in use, by node", ["node"], registry=self.registry)
        self._healthy = Gauge("swe_pool_node_healthy", "Whether a node is usable", ["node"], registry=self.registry)

    def text(self, status: PoolStatusResponse) -> str:
        """The exposition text, with the gauges as `status` has them."""
        self._queued.set(status.queued)
        for node in status.nodes:
            self._leases.labels(node.name).set(node.running_containers)
            self._healthy.labels(node.name).set(node.healthy)
        return generate_latest(self.registry).decode()
