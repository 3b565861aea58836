"""What a pod is among the others, and the environment that its framework reads.

Pure: it reads the plan that the chart wrote (which pods there are, what the framework wants to
know) and which of these this pod is. The recipes are data, see ``frameworks.yaml`` of the chart;
here is only what their placeholders stand for. Python 3.8 or newer, standard library.
"""

from __future__ import annotations

import json
import re

_PLACEHOLDER = re.compile(r"\{([a-z]+)(?::([a-z]+))?\}")
FIRST = "first"  # in place of a role: the pod of rank 0


class RolePod:
    """One pod of the job.

    Attributes:
        plan: what the chart wrote: hosts, needs, ranks, leads, optional, env, ...
        role: this pod's role.
        index: which of its role it is, from 0.
        ip: its own address.
    """

    def __init__(self, plan, role, index, ip):
        """Find it in the plan; an unknown one is a ValueError that says what there is."""
        hosts = plan["hosts"].get(role)
        if hosts is None or not 0 <= index < len(hosts):
            there = ", ".join("%s (%d)" % (name, len(all_)) for name, all_ in plan["hosts"].items())
            raise ValueError("this pod is %s %d, and the job has %s" % (role, index, there))
        self.plan = plan
        self.role = role
        self.index = index
        self.ip = ip

    @property
    def name(self):
        """What others call it, such as worker-3."""
        return "%s-%d" % (self.role, self.index)

    @property
    def everybody(self):
        """The names of all pods, this one's included."""
        hosts = self.plan["hosts"]
        return ["%s-%d" % (role, index) for role in hosts for index in range(len(hosts[role]))]

    @property
    def leads(self):
        """The names of the pods whose end is the end of the training; the first is the meeting."""
        return [
            "%s-%d" % (role, index) for role, count in self.plan["leads"] for index in range(count)
        ]

    @property
    def is_lead(self):
        """Whether this pod's end is (a part of) the end of the training."""
        return self.name in self.leads

    @property
    def of_a_lead(self):
        """Whether it is the end of this pod's Job that says how the training ended."""
        return self.role in dict(self.plan["leads"])

    @property
    def is_meeting(self):
        """Whether the others learn from this pod that the training is over."""
        return self.name == self.leads[0]

    @property
    def is_vital(self):
        """Whether the training is lost when this pod has failed for good."""
        return self.role not in self.plan["optional"]

    @property
    def ends_itself(self):
        """Whether its program ends when the training does."""
        return self.of_a_lead or self.role in self.plan["endsItself"]

    @property
    def meeting(self):
        """The host where the others learn it."""
        return self.host(self.leads[0])

    def host(self, name):
        """The host of a pod, such as worker-3."""
        role, _, index = name.rpartition("-")
        return host_of(self.plan["hosts"][role][int(index)])

    def names_to_wait_for(self):
        """Hosts that must be known before the program starts, each once."""
        hosts = self.plan["hosts"]
        addresses = [hosts[self.role][self.index]]
        for role in self.plan["needs"]:
            addresses += hosts.get(role, [])
        addresses += self._ranked()[:1]
        return list(dict.fromkeys(host_of(address) for address in addresses))

    def environment(self, resolve):
        """The variables of the program.

        Args:
            resolve: gives the address of a host's name.

        Returns:
            Names with texts.
        """
        env = {"ALLRANKS_ROLE": self.role, "ALLRANKS_ROLE_RANK": str(self.index)}
        for role, hosts in self.plan["hosts"].items():
            env["ALLRANKS_%s_HOSTS" % role.upper()] = ",".join(hosts)
        for name, form in self.plan["env"].items():
            value = self._filled(form, resolve)
            env[name] = value if isinstance(value, str) else json.dumps(value)
        return env

    def _ranked(self):
        """The addresses of the pods that have ranks, rank 0 first."""
        hosts = self.plan["hosts"]
        return [address for role in self.plan["ranks"] for address in hosts.get(role, [])]

    def _filled(self, form, resolve):
        """A form with its placeholders filled in; texts at the top stay texts."""
        if not isinstance(form, dict):
            return _PLACEHOLDER.sub(lambda match: _text(self._value(match, resolve)), str(form))
        return self._structure(form, resolve)

    def _structure(self, form, resolve):
        if isinstance(form, dict):
            filled = {key: self._structure(below, resolve) for key, below in form.items()}
            return {key: below for key, below in filled.items() if below not in ("", [], {})}
        whole = _PLACEHOLDER.fullmatch(str(form))
        if whole:
            return self._value(whole, resolve)
        return self._filled(form, resolve)

    def _value(self, match, resolve):
        """What one placeholder stands for."""
        field, role = match.groups()
        hosts = self.plan["hosts"].get(role, [])
        first = self._ranked()[:1] if role == FIRST else hosts[:1]
        values = {
            ("role", False): lambda: self.role,
            ("index", False): lambda: self.index,
            ("rank", False): lambda: self._ranked().index(self._own_address()),
            ("world", False): lambda: len(self._ranked()),
            ("ip", False): lambda: self.ip,
            ("hosts", True): lambda: hosts,
            ("count", True): lambda: len(hosts),
            ("host", True): lambda: host_of(first[0]),
            ("port", True): lambda: int(first[0].rpartition(":")[2]),
            ("ip", True): lambda: resolve(host_of(first[0])),
        }
        return values[field, role is not None]()

    def _own_address(self):
        return self.plan["hosts"][self.role][self.index]


def host_of(address):
    """The host of host:port."""
    return address.rpartition(":")[0]


def _text(value):
    return ",".join(value) if isinstance(value, list) else str(value)
