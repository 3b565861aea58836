"""Plans are read once for each of their versions."""

from __future__ import annotations

from allranks_operator.cache.owner_keys import Key
from allranks_operator.reconcilers.elastic_job import PlanCache

KEY = Key("job", "lab", "j")


def test_a_plan_is_read_again_only_where_it_is_another_object() -> None:
    """And one that is not asked for at a look is forgotten."""
    plans = PlanCache()
    manifest = {"metadata": {"name": "p", "uid": "u"}, "spec": {"psHosts": ["a:1"]}}
    first = plans.reader(KEY)(manifest)
    assert first is plans.reader(KEY)(manifest)
    edited = plans.reader(KEY)({**manifest, "spec": {"psHosts": ["b:1"]}})
    assert (("a:1",), ("b:1",)) == (first.ps_hosts, edited.ps_hosts)
    plans.reader(KEY)
    assert first is not plans.reader(KEY)(manifest)
