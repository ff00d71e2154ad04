"""What the worker counts, under names that begin with nexarch_jobs_. No label has a tenant's name as its value."""

from collections.abc import Collection, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from dms_worker.due import Reason
from dms_worker.durations import Durations
from dms_worker.lost import TakenBack
from nexarch.jobs import ClaimedJob
from nexarch.listen import Listener

OUTCOMES = ("succeeded", "retried", "snoozed", "dead", "cancelled", "folded", "released", "lost")


class JobMetrics:
    """The worker's counters, gauges and histograms in one registry; every series is there from the start.

    Those that a claim touches are kept by job type or reason: to look a label up would cost more than to count.
    """

    def __init__(self, registry: CollectorRegistry, listener: Listener, job_types: Collection[str]) -> None:
        by_type = ("job_type",)
        claimed = Counter("nexarch_jobs_claimed", "Attempts begun", by_type, registry=registry)
        self.claimed = {name: claimed.labels(name) for name in job_types}
        self.finished = Counter(
            "nexarch_jobs_finished",
            "Attempts ended; released: given back at a stop; lost: no longer held when they ended",
            (*by_type, "outcome"),
            registry=registry,
        )
        running = Gauge("nexarch_jobs_running", "Jobs held now", by_type, registry=registry)
        self.running = {name: running.labels(name) for name in job_types}
        wait = "From the time a job was due until its claim"
        self.wait = Durations("nexarch_jobs_wait_seconds", wait, job_types, registry).series
        run = "From the start of a handler to its end"
        self.run = Durations("nexarch_jobs_run_seconds", run, job_types, registry).series
        found = Counter(
            "nexarch_jobs_found",
            "Jobs claimed, by what led to them: a ring, a timer or the sweep",
            ("by",),
            registry=registry,
        )
        self.found = {reason: found.labels(reason.value) for reason in Reason}
        self.reclaimed = Counter("nexarch_jobs_reclaimed", "Jobs taken from lost workers", registry=registry)
        self.dead_letters = Counter("nexarch_jobs_dead_letters", "Jobs given up by us", by_type, registry=registry)
        self.failed_turns = Counter(
            "nexarch_jobs_failed_turns", "Looks at a tenant that its database did not answer", registry=registry
        )
        self.due_tenants = Gauge("nexarch_jobs_due_tenants", "Tenants waiting for their turn", registry=registry)
        connected = Gauge("nexarch_jobs_listener_connected", "1 while the worker hears the doorbell", registry=registry)
        connected.set_function(lambda: float(listener.connected))
        connections = Gauge(
            "nexarch_jobs_listener_connections", "Connections of the listener since the start", registry=registry
        )
        connections.set_function(lambda: float(listener.connections))
        for name in job_types:
            self.dead_letters.labels(name)
            for outcome in OUTCOMES:
                self.finished.labels(name, outcome)

    def begun(self, claimed: Sequence[ClaimedJob], reason: Reason) -> None:
        """These were claimed, because of a ring, a timer or the sweep, and begun."""
        self.found[reason].inc(len(claimed))
        numbers: dict[str, int] = {}
        for job in claimed:
            name = job.job_type
            self.wait[name].observe(job.waited_s)
            numbers[name] = numbers.get(name, 0) + 1
        for name, number in numbers.items():
            self.claimed[name].inc(number)
            self.running[name].inc(number)

    def ended(self, job_type: str, outcome: str) -> None:
        """An attempt ended without success."""
        self.finished.labels(job_type, outcome).inc()
        if outcome == "dead":
            self.dead_letters.labels(job_type).inc()

    def ended_many(self, numbers: Mapping[str, int], outcome: str) -> None:
        """So many attempts of each job type ended; not for dead ones."""
        for name, number in numbers.items():
            self.finished.labels(name, outcome).inc(number)

    def taken_back(self, taken: TakenBack) -> None:
        """Jobs were taken from lost workers."""
        self.reclaimed.inc(taken.jobs)
        for name, number in taken.dead.items():
            self.dead_letters.labels(name).inc(number)
