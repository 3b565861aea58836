"""`allranks azure …` as processes, against a fake of Resource Manager over real HTTP.

It is long because one story leads through all commands.
"""

from __future__ import annotations

import signal
import stat
from typing import TYPE_CHECKING

import pytest

from tests.azure_fake import arm
from tests.azure_fake.arm import Answer, Fault, error
from tests.unit.azure.conftest import FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.azure.conftest import Azure

pytestmark = pytest.mark.xdist_group("azure")

GROUP, MACHINES = "allranks-demo", "MC_allranks-demo_demo_westeurope"
EXPIRES = "2026-11-25T00:00:00Z"
TAGS = {
    "allranks-name": "demo",
    "allranks-made": "2026-11-24T12:00:00Z",
    "allranks-expires": EXPIRES,
}


def test_up_makes_all_and_up_again_nothing(azure: Azure) -> None:
    """The first `up` makes each thing once, tagged; the second sends no request that changes."""
    first = azure.run("up", "--yes")

    assert 0 == first.code, first.err
    there = azure.fake.there()
    assert {GROUP: TAGS, MACHINES: {}} == there["groups"]
    assert {"demodata": {"datasets": 100}} == there["shares"]
    assert {"demodata": ["blobs"]} == there["containers"]
    cluster = there["things"]["managedClusters/demo"]
    assert TAGS == cluster["tags"]
    pools = {pool["name"]: pool for pool in cluster["properties"]["agentPoolProfiles"]}
    assert ["system", "gpu"] == list(pools)
    assert (0, 0, 2) == tuple(pools["gpu"][key] for key in ("count", "minCount", "maxCount"))
    retention = there["retention"]["demodata"]
    assert {"enabled": True, "days": 7} == retention["fileServices"]["shareDeleteRetentionPolicy"]
    assert "roles are given by an owner" in first.out
    assert "--role 'Storage Account Contributor'" in first.out
    writes = azure.fake.writes()
    second = azure.run("up", "--yes", "-o", "json")
    assert 0 == second.code, second.err
    assert second.data["ok"]
    assert writes == azure.fake.writes()
    assert len(writes) == len(set(writes)) + 1  # both services of an account are called default


def test_plan_changes_nothing(azure: Azure) -> None:
    """`plan` asks, and sends nothing that changes; what it shows is what `up` then makes."""
    plan = azure.run("plan", "-o", "json")

    assert 0 == plan.code, plan.err
    assert [] == azure.fake.writes()
    actions = [(entry["action"], entry["kind"], entry["name"]) for entry in plan.data["entries"]]
    assert [
        ("make", "resource group", GROUP),
        ("make", "AKS cluster", "demo"),
        ("make", "node pool", "gpu"),
        ("make", "storage account", "demodata"),
        ("make", "soft delete", "shares"),
        ("make", "soft delete", "blobs"),
        ("make", "file share", "datasets"),
        ("make", "blob container", "blobs"),
    ] == actions
    azure.up()
    after = azure.run("plan", "-o", "json")
    assert {"exists"} == {entry["action"] for entry in after.data["entries"]}


def test_without_yes_nothing_is_done(azure: Azure) -> None:
    """Where nobody can be asked, `up`, `down` and `reap` do nothing, and exit code 2 says --yes."""
    up = azure.run("up")

    assert (2, "add --yes" in up.err) == (up.code, True), up.err
    azure.up()
    azure.fake.pass_time(24)
    for words in (["down"], ["reap"]):
        ended = azure.run(*words)
        assert (2, True) == (ended.code, "add --yes" in ended.err)
    assert [] == azure.fake.writes()


def test_down_removes_what_is_ours_and_waits(azure: Azure) -> None:
    """`down` is over when the group and the machines' own are gone, and the context with them."""
    azure.up()
    assert "demo" == azure.kubeconfig()["current-context"]

    ended = azure.run("down", "--yes")

    assert 0 == ended.code, ended.err
    assert {} == azure.fake.there()["groups"]
    assert [f"DELETE {GROUP}"] == azure.fake.writes()
    assert MACHINES in ended.err
    assert ("", []) == (azure.kubeconfig()["current-context"], azure.kubeconfig()["users"])
    again = azure.run("down", "--yes")
    assert (0, "there was nothing to remove\n") == (again.code, again.out)


