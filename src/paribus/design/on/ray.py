"""Runs on a Ray cluster: cells are given to workers on nodes that were checked, and a cell whose
node is lost is given to another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Self

from paribus.design.cells import Cell
from paribus.design.on import ray_worker
from paribus.design.on.node_check import NodeCheck, cells_check, node_token
from paribus.design.on.ray_connection import first_line, import_ray, ray_connection
from paribus.design.on.ray_resources import describe_resources, run_resources, worker_variables
from paribus.design.on.scheduler import (
    RESUME_STATUS,
    UNSEEN_SECONDS,
    Scheduler,
    next_cell_index,
)
from paribus.design.plan import run_environment
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import RecordError, UnsupportedError
from paribus.record import Study
from paribus.runtime import deferred_signals
from paribus.workspace import Execution, Ray

MAX_LOSSES = 3  # workers that a cell may lose before it counts as failed
POLL_SECONDS = 0.5  # between looks at signals
NODES_SECONDS = 5.0  # between looks at the nodes of the cluster
WAIT_SECONDS = 30.0  # for a worker to start; on a cluster with room it takes a few
CLOSE_SECONDS = 60.0  # for workers to save their runs


@dataclass(eq=False)
class _Worker:
    """A worker on a node."""

    actor: Any
    node: str
    host: str
    n_compile_threads: int = 1
    arms: set[str] = field(default_factory=set)  # for which it has compiled
    has_started: bool = False  # which takes as long as its node has no room for it


@dataclass
class _Round:
    """Cells on their way."""

    study: Study
    watcher: StudyWatcher
    check: NodeCheck
    queue: list[Cell]
    caught_signals: Sequence[int]
    running: dict[Any, tuple[_Worker, Cell]] = field(default_factory=dict)  # by their answers
    begun: set[str] = field(default_factory=set)  # names of cells whose workers have started
    failures: dict[str, str] = field(default_factory=dict)
    n_losses: dict[str, int] = field(default_factory=dict)

    def begin(self, cell: Cell) -> None:
        """Tell the watcher of a cell that begins, once."""
        if cell.name not in self.begun:
            self.begun.add(cell.name)
            self.watcher.begin(cell)

    def put_back(self, cell: Cell) -> None:
        """Send a cell again, before all others."""
        if cell.name in self.begun:
            self.begun.remove(cell.name)
            self.watcher.put_back(cell)
        self.queue.insert(0, cell)


class RayCluster(Scheduler):
    """Workers on the nodes of a Ray cluster."""

    unseen_seconds = UNSEEN_SECONDS

    def __init__(self, execution: Execution):
        super().__init__(execution)
        assert isinstance(execution.on, Ray)
        self.address = execution.on.address
        self.resources = run_resources(self.device, execution.n_jobs)
        self.workers: list[_Worker] = []
        self.hosts: dict[str, str] = {}  # of nodes that are fit, by id
        self.unfit_nodes: dict[str, str] = {}  # why, by id
        # and since when, by what Ray answers once they have started
        self._starting: dict[Any, tuple[_Worker, float]] = {}
        self._has_noted_wait = False
        self._has_begun = False  # whether all nodes of the beginning were found fit
        self._nodes_seen_at = -NODES_SECONDS
        self._secrets: dict[str, str] = {}  # of tokens, by folder
        self._closing = ExitStack()

    @cached_property
    def ray(self) -> Any:
        """The library; it is imported only where it is used."""
        return import_ray()

    def __enter__(self) -> Self:
        self._closing.enter_context(ray_connection(self.ray, self.address))
        self.ray.cloudpickle.register_pickle_by_value(ray_worker)
        return self

    def __exit__(self, *_: object) -> None:
        with self._closing:
            self._stop_workers()

    def run_cells(
        self, cells: Sequence[Cell], study: Study, watcher: StudyWatcher
    ) -> dict[str, str]:
        """Run cells on the nodes that are fit; why some failed. UnsupportedError where a node is
        not fit when the study begins, or none is left.
        """
        if not cells:
            return {}
        with deferred_signals() as caught_signals:
            work = _Round(
                study=study,
                watcher=watcher,
                check=self._node_check(cells, study),
                queue=list(cells),
                caught_signals=caught_signals,
            )
            if not self._has_begun:
                self._require_fit_nodes(work)
                self._has_begun = True
            while work.queue or work.running:
                self._leave_if(caught_signals)
                self._admit_new_nodes(work)
                self._send_cells(work)
                self._begin_cells(work)
                self._note_wait(work)
                ready, _ = self.ray.wait(list(work.running), timeout=POLL_SECONDS)
                for answer in ready:
                    self._settle(answer, work)
        return work.failures

    def _leave_if(self, caught_signals: Sequence[int]) -> None:
        if caught_signals:
            self._stop_workers()
            raise SystemExit(RESUME_STATUS)

    def _node_check(self, cells: Sequence[Cell], study: Study) -> NodeCheck:
        root = str(study.root)
        if root not in self._secrets:
            self._secrets[root] = self._closing.enter_context(node_token(study.root))
        environment = run_environment(self.device, self.execution.n_jobs)
        if self.execution.workspace.accept_environment:
            environment = {"code": environment["code"]}
        return cells_check(cells, study.root, self._secrets[root], self.device, environment)

    # nodes

    def _alive(self) -> set[str]:
        """The nodes that Ray has not lost."""
        return {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}

    def _nodes(self) -> list[dict[str, Any]]:
        """Those that are alive and have room for a run."""
        nodes = []
        for node in self.ray.nodes():
            if node["Alive"] and self.resources.n_places(node, self.execution.n_jobs):
                nodes.append(node)
        return nodes

    def _require_fit_nodes(self, work: _Round) -> None:
        """UnsupportedError where a node is not fit, or none has room for a run."""
        nodes = self._nodes()
        if not nodes:
            raise UnsupportedError(
                f"no node of the Ray cluster has room for a run, which takes"
                f" {self.resources}; add such a node, or change --jobs"
            )
        faults = self._check_nodes(nodes, work)
        if faults:
            raise UnsupportedError("; ".join(faults.values()))

    def _check_nodes(self, nodes: Sequence[Mapping[str, Any]], work: _Round) -> dict[str, str]:
        """Why some nodes are not fit, by id; the others are used from now on, but for those that
        were lost meanwhile.
        """
        checkers: dict[Any, _Worker] = {}
        for node in nodes:
            if node["NodeID"] not in self.hosts:
                checker = self._start_worker(node["NodeID"], node["NodeManagerHostname"], 0, 0)
                checkers[checker.actor.run_job.remote({"node_check": work.check.table})] = checker
        faults = dict[str, str]()
        waiting = list(checkers)
        while waiting:
            self._leave_if(work.caught_signals)
            ready, waiting = self.ray.wait(waiting, timeout=POLL_SECONDS)
            for answer in ready:
                checker = checkers[answer]
                fault = self._node_fault(answer, checker)
                self.ray.kill(checker.actor)
                if fault is None:
                    self.hosts[checker.node] = checker.host
                elif checker.node in self._alive():
                    faults[checker.node] = self.unfit_nodes[checker.node] = fault
        return faults

    def _node_fault(self, answer: Any, worker: _Worker) -> str | None:
        """Why a node is not fit, if it is not."""
        try:
            reply = self.ray.get(answer)
        except self.ray.exceptions.RayError as fault:
            return f"the node {worker.host} was lost while it was checked: {first_line(fault)}"
        if "ended" in reply:
            return (
                f"the node {worker.host} cannot start a worker of paribus: its process ended with"
                f" status {reply['ended']}; install the same version of paribus there"
            )
        return reply.get("unfit") or reply.get("failed")

    def _admit_new_nodes(self, work: _Round) -> None:
        """Check nodes that have joined, and forget those that are gone; UnsupportedError where
        none is left.
        """
        now = time.monotonic()
        if now - self._nodes_seen_at < NODES_SECONDS and self.hosts:
            return
        self._nodes_seen_at = now
        nodes = self._nodes()
        alive = {node["NodeID"] for node in nodes}
        self.hosts = {node: host for node, host in self.hosts.items() if node in alive}
        new_nodes = [node for node in nodes if node["NodeID"] not in self.unfit_nodes]
        for fault in self._check_nodes(new_nodes, work).values():
            work.watcher.note(f"{fault}; this node is not used")
        if not self.hosts and not work.running:
            reasons = "; ".join(self.unfit_nodes.values()) or "all of them were lost"
            raise UnsupportedError(
                f"no node of the Ray cluster can take a run any more: {reasons}; what was done is"
                " kept, and the same command resumes"
            )

    # workers

    def _start_worker(self, node: str, host: str, n_cpus: float, gpu_share: float) -> _Worker:
        strategies = import_module("ray.util.scheduling_strategies")
        variables = worker_variables(self.execution.n_jobs)
        actor_class = self.ray.remote(ray_worker.NodeWorker).options(
            num_cpus=n_cpus,
            num_gpus=gpu_share,
            max_concurrency=2,
            max_restarts=0,
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node, soft=False),
        )
        return _Worker(actor_class.remote(variables, os.getcwd()), node, host)

    def _idle_workers(self, work: _Round) -> list[_Worker]:
        """Workers without a cell, of which more are started where nodes have room for them."""
        busy = {id(worker) for worker, _ in work.running.values()}
        idle = [worker for worker in self.workers if id(worker) not in busy]
        for node in self.ray.nodes():
            node_id = node["NodeID"]
            if node_id not in self.hosts:
                continue
            n_started = sum(worker.node == node_id for worker in self.workers)
            n_places = self.resources.n_places(node, self.execution.n_jobs)
            for _ in range(n_started, n_places):
                if len(idle) >= len(work.queue):
                    break
                worker = self._start_worker(
                    node_id, self.hosts[node_id], self.resources.n_cpus, self.resources.gpu_share
                )
                n_jobs = self.execution.n_jobs
                worker.n_compile_threads = self.resources.n_compile_threads(node, n_jobs)
                self._starting[worker.actor.__ray_ready__.remote()] = (worker, time.monotonic())
                self.workers.append(worker)
                idle.append(worker)
        return idle

    def _note_wait(self, work: _Round) -> None:
        """Say once that workers do not start, because others use the cluster."""
        if not self._starting or self._has_noted_wait:
            return
        now = time.monotonic()
        n_waiting = sum(now - since > WAIT_SECONDS for _, since in self._starting.values())
        if n_waiting:
            self._has_noted_wait = True
            total = describe_resources(self.ray.cluster_resources())
            free = describe_resources(self.ray.available_resources())
            work.watcher.note(
                f"{n_waiting} of {len(work.running)} cells wait until the Ray cluster has room for"
                f" them: a run takes {self.resources}; the cluster has {total}, of which {free}"
                " are free now"
            )

    def _drop_workers(self, node: str) -> None:
        """Workers of a node that is not used any more; those at work end with their cells."""
        self.workers = [worker for worker in self.workers if worker.node != node]

    def _stop_workers(self) -> None:
        """Let every worker save its run and end."""
        stops = [worker.actor.stop.remote() for worker in self.workers]
        if stops:
            self.ray.wait(stops, num_returns=len(stops), timeout=CLOSE_SECONDS)
        for worker in self.workers:
            self.ray.kill(worker.actor)
        self.workers = []
        self._starting = {}

    # cells

    def _send_cells(self, work: _Round) -> None:
        if not work.queue:
            return
        begun_arms = set[str]().union(*[worker.arms for worker in self.workers])
        for worker in self._idle_workers(work):
            if not work.queue:
                return
            waiting = [cell.arm for cell in work.queue]
            cell = work.queue.pop(next_cell_index(waiting, worker.arms, begun_arms))
            worker.arms.add(cell.arm)
            begun_arms.add(cell.arm)
            try:
                job = self.node_job(cell, work.study, work.check, worker.n_compile_threads)
            except RecordError as changed:  # its text: no other cell is begun
                work.queue.clear()
                self._end(cell, str(changed), work)
                return
            work.running[worker.actor.run_job.remote(job)] = (worker, cell)

    def _begin_cells(self, work: _Round) -> None:
        """See which workers have started: their cells begin, and the others wait for a place."""
        answers = list(self._starting)
        if answers:
            started, _ = self.ray.wait(answers, num_returns=len(answers), timeout=0)
            for answer in started:
                worker, _ = self._starting.pop(answer)
                worker.has_started = self._is_alive(answer)
        for worker, cell in work.running.values():
            if worker.has_started:
                work.begin(cell)

    def _is_alive(self, answer: Any) -> bool:
        """Whether Ray answers that a worker has started, and not that it was lost before."""
        try:
            self.ray.get(answer)
        except self.ray.exceptions.RayError:
            return False
        return True

    def _settle(self, answer: Any, work: _Round) -> None:
        """What came of a cell: it is done, it failed, or it is sent again."""
        worker, cell = work.running.pop(answer)
        try:
            reply = self.ray.get(answer)
        except self.ray.exceptions.RayError as fault:
            self._send_again(worker, cell, first_line(fault), work)
            return
        if "unfit" in reply:
            self.unfit_nodes[worker.node] = reply["unfit"]
            self.hosts.pop(worker.node, None)
            self._drop_workers(worker.node)
            work.watcher.note(f"{reply['unfit']}; this node is not used any more")
            work.put_back(cell)
        elif "ended" in reply:
            status = reply["ended"]
            self._end(cell, f"its process ended with status {status}; run again to resume it", work)
        else:
            self._end(cell, reply.get("failed"), work)

    def _send_again(self, worker: _Worker, cell: Cell, why: str, work: _Round) -> None:
        if worker in self.workers:
            self.workers.remove(worker)
        self.hosts.pop(worker.node, None)  # it is checked again, if it is still there
        self._nodes_seen_at = -NODES_SECONDS
        n_losses = work.n_losses[cell.name] = work.n_losses.get(cell.name, 0) + 1
        if n_losses == MAX_LOSSES:
            fault = f"it has lost {n_losses} workers, the last one on {worker.host}: {why}"
            self._end(cell, f"{fault}; run again to resume it", work)
            return
        work.watcher.note(
            f"{cell}: its worker on {worker.host} was lost ({why}); it goes on elsewhere from its"
            " last checkpoint"
        )
        work.put_back(cell)

    def _end(self, cell: Cell, fault: str | None, work: _Round) -> None:
        if fault is not None:
            work.failures[str(cell)] = fault
        work.begin(cell)  # where it was over before its beginning was seen
        work.watcher.end(cell, fault)
