"""Look at the nodes of a job, and at the network between them, before the training starts.

A process for each GPU of the pod (one, where there is none) measures what the training will use.
The launcher forks them, so that nothing is loaded twice, and they are gone with all that they held
before the first rank starts. They meet in a store at the address of the rendezvous, which the
process of rank 0's pod keeps for as long as this takes:

* Each says that it is there. Who never comes is named.
* Each measures its own node: its GPUs, /dev/shm, the disk.
* Nodes reduce in pairs, in rounds, and then all together, with NCCL where every process has a GPU
  and else with gloo; and each says what time it is.
* The process of rank 0 judges (preflight_checks.py), and all pods know the verdict.

A pod that comes to a training which goes on already, because another one was lost, finds torchrun's
own store there and measures nothing: the others wait for it. What cannot be measured is said in the
log, and is no fault. Standard library and torch (1.13 or newer); Python 3.8 or newer. It is longer
than most: what is measured on a node and what between nodes are steps of one meeting.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

EXIT_PREFLIGHT = 219  # see names.py
LINE = "preflight "
OPEN = "allranks/preflight"
OPEN_SECONDS = 10.0  # between a store and what tells whose it is
READ_SECONDS = 5.0  # rank 0's store stays for the others to read the verdict
POLL_SECONDS = 0.05
SPARE_SECONDS = 15.0  # of a launcher for its processes, after all their own limits
YIELD_SECONDS = 1.0  # a pod that is at fault ends before those that follow it
KILL_ON_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
STORE_ERRORS = (RuntimeError, ValueError, OSError, LookupError)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # also by a quota, or a limit of the pod's
SHM = "/dev/shm"  # noqa: S108 - it is what is looked at
MIB, GB = 1 << 20, 1e9

# Of a level: rounds of pairs, repetitions of a collective, seconds of a matmul, MiB for the disk.
LEVELS = {"quick": (3, 3, 0.3, 4), "full": (7, 20, 3.0, 256)}
REDUCED = {"cuda": 64 * MIB, "cpu": 4 * MIB}  # bytes
MATRIX = {"cuda": 8192, "cpu": 512}
COPIED = {"cuda": 1024 * MIB, "cpu": 32 * MIB}  # bytes


class PreflightPlan:
    """What is asked for, and who takes part.

    Attributes:
        node, nodes, local, per_node: this pod's index, of how many; processes of each.
        limits: thresholds by the keys of preflight_checks.py.
        arrive_seconds, seconds: for all to come, and for what is measured then.
    """

    def __init__(self, env, settings, rendezvous_id):
        """Read what the chart asks, in the environment and in the launcher's settings."""
        settings_json = json.loads(env["ALLRANKS_PREFLIGHT"])
        self.level = LEVELS[settings_json["level"]]
        self.seconds = float(settings_json["seconds"])
        self.limits = dict(settings_json["limits"], gpuErrors=0, gpuRemapFailures=0)
        if not self.limits["clock"]:
            del self.limits["clock"]  # the one threshold that is a most
        self.gpus = int(settings_json["gpus"])
        self.per_node = max(self.gpus, 1)
        self.arrive_seconds = settings.wait_seconds
        self.node, self.pod = settings.node_rank, settings.pod
        self.host, self.port = settings.host, settings.port
        self.kube_node = env.get("ALLRANKS_NODE_NAME", "")
        nodes = env.get("PET_NNODES") or "1"
        self.alone = ""
        if ":" in nodes:
            self.alone = "the number of nodes is a range, so each pod looks at itself only"
        elif not self.host and nodes != "1":
            self.alone = "the pods meet at an etcd, so each pod looks at itself only"
        self.nodes = 1 if self.alone else int(nodes) + int(env.get("ALLRANKS_SPARES") or 0)
        if self.nodes == 1:
            self.node, self.host = 0, ""  # a gang of its own
        self.training_key = "torch.rendezvous." + rendezvous_id
        self.is_newer_code = bool(env.get("ALLRANKS_WORKSPACE_GENERATION"))

    def pod_of(self, node):
        """The name of another pod, as far as this one's own tells."""
        own = "-%d" % self.node
        return self.pod[: -len(own)] + "-%d" % node if self.pod.endswith(own) else ""