def test_keep_storage(azure: Azure) -> None:
    """With --keep-storage the cluster goes, and the account with its data and the group stay."""
    azure.up()

    ended = azure.run("down", "--keep-storage", "--yes")

    assert 0 == ended.code, ended.err
    assert ["DELETE demo"] == azure.fake.writes()
    there = azure.fake.there()
    assert ([GROUP], ["storageAccounts/demodata"]) == (list(there["groups"]), list(there["things"]))
    assert {"demodata": {"datasets": 100}} == there["shares"]
    up = azure.run("up", "--yes")
    assert 0 == up.code, up.err
    assert "managedClusters/demo" in azure.fake.there()["things"]


def test_what_others_put_into_the_group_stays(azure: Azure) -> None:
    """Something in our group without our tag is named and kept, and so the group; ours goes."""
    azure.up()
    azure.fake.add_foreign(GROUP, "their-address")

    ended = azure.run("down", "--yes")

    assert 0 == ended.code, ended.err
    assert "publicIPAddresses their-address is not ours and stays" in ended.err
    assert ["DELETE demodata", "DELETE demo"] == azure.fake.writes()
    assert ["publicIPAddresses/their-address"] == list(azure.fake.there()["things"])


@pytest.mark.parametrize("words", [["up", "--yes"], ["down", "--yes"], ["plan"]])
@pytest.mark.parametrize("tags", [{}, {"allranks-name": "other"}])
def test_a_group_of_somebody_else_is_never_touched(
    azure: Azure, words: list[str], tags: dict[str, str]
) -> None:
    """A group of the name that is not ours by its tag is refused by name, whatever is asked."""
    azure.fake.add_group(GROUP, tags)

    ended = azure.run(*words)

    assert (2, []) == (ended.code, azure.fake.writes()), ended.err
    assert GROUP in ended.err
    assert "fix: " in ended.err


def test_changes(azure: Azure) -> None:
    """What differs is changed alone: bounds, a quota, a tag; a pool not named is removed."""
    azure.up()
    azure.write(
        FILE.replace("maxNodes: 2", "maxNodes: 1").replace("quotaGiB: 100", "quotaGiB: 200")
        + "maxHours: 24\n"
    )

    ended = azure.run("up", "--yes")

    assert 0 == ended.code, ended.err
    assert {
        "PUT allranks-demo",
        "PATCH demo",
        "PUT demodata",
        "PUT gpu",
        "PATCH datasets",
    } == {*azure.fake.writes()}
    assert "2026-11-25T12:00:00Z" == azure.fake.there()["groups"][GROUP]["allranks-expires"]
    assert {"datasets": 200} == azure.fake.there()["shares"]["demodata"]
    azure.write(FILE.replace("name: gpu", "name: gpus") + "maxHours: 24\n")
    ended = azure.run("up", "--yes")
    assert 0 == ended.code, ended.err
    pools = azure.fake.there()["things"]["managedClusters/demo"]["properties"]["agentPoolProfiles"]
    assert ["system", "gpus"] == [pool["name"] for pool in pools]


def test_what_cannot_be_changed_is_refused(azure: Azure) -> None:
    """Another size of a pool, region or prefix is refused with the way out; nothing is sent."""
    azure.up()
    azure.write(FILE.replace("Standard_NC24ads_A100_v4", "Standard_D8s_v5"))
    pool = azure.run("up", "--yes")
    azure.write(FILE + "region: eastus\n")
    region = azure.run("up", "--yes")

    assert (2, 2, []) == (pool.code, region.code, azure.fake.writes())
    assert "pools[0].vmSize" in pool.err
    assert "give the pool another name" in pool.err
    assert "write region: westeurope" in region.err


# --- stopped anywhere -----------------------------------------------------------------------------


def _finish(azure: Azure, *words: str) -> None:
    azure.fake.kill_at = azure.fake.kill_at_write = None
    ended = azure.run(*words)
    assert 0 == ended.code, ended.err


@pytest.fixture(scope="module")
def whole() -> dict[str, object]:
    """What is there after an `up` that nobody has stopped, from the first that asks."""
    return {}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(1, 9))
