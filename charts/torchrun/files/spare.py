"""Let the pods of a job with spares stand by until one that trains is lost.

Of a job that trains on n nodes, n + k pods run. All of them start torchrun's agent; which of them
train is decided where an agent joins the rendezvous, in this module, by the state that all of them
share there:

* A pod that stands by is in no list of the rendezvous: it only looks. So it disturbs nobody, and no
  agent takes it for a node that waits to be let in, for which all ranks would be restarted.
* It joins where fewer nodes than n train or wait to, and stay so for a moment: a node that restarts
  its ranks leaves the rendezvous too, and is back at once.
* At the start the first n pods have precedence, for a while: a spare takes the place of one that
  does not come. Rank 0's pod keeps the store, so its place is its own.
* A pod that finds its place taken, like one that Kubernetes has made again, stands by from then on.
* The pod of rank 0 says in its store when the training has succeeded, so that a pod that stands by
  ends with 0 then, and never where the job has failed: Kubernetes would not make it again.

It hooks two names of torch that are internal, and unchanged since 1.9: `next_rendezvous` of the
rendezvous, and the operation by which it joins. Where one is missing, torch's own way holds: a
spare then joins as soon as it is there. Standard library; Python 3.8 or newer.
"""

from __future__ import annotations

import time

# How long a spare leaves a free place to whom it belongs: as the training starts, and later.
START_SECONDS, SETTLE_SECONDS = 30.0, 2.0
LEARN_SECONDS = 5.0  # for the word of rank 0's pod on how the training has ended
DISMISS_SECONDS = 3.0  # the store stays for those that stand by to read that word
LOOK_SECONDS = 0.5  # between two looks at whether rank 0's pod has gone

STANDING = "allranks/spares/standing"
SUCCEEDED = "allranks/spares/succeeded"
STORE_ERRORS = (AttributeError, RuntimeError, ValueError, OSError, LookupError)


class TrainingEnded(Exception):  # noqa: N818 - named for what has happened
    """The training has ended while this pod stood by.

    Attributes:
        succeeded: whether it has succeeded, as far as rank 0's pod has said so.
    """

    def __init__(self, *, succeeded):
        """Of an end."""
        super().__init__("the training has ended")
        self.succeeded = succeeded


class Spares:
    """Whether this pod trains or stands by, and what it knows of the job's other pods.

    Attributes:
        stands_by: whether it waits for a place to be free.
    """

    def __init__(self, node_rank, nodes, lead, say):
        """Of a pod.

        Args:
            node_rank: its index.
            nodes: how many pods train.
            lead: the name of rank 0's pod in the rendezvous.
            say: writes a line to the log.
        """
        self.stands_by = node_rank >= nodes
        self._leads = node_rank == 0
        self._nodes = nodes
        self._lead = lead
        self._say = say
        self._store = None
        self._counted = False  # whether the store counts it among those that stand by
        self._announced = False
        self._free_since = None
        self._deadline = 0.0

    def hook(self):
        """Put the hooks into torch."""
        from torch.distributed.elastic.rendezvous import dynamic_rendezvous

        join = getattr(dynamic_rendezvous, "_RendezvousJoinOp", None)
        actions = getattr(dynamic_rendezvous, "_Action", None)
        handler = getattr(dynamic_rendezvous, "DynamicRendezvousHandler", None)
        begin = getattr(handler, "next_rendezvous", None)
        if "__call__" not in vars(join or object) or not actions or not begin:
            self._say(
                "this torch has another rendezvous than allranks knows: a spare trains if it comes "
                "before a pod that should"
            )
            return
        original = join.__call__

        def join_in_turn(operation, context, deadline):
            action = self._next(context, actions)
            if action is not None:
                return action
            return original(operation, context, max(deadline, self._deadline))

        def next_rendezvous(own):
            self._store = getattr(own, "_store", None)
            self._free_since = None
            try:
                info = begin(own)
            finally:
                self._count(0)
            if self._announced:
                self._say("a place is free: this pod trains now")
            self.stands_by = self._announced = False
            return info

        join.__call__ = join_in_turn
        handler.next_rendezvous = next_rendezvous

    def _next(self, context, actions):
        """The next step of a pod that is to join; None for torch's own."""
        state, node = context.state, context.node
        if state.closed and self.stands_by:
            raise TrainingEnded(succeeded=self._has_succeeded())
        if state.closed or node in state.participants:
            return None
        most = context.settings.max_nodes
        occupants = set(state.participants)
        is_full = state.complete and len(occupants) >= most
        if is_full:
            self.stands_by = True
        if not self.stands_by:
            return None
        waiting = set(state.wait_list)
        occupants |= waiting - {node}
        reserved = 0 if any(other.addr == self._lead for other in occupants) else 1
        if is_full or len(occupants) + reserved >= most:
            self._free_since = None
            self._announce()
            # Whoever waits is waited for: the others would restart their ranks without an end.
            return actions.REMOVE_FROM_WAIT_LIST if node in waiting else actions.SYNC
        now = time.monotonic()
        if self._free_since is None:
            self._free_since = now
        starting = state.round == 0 and not state.complete
        if now - self._free_since < (START_SECONDS if starting else SETTLE_SECONDS):
            return actions.SYNC
        self._deadline = self._free_since + context.settings.timeout.join.total_seconds()
        return None

    def _announce(self):
        if not self._announced:
            self._announced = True
            self._say(
                "standing by: all %d places are taken; this pod joins when one is free"
                % self._nodes
            )
        self._count(1)

    def _count(self, number):
        """Let the store count this pod among those that stand by, or no more."""
        if self._counted == bool(number):
            return
        try:
            self._store.add(STANDING, 1 if number else -1)
            self._counted = bool(number)
        except STORE_ERRORS:
            return  # torch will notice

    def _has_succeeded(self):
        """Whether rank 0's pod says so, within a moment."""
        deadline = time.monotonic() + LEARN_SECONDS
        try:
            while time.monotonic() < deadline:
                if self._store.check([SUCCEEDED]):
                    return True
                time.sleep(0.05)
        except STORE_ERRORS:
            pass
        return False

    def attend(self, train, is_gone):
        """Train when it is this pod's turn; (exit code, may_rejoin), as `train` returns it.

        Args:
            train: runs torchrun.
            is_gone: whether rank 0's pod, with its store, has gone.
        """
        try:
            code, may_rejoin = train()
        except TrainingEnded as end:
            if end.succeeded:
                self._say("the training has ended well, and this pod was not needed")
                return 0, False
            # There is another attempt with another store, or Kubernetes stops this pod.
            self._say("the training has ended without success: standing by for its next attempt")
            while not is_gone():
                time.sleep(LOOK_SECONDS)
            return 1, True
        if code == 0 and self._leads:
            self._dismiss()
        return code, may_rejoin

    def _dismiss(self):
        """In rank 0's pod, after a good end: let those that stand by know, and end before it."""
        try:
            self._store.set(SUCCEEDED, "1")
            deadline = time.monotonic() + DISMISS_SECONDS
            while self._store.add(STANDING, 0) > 0 and time.monotonic() < deadline:
                time.sleep(0.05)
        except STORE_ERRORS:
            return