# ---------------------------------------------------------------- what a process measures


class Device:
    """What the process computes on: a GPU of its own, or the CPUs."""

    def __init__(self, torch, plan, local):
        """Take the GPU of a local number, where there is one."""
        self.torch, self.plan, self.local = torch, plan, local
        self.count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        self.kind = "cuda" if self.count and plan.gpus else "cpu"
        self.name = "cuda:%d" % (local % self.count) if self.kind == "cuda" else "cpu"
        if self.kind == "cuda":
            torch.cuda.set_device(self.name)

    def wait(self):
        """Until the GPU has done what it was given."""
        if self.kind == "cuda":
            self.torch.cuda.synchronize()

    def seconds_of(self, act, at_least):
        """The seconds that `act` takes, repeated for a while."""
        act()
        self.wait()
        count, began = 0, time.perf_counter()
        while True:
            act()
            self.wait()
            count += 1
            passed = time.perf_counter() - began
            if passed >= at_least:
                return passed / count

    def matmul(self):
        """TFLOP/s of a product of matrices, with 16 bits on a GPU."""
        size = MATRIX[self.kind]
        bits = self.torch.bfloat16 if self.kind == "cuda" else self.torch.float32
        matrix = self.torch.ones(size, size, dtype=bits, device=self.name)
        result = self.torch.empty_like(matrix)
        seconds = self.seconds_of(
            lambda: self.torch.matmul(matrix, matrix, out=result), self.plan.level[2]
        )
        return 2 * size**3 / seconds / 1e12

    def bandwidth(self):
        """GB/s of a copy within the device's memory, read and written."""
        size = COPIED[self.kind]
        source = self.torch.zeros(size, dtype=self.torch.uint8, device=self.name)
        target = self.torch.empty_like(source)
        seconds = self.seconds_of(lambda: target.copy_(source), self.plan.level[2] / 3)
        return 2 * size / seconds / GB


class NodeMeasurements:
    """What one process says of its node: numbers, what could not be measured, and errors."""

    def __init__(self, plan, device):
        """Nothing is measured yet."""
        self.plan, self.device = plan, device
        self.measured, self.skipped, self.errors = {}, [], []

    def measure(self):
        """Measure all; of what a node has once only its first process does."""
        if self.device.local == 0:
            self._shm()
            self._disk()
            self._gpus()
        self._compute()

    def _shm(self):
        try:
            with tempfile.TemporaryFile(dir="/dev/shm") as file:
                file.write(b"0" * MIB)
            self.measured["shm"] = free_mib(SHM)
        except OSError as error:
            if error.errno in FULL:
                self.measured["shm"] = 0
            else:
                self.skipped.append(SHM + " cannot be written (%s)" % error.strerror)

    def _disk(self):
        try:
            with tempfile.TemporaryFile() as file:
                for _ in range(self.plan.level[3]):
                    file.write(b"0" * MIB)
                file.flush()
                os.fsync(file.fileno())
            self.measured["disk"] = free_mib(tempfile.gettempdir())
        except OSError as error:
            if error.errno in FULL:
                self.measured["disk"] = 0
            else:
                self.skipped.append("no folder for temporary files (%s)" % error.strerror)

    def _gpus(self):
        if not self.plan.gpus:
            return
        versions = self.device.torch.version
        if not versions.cuda and not getattr(versions, "hip", None):
            self.skipped.append("GPUs: this image's torch is built without CUDA and ROCm")
            return
        self.measured["gpus"] = self.device.count
        try:
            answers = [ask_nvidia(*query) for query in NVIDIA_QUERIES]
        except (OSError, subprocess.SubprocessError) as error:
            self.skipped.append("memory errors of GPUs: nvidia-smi: %s" % error)
            return
        self.measured.update(checks().gpu_faults(*answers))

    def _compute(self):
        if self.plan.gpus and self.device.kind == "cpu":
            return  # it is said that there is no GPU
        try:
            if self.device.kind == "cuda":
                free, total = self.device.torch.cuda.mem_get_info()
                self.measured["gpuFree"] = 100 * free / total
            prefix = "" if self.device.kind == "cuda" else "cpu"
            for name, measure in (("matmul", "matmul"), ("memory", "bandwidth")):
                key = prefix + name.capitalize() if prefix else name
                self.measured[key] = round(getattr(self.device, measure)(), 3)
        except RuntimeError as error:  # out of memory, a device that is lost
            where = "GPU %s: " % self.device.name[5:] if self.device.kind == "cuda" else ""
            self.errors.append(where + str(error).split("\n")[0][:200])