def test_up_goes_on_where_it_was_killed(
    make_azure: Callable[..., Azure], whole: dict[str, object], step: int, after: bool
) -> None:
    """Killed at any of its steps, before or after Azure took it, `up` given again ends the same."""
    if not whole:
        other = make_azure()
        other.up()
        whole |= {"there": other.fake.there(), "kubeconfig": other.kubeconfig()}
    azure = make_azure()
    azure.fake.kill_at_write, azure.fake.kill_after = step, after

    killed = azure.run("up", "--yes")

    assert -signal.SIGKILL == killed.code, killed.err
    _finish(azure, "up", "--yes")
    assert whole == {"there": azure.fake.there(), "kubeconfig": azure.kubeconfig()}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("words", [[], ["--keep-storage"]], ids=["all", "keep-storage"])
def test_down_goes_on_where_it_was_killed(azure: Azure, words: list[str], after: bool) -> None:
    """Killed at its one step, `down` given again removes the rest, and keeps what it should."""
    azure.up()
    azure.fake.kill_at_write, azure.fake.kill_after = 1, after

    assert -signal.SIGKILL == azure.run("down", "--yes", *words).code
    _finish(azure, "down", "--yes", *words)
    there = azure.fake.there()
    assert (["storageAccounts/demodata"] if words else []) == list(there["things"])
    assert ([GROUP] if words else []) == list(there["groups"])


def test_down_right_after_an_up_that_was_killed(make_azure: Callable[..., Azure]) -> None:
    """What Azure does not show yet is waited for, and said so; then it is removed as any other."""
    azure = make_azure(lag=5)
    azure.fake.kill_at_write, azure.fake.kill_after = 1, True
    assert -signal.SIGKILL == azure.run("up", "--yes").code
    azure.fake.kill_at_write = None

    ended = azure.run("down", "--yes")

    assert (0, "demo is gone") == (ended.code, ended.out.splitlines()[-1])
    assert "it is asked again for 2 minutes" in ended.err
    assert {} == azure.fake.there()["groups"]


def test_what_the_list_of_the_group_lacks_goes_too(azure: Azure) -> None:
    """What Azure gives by name is removed, also where the list of what is there is behind."""
    azure.up()
    azure.fake.list_lags = True

    ended = azure.run("down", "--keep-storage", "--yes")

    assert 0 == ended.code, ended.err
    assert ["storageAccounts/demodata"] == list(azure.fake.there()["things"])


def test_machines_that_stay_are_no_success(azure: Azure) -> None:
    """Where the group of the machines does not go, `down` names it and fails: it is paid for."""
    azure.up()
    body = azure.fake.groups[MACHINES].body
    azure.fake.faults = [Fault("GET", f"{MACHINES}$", Answer(200, body), times=1000)]

    ended = azure.run("down", "--yes")

    assert 1 == ended.code
    assert f"`az group delete --name {MACHINES}`" in ended.err


def test_twice_at_once(make_azure: Callable[..., Azure]) -> None:
    """Two `up` at once both end well, and so do two `down`; what is there is there once."""
    azure = make_azure(looks=4)
    for words in (("up", "--yes"), ("down", "--yes")):
        both = [azure.start(*words), azure.start(*words)]
        ended = [program.wait() for program in both]
        assert [0, 0] == [item.code for item in ended], [item.err for item in ended]
    assert {} == azure.fake.there()["things"]


def test_ctrl_c_says_how_to_go_on(azure: Azure) -> None:
    """A Ctrl-C ends with 130, and says that Azure goes on and with which commands."""
    azure.fake.kill_signal = signal.SIGINT
    azure.fake.kill_at = 30

    ended = azure.run("up", "--yes")

    assert 130 == ended.code
    assert "`allranks azure up` goes on with it" in ended.err
    assert "`allranks azure down` removes it" in ended.err
    assert "Traceback" not in ended.err


def test_a_group_half_removed_is_removed(azure: Azure) -> None:
    """Where somebody has removed a part by hand, `up` makes it again and `down` takes the rest."""
    azure.up()
    del azure.fake.things[GROUP, arm.AKS, "demo"]

    up = azure.run("up", "--yes")
    assert 0 == up.code, up.err
    del azure.fake.things[GROUP, arm.STORAGE, "demodata"]
    down = azure.run("down", "--yes")
    assert 0 == down.code, down.err
    assert GROUP not in azure.fake.there()["groups"]


# --- what goes wrong in Azure ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        error(429, "TooManyRequests", "Too many requests.", Retry_After="7"),
        error(503, "ServerTimeout", "The service is busy."),
        error(409, "OperationNotAllowed", "Another operation is in progress."),
        Answer(500, None),
    ],
    ids=["throttled", "busy", "conflict", "empty-500"],
)
def test_what_azure_puts_off_is_asked_again(azure: Azure, answer: Answer) -> None:
    """Throttling, conflicts and its own failures are waited out, as long as Azure asks."""
    azure.fake.faults = [
        Fault("PUT", "managedClusters/demo$", answer, times=3),
        Fault("GET", "storageAccounts/demodata$", answer, times=2 if answer.status != 409 else 0),
    ]

    ended = azure.run("up", "--yes")

    assert 0 == ended.code, ended.err
    assert "managedClusters/demo" in azure.fake.there()["things"]
    assert (answer.status == 429) == ("asked again in 7 s" in ended.err)


def test_an_answer_that_is_lost(azure: Azure) -> None:
    """A request that was carried out, and whose answer was lost, is sent again and does no harm."""
    lost = error(504, "GatewayTimeout", "The gateway did not receive a response.")
    azure.fake.faults = [
        Fault("PUT", path, lost, is_done=True)
        for path in (f"{GROUP}$", "managedClusters/demo$", "demodata$", "gpu$", "datasets$")
    ]

    ended = azure.run("up", "--yes")

    assert 0 == ended.code, ended.err
    assert {"demodata": {"datasets": 100}} == azure.fake.there()["shares"]


def test_what_fails_in_azure_is_told_with_a_fix(azure: Azure) -> None:
    """A cluster that Azure could not make ends with Azure's reason, and `up` again tries anew."""
    azure.fake.failures = {"demo": ["Allocation failed: no capacity for Standard_D4s_v5."]}

    failed = azure.run("up", "--yes")

    assert 1 == failed.code
    assert "could not make AKS cluster demo: Allocation failed: no capacity" in failed.err
    assert "choose another size or region" in failed.err
    status = azure.run("status")
    assert 1 == status.code
    assert "no capacity" in status.out
    again = azure.run("up", "--yes")
    assert 0 == again.code, again.err


def test_a_pool_that_fails(azure: Azure) -> None:
    """A node pool that failed leaves the cluster, and is tried anew by the next `up`."""
    azure.fake.failures = {"gpu": ["Insufficient vcpu quota."]}

    failed = azure.run("up", "--yes")

    assert 1 == failed.code
    assert "could not make node pool gpu" in failed.err
    assert "ask for more vCPUs" in failed.err
    assert 0 == azure.run("up", "--yes").code


def test_what_is_shown_late(make_azure: Callable[..., Azure]) -> None:
    """What Azure does not show at once after it was made is waited for, and not made twice."""
    azure = make_azure(lag=3)

    ended = azure.run("up", "--yes")

    assert 0 == ended.code, ended.err
    puts = [write for write in azure.fake.writes() if write == "PUT demo"]
    assert ["PUT demo"] == puts


def test_a_token_that_expires(azure: Azure) -> None:
    """A token that expires meanwhile is fetched anew; one that is never taken ends with the fix."""
    azure.fake.expired_at = {12, 20, 31}
    assert 0 == azure.run("up", "--yes").code

    never = azure.run("status", ALLRANKS_AZURE_TOKEN="another")

    assert 1 == never.code
    assert "az login" in never.err