NVIDIA_QUERIES = (
    ("--query-gpu=ecc.errors.uncorrected.volatile.total",),
    ("--query-remapped-rows=remapped_rows.failure",),
)


def ask_nvidia(query):
    """What `nvidia-smi` answers, without its header."""
    words = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    answer = subprocess.run(  # noqa: S603 - of the image
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=True
    )
    return answer.stdout.decode("utf-8", "replace")


def free_mib(folder):
    """The free space of a file system."""
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize // MIB


def checks():
    """The module preflight_checks.py beside this one."""
    return sys.modules["allranks_preflight_checks"]


# ---------------------------------------------------------------- a process of the gang


class PreflightProcess:
    """One of the processes that measure; it lives in a fork of the launcher."""

    def __init__(self, plan, local, reply, listens):
        """Of a local number; `reply` is the end of a pipe to the launcher, in the first one."""
        self.plan, self.local, self.reply, self._listens = plan, local, reply, listens
        self.rank = plan.node * plan.per_node + local
        self.size = plan.nodes * plan.per_node
        self.began = time.monotonic()
        self.present = self.size  # how many have come, as rank 0's process knows
        self.report = {"node": plan.node, "rank": self.rank, "pairs": []}

    def run(self):
        """Take part, and tell the launcher how it ended."""
        outcome = self._take_part()
        if self.reply is not None:
            os.write(self.reply, json.dumps(outcome).encode())

    def _take_part(self):
        import torch
        from torch import distributed

        self.torch, self.dist = torch, distributed
        if self.plan.is_newer_code and self.plan.node == 0:
            return {"skipped": "the nodes are those of the code before"}
        if self.plan.host or self.plan.per_node > 1:
            self.store = self._meet()
            if self.store is None:
                return {"skipped": "the training goes on already, and waits for this pod"}
        else:
            self.store = distributed.HashStore()
        if self.store.add("%s/comes/%d" % (OPEN, self.rank), 1) > 1:
            # Whom the others met before is gone; nobody is at fault.
            self.store.set(OPEN + "/again", str(self.plan.node))
            return self._end(None, [])
        place = {"pod": self.plan.pod, "host": self.plan.kube_node}
        self._tell("here", place)
        device = Device(torch, self.plan, self.local)
        measured = NodeMeasurements(self.plan, device)
        measured.measure()
        self.report.update(measured=measured.measured, errors=measured.errors)
        if device.kind == "cuda":
            self.report["gpu"] = self.local
        nccl = device.kind == "cuda" and distributed.is_nccl_available()
        self._tell("local", dict(self.report, nccl=nccl))
        verdict = self._lead() if self.rank == 0 else None
        if verdict is None and self._has_plan():
            self._reduce(device)
            self._tell("done", self.report)
            verdict = self._judge() if self.rank == 0 else None
        return self._end(verdict, measured.skipped)

    def _meet(self):
        """The store at rank 0; None where the training's own is there."""
        leads = self.rank == 0
        limit = self.plan.arrive_seconds + self.plan.seconds
        host = self.plan.host if self.plan.node else "127.0.0.1"
        port = self.plan.port
        deadline = time.monotonic() + limit
        while not leads and not self._listens(host, port):
            if time.monotonic() > deadline:
                raise TimeoutError("nothing listens at %s:%d" % (host, port))
            time.sleep(POLL_SECONDS)
        store = self.dist.TCPStore(
            host,
            port,
            is_master=leads,
            timeout=timedelta(seconds=limit),
            wait_for_workers=False,
        )
        if leads:
            store.set(OPEN, "1")
        deadline = time.monotonic() + OPEN_SECONDS
        while not store.check([OPEN]):
            if store.check([self.plan.training_key]) or time.monotonic() > deadline:
                return None
            time.sleep(POLL_SECONDS)
        return store

    def _tell(self, topic, content):
        self.store.set("%s/%s/%d" % (OPEN, topic, self.rank), json.dumps(content))

    def _gather(self, topic, seconds):
        """What the processes have told: {rank: content} of those that did in time."""
        deadline = time.monotonic() + seconds
        contents = {}
        for rank in range(self.size):
            key = "%s/%s/%d" % (OPEN, topic, rank)
            while not self.store.check([key]) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            if self.store.check([key]):
                contents[rank] = json.loads(self.store.get(key))
        return contents

    def _lead(self):
        """In rank 0's process: wait for all, say how they go on; a verdict where they do not."""
        self.places = {}
        here = self._gather("here", self.plan.arrive_seconds)
        self.present = len(here)
        for rank, place in here.items():
            node = rank // self.plan.per_node
            self.places[node] = (place["host"], place["pod"])
        absent = sorted({rank // self.plan.per_node for rank in set(range(self.size)) - set(here)})
        if absent:
            words = "did not come within %.0f s" % self.plan.arrive_seconds
            missing = [(node, node * self.plan.per_node, words) for node in absent]
            return self._verdict([], missing, arrived=False)
        local = self._gather("local", self.plan.seconds)
        silent = set(range(self.size)) - set(local)
        if silent:
            return self._verdict(local.values(), self._silent(silent, "its own measurements"))
        nccl = all(report["nccl"] for report in local.values())
        self.store.set(OPEN + "/plan", "nccl" if nccl else "gloo")
        return None

    def _silent(self, ranks, activity):
        words = "%s did not end within %.0f s" % (activity, self.plan.seconds)
        return [(rank // self.plan.per_node, rank, words) for rank in sorted(ranks)]

    def _judge(self):
        done = self._gather("done", self.plan.seconds)
        silent = set(range(self.size)) - set(done)
        reports = list(done.values())
        noon = next((report["time"] for report in reports if report["node"] == 0), None)
        for report in reports:
            if noon is not None and report.get("time") is not None:
                report["measured"]["clock"] = round(abs(report["time"] - noon), 3)
        return self._verdict(reports, self._silent(silent, "what it measures with others"))

    def _verdict(self, reports, missing, *, arrived=True):
        reports = list(reports)
        if self.store.check([OPEN + "/again"]):
            node = int(self.store.get(OPEN + "/again"))
            missing = [(node, node * self.plan.per_node, "was lost meanwhile, and came again")]
            reports, arrived = [], False
        for node in {node for node, _, _ in missing} - set(self.places):
            self.places[node] = ("", self.plan.pod_of(node))
        faults = checks().judge(reports, missing, self.plan.limits)
        named = [fault for fault in faults if fault.node >= 0]
        speeds = [pair["speed"] for report in reports for pair in report["pairs"]]
        all_speeds = [report["all"] for report in reports if report.get("all") is not None]
        return {
            "passed": not faults,
            "retry": not arrived,
            "words": checks().sentence(faults, self.places) if faults else "",
            "nodes": sorted({fault.node for fault in named}),
            "rank": named[0].rank if named else 0,
            "pod": self.places.get(named[0].node, ("", ""))[1] if named else "",
            "hosts": sorted({self.places[fault.node][0] for fault in named} - {""}),
            "slowestPair": round(min(speeds), 3) if speeds else None,
            "all": round(min(all_speeds), 3) if all_speeds else None,
        }

    def _has_plan(self):
        """Wait until it is said how to go on; False where there is a verdict instead."""
        limit = self.plan.arrive_seconds + 2 * self.plan.seconds
        return self._first_of((OPEN + "/plan", OPEN + "/verdict"), limit) == OPEN + "/plan"

    def _first_of(self, keys, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for key in keys:
                if self.store.check([key]):
                    return key
            time.sleep(POLL_SECONDS)
        raise TimeoutError("rank 0 has not said how the preflight goes on within %.0f s" % seconds)

    def _reduce(self, device):
        """Reduce with one node after the other, and with all."""
        backend = self.store.get(OPEN + "/plan").decode()
        self.report["time"] = time.time()
        node, per_node = self.plan.node, self.plan.per_node
        plan = checks().rounds(self.plan.nodes, self.plan.level[0])
        for number, pairs in enumerate(plan):
            pair = next((pair for pair in pairs if node in pair), None)
            if pair is None:
                continue
            rank = pair.index(node) * per_node + self.local
            name = "%s/pairs/%d/%d" % (OPEN, number, pair[0])
            speed = self._speed(device, backend, name, rank, 2 * per_node)
            other = pair[1 - pair.index(node)]
            self.report["pairs"].append({"with": other, "speed": speed})
        if self.size > 1:
            name = OPEN + "/all"
            self.report["all"] = self._speed(device, backend, name, self.rank, self.size)

    def _speed(self, device, backend, name, rank, size):
        """GB/s of an all-reduce, as NCCL's own tests count it (bus bandwidth); 0 where it fails."""
        limit = timedelta(seconds=max(self.plan.seconds / 6, 2))
        kind = device.name if backend == "nccl" else "cpu"
        bytes_ = REDUCED["cuda" if backend == "nccl" else "cpu"]
        try:
            store = self.dist.PrefixStore(name, self.store)
            self.dist.init_process_group(
                backend, store=store, rank=rank, world_size=size, timeout=limit
            )
            try:
                data = self.torch.zeros(bytes_ // 4, device=kind)
                self.dist.all_reduce(data)
                device.wait()
                began = time.perf_counter()
                for _ in range(self.plan.level[1]):
                    self.dist.all_reduce(data)
                device.wait()
                seconds = (time.perf_counter() - began) / self.plan.level[1]
            finally:
                self.dist.destroy_process_group()
        except STORE_ERRORS as error:
            self.report.setdefault("lost", []).append(str(error).split("\n")[0][:200])
            return 0.0
        return round(2 * (size - 1) / size * bytes_ / seconds / GB, 4)

    def _end(self, verdict, skipped):
        """Give the verdict to all, or take it; what the launcher is told."""
        if self.rank == 0:
            self.store.set(OPEN + "/verdict", json.dumps(verdict))
        else:
            self._first_of((OPEN + "/verdict",), 2 * self.plan.seconds)
            verdict = json.loads(self.store.get(OPEN + "/verdict"))
        count = self.store.add(OPEN + "/read", 1)
        deadline = time.monotonic() + READ_SECONDS
        while self.rank == 0 and count < self.present and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            count = self.store.add(OPEN + "/read", 0)
        measured = self.report.get("measured", {})
        pairs = {str(pair["with"]): pair["speed"] for pair in self.report["pairs"]}
        seconds = round(time.monotonic() - self.began, 1)
        own = {"seconds": seconds, "measured": measured, "pairs": pairs}
        return {"verdict": verdict, "own": own, "not": skipped}


# ---------------------------------------------------------------- the launcher's side


class Preflight:
    """The processes of this pod, from their start to the verdict.

    Attributes:
        skipped: whether there was nothing to look at.
        lost: whether they have ended without a verdict.
    """

    def __init__(self, plan, say, listens):
        """Nothing is started."""
        self.plan, self._say, self._listens = plan, say, listens
        self._pids, self._answers = [], None
        self.skipped = self.lost = False

    def start(self):
        """Fork the processes, while this one has no threads."""
        if self.plan.alone:
            self._say("before the training: " + self.plan.alone)
        if not self.plan.host and self.plan.per_node > 1:
            with socket.socket() as probe:  # on one node any port does
                probe.bind(("127.0.0.1", 0))
                self.plan.port = probe.getsockname()[1]
        self._answers, reply = os.pipe()
        for local in range(self.plan.per_node):
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                self._measure(local, reply, parent)
            self._pids.append(pid)
        os.close(reply)

    def _measure(self, local, reply, parent):
        """In a fork: measure, and end."""
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            end_with(parent)
            # A collective of NCCL that does not come through raises, and ends no process.
            os.environ.update(TORCH_NCCL_BLOCKING_WAIT="1", NCCL_BLOCKING_WAIT="1")
            if local:
                os.close(reply)
            PreflightProcess(self.plan, local, None if local else reply, self._listens).run()
            sys.stderr.flush()
            os._exit(0)
        except Exception as error:  # noqa: BLE001 - whatever it is, the launcher says it
            self._say("preflight process %d: %s: %s" % (local, type(error).__name__, error))
        finally:
            os._exit(1)

    def stop(self):
        """Kill the processes that are left."""
        for pid in self._pids:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue
        self._pids = []

    def finish(self):
        """Wait for the verdict.

        Returns:
            (exit code, reason): 0 and "" where the training may start.
        """
        try:
            answer = self._wait()
        finally:
            self.stop()
        if answer is None:
            self.lost = True
            words = "preflight: this pod's processes have ended without a verdict"
            return 1, words + "; their log says why"
        if "skipped" in answer:
            self.skipped = True
            self._say("no preflight: " + answer["skipped"])
            return 0, ""
        for words in answer["not"]:
            self._say("before the training, not measured: " + words)
        verdict, own = answer["verdict"], answer["own"]
        line = {"passed": verdict["passed"], "node": self.plan.kube_node, **own}
        line.update({key: verdict[key] for key in ("slowestPair", "all")})
        line["at"] = int(time.time())  # a run of one machine has no other time for its lines
        if not verdict["passed"]:
            line.update(nodes=verdict["hosts"], reason=verdict["words"])
        self._say(LINE + json.dumps(line))
        return self._conclude(verdict)

    def _conclude(self, verdict):
        if verdict["passed"]:
            return 0, ""
        code = 1 if verdict["retry"] else EXIT_PREFLIGHT
        reason = verdict["words"]
        if not verdict["retry"] and verdict["hosts"]:
            reason += "\nkeep the job off it: scheduling.avoidNodes: [%s]" % ", ".join(
                verdict["hosts"]
            )
        at_fault = self.plan.node in verdict["nodes"]
        if verdict["pod"] and not at_fault and not verdict["retry"]:
            time.sleep(YIELD_SECONDS)
            head = "failed first: rank %d in pod %s ended with exit code %d\n"
            reason = head % (verdict["rank"], verdict["pod"], code) + reason
        return code, reason

    def _wait(self):
        """The answer of the first process, within all limits; None for none."""
        limit = self.plan.arrive_seconds + 4 * self.plan.seconds + SPARE_SECONDS
        deadline = time.monotonic() + limit
        content = b""
        while True:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0 or not select.select([self._answers], [], [], seconds_left)[0]:
                self._say("preflight: no verdict within %.0f s" % limit)
                return None
            part = os.read(self._answers, 65536)
            if not part:
                break
            content += part
        for pid in self._pids[:]:
            os.waitpid(pid, 0)
            self._pids.remove(pid)
        try:
            return json.loads(content)
        except ValueError:
            return None


def end_with(parent):
    """Let this process end when its parent does."""
    try:
        ctypes.CDLL(None).prctl(KILL_ON_PARENT_DEATH, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def begin(env, settings, say, beside, *, listens, rendezvous_id):
    """Start the preflight that the chart asks for.

    Args:
        env: this pod's environment.
        settings: of the launcher.
        say: writes a line to the pod's log.
        beside: loads a module of this folder.
        listens: whether something accepts connections at a host and port.
        rendezvous_id: under which the nodes meet to train.
    """
    beside("preflight_checks")
    preflight = Preflight(PreflightPlan(env, settings, rendezvous_id), say, listens)
    preflight.start()
    return preflight