@pytest.mark.parametrize(
    ("may_not", "action", "role", "place"),
    [
        (
            "PUT .*managedClusters",
            "make cluster demo",
            "Azure Kubernetes Service Contributor Role",
            f"/subscriptions/{arm.SUBSCRIPTION}/resourceGroups/{GROUP}",
        ),
        (
            f"PUT .*{GROUP}$",
            f"make resource group {GROUP}",
            "Contributor",
            f"/subscriptions/{arm.SUBSCRIPTION}",
        ),
        (
            f"DELETE .*{GROUP}$",
            f"remove resource group {GROUP}",
            "Contributor",
            f"/subscriptions/{arm.SUBSCRIPTION}/resourcegroups/{GROUP}",
        ),
        (
            "GET .*skus",
            "list the sizes of machines",
            "Reader",
            f"/subscriptions/{arm.SUBSCRIPTION}",
        ),
        (
            "POST .*register",
            "register the resource provider Microsoft.Storage",
            "Contributor",
            f"/subscriptions/{arm.SUBSCRIPTION}",
        ),
    ],
    ids=["cluster", "group", "removal", "sizes", "provider"],
)
def test_no_rights_name_the_role(
    azure: Azure, may_not: str, action: str, role: str, place: str
) -> None:
    """What one may not do is told with the role that is missing, and the command that gives it."""
    azure.fake.may_not = may_not
    azure.fake.registered["Microsoft.Storage"] = "register" not in may_not
    if "DELETE" in may_not:
        azure.fake.add_group(GROUP, TAGS)

    ended = azure.run("down" if "DELETE" in may_not else "up", "--yes")

    assert 1 == ended.code
    assert f"you may not {action}" in ended.err
    command = f"--role '{role}' --assignee {arm.SUBSCRIPTION} --scope {place}`"
    assert f"az role assignment create {command}" in ended.err


@pytest.mark.parametrize(
    ("status", "code", "message", "fix"),
    [
        (409, "ScopeLocked", "The scope cannot perform delete operation.", "az lock delete"),
        (409, "ReadOnlyDisabledSubscription", "It is disabled.", "have the subscription enabled"),
        (403, "RequestDisallowedByPolicy", "Resource was disallowed.", "who owns the policy"),
        (
            401,
            "InvalidAuthenticationTokenTenant",
            f"It must match the tenant 'https://sts.windows.net/{arm.SUBSCRIPTION}/'.",
            f"az login --tenant {arm.SUBSCRIPTION}",
        ),
    ],
    ids=["lock", "disabled", "policy", "tenant"],
)
def test_what_stays_refused_is_asked_once(
    azure: Azure, status: int, code: str, message: str, fix: str
) -> None:
    """Locks, policies and the like are told at once with their own fix, and not waited out."""
    azure.fake.add_group(GROUP, TAGS)
    azure.fake.faults = [Fault("DELETE", "", error(status, code, message), times=1000)]

    ended = azure.run("down", "--yes")

    assert 1 == ended.code
    assert fix in ended.err
    assert [f"DELETE {GROUP}"] == azure.fake.writes()


def test_no_login(azure: Azure) -> None:
    """Without a login it is one error with its fix, and nothing of the SDK's own log."""
    azure.write(FILE + "login: environment\n")

    ended = azure.run("plan", ALLRANKS_AZURE_ENDPOINT="")

    assert (2, 2) == (ended.code, len(ended.err.splitlines())), ended.err
    assert ended.err.startswith("error: there is no login to Azure: EnvironmentCredential")


def test_a_subscription_that_is_not_there(azure: Azure) -> None:
    """A subscription that does not exist is refused with how to find those that do."""
    azure.write(FILE.replace(arm.SUBSCRIPTION, "99999999-2222-3333-4444-555555555555"))

    ended = azure.run("plan")

    assert 2 == ended.code
    assert "`az account list` shows those that you may use" in ended.err


def test_providers_are_registered(azure: Azure) -> None:
    """A subscription that never used AKS is told to, before anything is made."""
    azure.fake.registered["Microsoft.ContainerService"] = False

    ended = azure.run("up", "--yes")

    assert 0 == ended.code, ended.err
    assert azure.fake.registered["Microsoft.ContainerService"]


# --- what a region and a subscription lack --------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "storage:",
            "region: westeurop\nstorage:",
            ["region: there is no AKS", "write westeurope"],
        ),
        (
            "Standard_NC24ads_A100_v4",
            "Standard_NC24ads_A100_v5",
            ["pools[0].vmSize", "write Standard_NC24ads_A100_v4"],
        ),
        (
            "Standard_NC24ads_A100_v4",
            "Standard_ND96isr_H100_v5",
            ["this subscription may have no Standard_ND96isr_H100_v5"],
        ),
        ("maxNodes: 2", "minNodes: 1, maxNodes: 2", ["pools[0].minNodes", "write 0"]),
        (
            "storage:",
            'cluster: {kubernetesVersion: "1.20"}\nstorage:',
            ["there is no Kubernetes 1.20", "1.34, 1.35"],
        ),
        ("account: demodata", "account: theirs", ["storage.account", "already taken"]),
    ],
    ids=["region", "size", "restricted", "gpu-floor", "version", "account"],
)
def test_what_is_not_there_is_refused_before_anything_is_made(
    azure: Azure, old: str, new: str, words: list[str]
) -> None:
    """Regions, sizes, versions and names are asked for first, and the nearest is named."""
    azure.fake.foreign_names = {"theirs"}
    azure.write(FILE.replace(old, new))

    ended = azure.run("up", "--yes")

    assert (2, []) == (ended.code, azure.fake.writes()), ended.err
    assert [] == [word for word in words if word not in ended.err], ended.err


@pytest.mark.parametrize("family", ["StandardNCADSA100v4Family", "cores", "standardDSv5Family"])
def test_quota_is_asked_for_before_anything_is_made(azure: Azure, family: str) -> None:
    """Where the quota of a family or of the region has no room for one machine, nothing is made."""
    azure.fake.limits[family] = 3

    ended = azure.run("up", "--yes")

    assert (2, []) == (ended.code, azure.fake.writes()), ended.err
    assert "0 of 3 are used" in ended.err
    assert "Quotas > Compute > westeurope" in ended.err


def test_a_pool_that_cannot_grow_to_its_most_is_noted(azure: Azure) -> None:
    """Where the quota is enough for some of a pool's machines only, a note says for how many."""
    azure.fake.limits["StandardNCADSA100v4Family"] = 24

    plan = azure.run("plan")

    assert 0 == plan.code
    assert "may grow to 2 nodes, and the quota" in plan.err
    assert "is enough for 1" in plan.err


# --- time -----------------------------------------------------------------------------------------


def test_reap_goes_by_azures_clock(azure: Azure) -> None:
    """What is past its time by Azure's clock is removed, whatever this machine's clock says."""
    azure.up()
    azure.fake.add_group("theirs", {"allranks-expires": EXPIRES})
    azure.fake.pass_time(11.9)
    early = azure.run("reap", "--yes")
    assert "nothing is past its time\n" == early.out
    azure.fake.pass_time(0.2)

    ended = azure.run("reap", "--yes", "-o", "json")

    assert 0 == ended.code, ended.err
    assert [{"name": "demo", "resourceGroup": GROUP}] == ended.data["removed"]
    assert ["theirs"] == list(azure.fake.there()["groups"])


def test_reap_goes_on_where_one_cannot_go(azure: Azure) -> None:
    """What cannot be removed does not keep the rest; what was given more time meanwhile stays."""
    azure.up()
    azure.fake.add_group("second", {**TAGS, "allranks-name": "second"})
    azure.fake.add_group("third", {**TAGS, "allranks-name": "third"})
    azure.fake.pass_time(24)
    more = {**TAGS, "allranks-name": "third", "allranks-expires": "2027-01-01T00:00:00Z"}
    group = {**azure.fake.groups["third"].body, "tags": more}
    azure.fake.faults = [
        Fault("DELETE", GROUP, error(409, "ScopeLocked", "It is locked."), times=1000),
        Fault("GET", "third$", Answer(200, group), times=1000),
    ]

    ended = azure.run("reap", "--yes", "-o", "json")

    assert 1 == ended.code
    assert [{"name": "second", "resourceGroup": "second"}] == ended.data["removed"]
    assert ["Azure does not remove resource group allranks-demo: It is locked"] == [
        problem["message"] for problem in ended.data["problems"]
    ]
    assert [GROUP, MACHINES, "third"] == list(azure.fake.there()["groups"])
    assert "third has been given more time" in ended.err


def test_reap_from_inside_begins_and_ends(azure: Azure) -> None:
    """With --no-wait it ends when Azure has begun: the pod that asks goes with the cluster."""
    azure.up()
    azure.fake.looks = 1000
    azure.fake.pass_time(13)

    ended = azure.run("reap", "--yes", "--no-wait", "--only", "demo")

    assert 0 == ended.code, ended.err
    assert [f"DELETE {GROUP}"] == azure.fake.writes()
    assert GROUP in azure.fake.there()["groups"]
    assert 0 == azure.run("reap", "--yes", "--only", "other").code


def test_what_is_over_is_not_made_anew(azure: Azure) -> None:
    """After its time `up` refuses, until maxHours is raised; then only tags are changed."""
    azure.up()
    azure.fake.pass_time(13)
    over = azure.run("up", "--yes")
    assert (2, []) == (over.code, azure.fake.writes())
    assert "raise maxHours" in over.err

    azure.write(FILE + "maxHours: 48\n")
    ended = azure.run("up", "--yes")

    assert 0 == ended.code, ended.err
    assert sorted(["PUT allranks-demo", "PATCH demo", "PUT demodata"]) == sorted(
        azure.fake.writes()
    )


def test_cost_guard_names_what_need_not_run(azure: Azure) -> None:
    """It shows what runs and until when; GPU pools that never shrink are scaled from 0 on."""
    azure.up()
    assert 0 == azure.run("cost-guard").code
    pools = azure.fake.things[GROUP, arm.AKS, "demo"].body["properties"]["agentPoolProfiles"]
    pools[1] |= {"count": 2, "enableAutoScaling": False}
    azure.fake.pass_time(13)

    shown = azure.run("cost-guard", "-o", "json")
    mended = azure.run("cost-guard", "--yes")

    assert 1 == shown.code
    (bill,) = shown.data
    assert ("demo", EXPIRES) == (bill["name"], bill["expires"])
    assert ["expired 1h00m ago", "node pool gpu always has 2 nodes with GPUs"] == [
        finding["finding"] for finding in bill["findings"]
    ]
    assert 1 == mended.code  # what has expired is not mended by it
    pool = pools[1]
    assert (True, 0, 2) == (pool["enableAutoScaling"], pool["minCount"], pool["maxCount"])


# --- the kubeconfig, and secrets ------------------------------------------------------------------


def test_the_login_is_in_the_kubeconfig_alone(azure: Azure) -> None:
    """The cluster's login is in the kubeconfig, for its owner alone, and printed nowhere."""
    ended = [azure.run("up", "--yes"), azure.run("status"), azure.run("plan", "-o", "json")]

    path = azure.folder / "kubeconfig"
    assert arm.SECRET in path.read_text()
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [] == [item for item in ended if arm.SECRET in item.out + item.err]
    assert ["azure.yaml", "kubeconfig"] == sorted(item.name for item in azure.folder.iterdir())
    assert [] == [item for item in azure.fake.requests if "listKeys" in item.path]


def test_a_context_of_another_cluster_is_kept(azure: Azure) -> None:
    """A context of the same name that is of another cluster stays, without --overwrite."""
    text = """\
clusters: [{name: demo, cluster: {server: "https://mine"}}]
contexts: [{name: demo, context: {cluster: demo, user: me}}]
users: [{name: me, user: {}}]
current-context: demo
"""
    (azure.folder / "kubeconfig").write_text(text)
    azure.fake.kill_at = None

    ended = azure.run("up", "--yes")

    assert 2 == ended.code
    assert "add --overwrite" in ended.err
    assert text == (azure.folder / "kubeconfig").read_text()
    assert 0 == azure.run("kubeconfig", "--overwrite", "--no-switch").code
    users = [item["name"] for item in azure.kubeconfig()["users"]]
    assert ["me", f"clusterUser_{GROUP}_demo"] == users
    again = azure.run("kubeconfig", "-o", "json")
    assert {"ok": True, "context": "demo", "isCurrent": True} == again.data


def test_errors_are_json_with_o_json(azure: Azure) -> None:
    """With -o json what is refused is JSON on standard output, with paths and fixes."""
    azure.fake.add_group(GROUP, {})

    ended = azure.run("up", "--yes", "-o", "json")

    assert (2, False) == (ended.code, ended.data["ok"])
    assert ["resourceGroup"] == [problem["path"] for problem in ended.data["problems"]]
