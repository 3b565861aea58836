"""How the launcher waits for its workers, and what it says of one that does not answer."""

from __future__ import annotations

import re
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from .pods import PORT, SHELLS, until

if TYPE_CHECKING:
    from .conftest import MakeLab

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# As short as it can be for every host to be asked, on a busy machine too.
_BRIEF = {"ALLRANKS_WAIT_SECONDS": "20"}


@pytest.mark.parametrize("shell", SHELLS)
def test_host_without_an_address_is_named(lab: MakeLab, shell: str) -> None:
    """Without a queue a worker has waitSeconds to get an address; the others end with the job."""
    job = lab("openmpi4", shell=shell)
    worker = job.worker(0)
    worker.says("this worker is ready")
    launcher = job.launcher("true", **_BRIEF)
    assert launcher.end() == 1
    message = re.sub(r"\d+ s:", "N s:", launcher.message)
    reason = "its name has no address (is its pod pending, or gone?)"
    assert f"1 of 2 hosts did not answer within N s: job-worker-1.job.lab.svc: {reason}" == message
    assert worker.end() == 0


def test_host_that_refuses_is_named(lab: MakeLab) -> None:
    """An address where nothing listens: the worker is still in its setup, or failed."""
    job = lab("openmpi4", workers=1)
    job.worker(0, ALLRANKS_MPI_PORT="2223").says("this worker is ready")
    launcher = job.launcher("true", **_BRIEF)
    assert launcher.end() == 1
    assert f"job-worker-0.job.lab.svc: nothing listens on port {PORT}" in launcher.message


def test_worker_with_another_key_is_named_soon(lab: MakeLab) -> None:
    """Keys that do not fit will not fit later: the wait is short, whatever waitSeconds is."""
    job = lab("openmpi4", workers=1)
    job.worker(0).says("this worker is ready")
    job.new_key(job.key)
    launcher = job.launcher("true", ALLRANKS_WAIT_SECONDS="600")
    assert launcher.end() == 1
    assert "job-worker-0.job.lab.svc: its ssh key is another one" in launcher.message


def test_user_who_is_not_let_in_is_named(lab: MakeLab) -> None:
    """A worker that runs as another user than the launcher refuses the launcher's name."""
    job = lab("openmpi4", workers=1, user=12345)
    job.worker(0).says("this worker is ready")
    job.user = 0
    launcher = job.launcher("true", **_BRIEF)
    assert launcher.end() == 1
    assert "job-worker-0.job.lab.svc: it refused the ssh key" in launcher.message


def test_queue_is_waited_for_without_end(lab: MakeLab) -> None:
    """Under a scheduler a host without an address is queued, for as long as it takes."""
    job = lab("openmpi4", env={"ALLRANKS_MPI_WAIT_FOR_PODS": "scheduler"})
    # They run already, and only their names come late: on a busy machine an sshd may take longer to
    # start than a host with an address has.
    workers = job.all_workers()
    for worker in workers:
        job.forget(worker.name)
    launcher = job.launcher("echo", "it runs", ALLRANKS_WAIT_SECONDS="10")
    # A word that comes after the bound.
    word = r"waiting for 2 of 2 hosts \(\d\d+ s\): job-worker-0\.job\.lab\.svc: its name has no"
    until(lambda: re.search(word, launcher.log), "the word of those that are waited for")
    for worker in workers:
        job.remember(worker)
    assert launcher.end() == 0, launcher.log


def test_silent_host_in_a_queue_is_bounded(lab: MakeLab) -> None:
    """A host that has an address and does not answer is not in the queue any more."""
    job = lab("openmpi4", env={"ALLRANKS_MPI_WAIT_FOR_PODS": "scheduler"}, workers=1)
    job.worker(0, ALLRANKS_MPI_PORT="2223").says("this worker is ready")
    launcher = job.launcher("true", **_BRIEF)
    assert launcher.end() == 1
    assert "job-worker-0.job.lab.svc: nothing listens" in launcher.message


def test_elastic_job_starts_with_the_fewest(lab: MakeLab) -> None:
    """ALLRANKS_MPI_MIN_HOSTS hosts are enough, and discover_hosts.sh follows the rest."""
    job = lab("openmpi4", workers=3, env={"ALLRANKS_MPI_MIN_HOSTS": "2"})
    job.worker(0).says("this worker is ready")
    last = job.worker(2)
    last.says("this worker is ready")
    ask = f"echo; {job.mount}/discover_hosts.sh | tr '\\n' ' '"
    fresh = {"ALLRANKS_MPI_DISCOVER_SECONDS": "0", "ALLRANKS_MPI_WRAP": ""}
    launcher = job.launcher("sh", "-c", f"while :; do {ask}; sleep 0.2; done", **fresh)
    launcher.says("2 of 3 hosts answer; starting")
    names = [f"job-worker-{index}.job.lab.svc" for index in range(3)]
    launcher.says(f"\n{names[0]} {names[2]} \n")
    job.worker(1).says("this worker is ready")
    launcher.says(f"\n{names[0]} {names[1]} {names[2]} \n")
    last.kill()
    job.forget(last.name)
    until(lambda: launcher.log.endswith(f"\n{names[0]} {names[1]} "), "the host list to shrink")
    launcher.signal(signal.SIGTERM)
    launcher.end()


def test_host_list_is_kept_for_some_seconds(lab: MakeLab) -> None:
    """Horovod asks every second; the hosts are asked less often."""
    job = lab("openmpi4", workers=1)
    job.all_workers()
    slow = {"ALLRANKS_MPI_DISCOVER_SECONDS": "600", "ALLRANKS_MPI_WRAP": ""}
    discover = f"{job.mount}/discover_hosts.sh"
    first = f"until {discover} | grep -q job-worker-0; do rm $ALLRANKS_STATE/discovered; done"
    stop = "ssh job-worker-0 allranks:stop >/dev/null; sleep 3"
    script = f"{first}; {discover}; {stop}; {discover}"
    launcher = job.launcher("sh", "-c", script, ALLRANKS_MPI_MIN_HOSTS="1", **slow)
    launcher.end()
    lines = [line for line in launcher.log.splitlines() if line.startswith("job-worker-")]
    assert ["job-worker-0.job.lab.svc"] * 2 == lines


# --- images that cannot do it ---------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_image_without_sshd(lab: MakeLab, shell: str) -> None:
    """The worker ends with 127 and says what to install."""
    job = lab("openmpi4", workers=1, shell=shell)
    job.lay_over("/usr/sbin/sshd", "")
    worker = job.worker(0)
    assert worker.end() == 127
    assert "this image has no sshd: install openssh-server" in worker.message


# What an sshd says that does not know a limit for each address, and does otherwise.
OLD_SSHD = """#!/bin/sh
for file; do
  [ ! -f "$file" ] || ! grep -q PerSourceMaxStartups "$file" || {
    echo "$file: line 17: Bad configuration option: PerSourceMaxStartups" >&2
    exit 255
  }
done
exec REAL "$@"
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_image_with_an_old_sshd(lab: MakeLab, shell: str) -> None:
    """A limit that it does not know is left out: the ranks run."""
    job = lab("openmpi4", workers=1, shell=shell)
    real = job.folder / "real-sshd"
    shutil.copy("/usr/sbin/sshd", real)
    job.lay_over("/usr/sbin/sshd", OLD_SSHD.replace("REAL", str(real)))
    job.overlays["/usr/sbin/sshd"].chmod(0o755)
    job.all_workers()
    assert job.launcher("true").end() == 0


def test_image_without_ssh(lab: MakeLab) -> None:
    """The launcher ends with 127 and says what to install."""
    job = lab("openmpi4", workers=1)
    job.lay_over("/usr/bin/ssh", "")
    launcher = job.launcher("true")
    assert launcher.end() == 127
    assert "this image has no ssh client" in launcher.message


def test_user_without_a_name(lab: MakeLab) -> None:
    """A name is what sshd looks users up by: the id that has none is said, and what can be done."""
    job = lab("openmpi4", workers=1, user=12345)
    for path in ("/etc/passwd", "/etc/group"):
        del job.overlays[path]
    worker = job.worker(0)
    assert worker.end() == 1
    assert "user id 12345 has no name in this image's /etc/passwd" in worker.message


def test_user_without_a_name_where_the_file_may_be_written(lab: MakeLab) -> None:
    """An image whose /etc/passwd its group may write gets the missing line."""
    job = lab("openmpi4", workers=1, user=12345)
    passwd = job.overlays["/etc/passwd"]
    passwd.write_text("root:x:0:0:root:/root:/bin/sh\n")
    passwd.chmod(0o666)
    job.all_workers()
    assert job.launcher("true").end() == 0


def test_user_whose_shell_lets_nobody_in(lab: MakeLab) -> None:
    """Commands are run by the user's login shell: nologin is found out by the worker itself."""
    job = lab("openmpi4", workers=1, user=12345)
    passwd = job.overlays["/etc/passwd"]
    passwd.write_text(passwd.read_text().replace("none:/bin/sh", "none:/usr/sbin/nologin"))
    worker = job.worker(0)
    assert worker.end() == 1
    assert "its login shell lets nobody in" in worker.message


def test_locked_account(lab: MakeLab) -> None:
    """An account that sshd takes for locked is found out by the worker, in sshd's own words."""
    job = lab("openmpi4", workers=1)
    job.lay_over("/etc/shadow", "root:!:19000:0:99999:7:::\n")
    worker = job.worker(0)
    assert worker.end() == 1
    assert "account is locked" in worker.message


def test_root_without_the_capabilities(lab: MakeLab) -> None:
    """As root sshd needs some: a pod that drops all of them ends with its words."""
    job = lab("openmpi4", workers=1)
    job.drop = True
    worker = job.worker(0)
    assert worker.end() == 1
    assert "sshd of this image lets user root not in" in worker.message


def test_secret_that_is_no_key(lab: MakeLab) -> None:
    """An existingSecret with something else in it, or none mounted, is said."""
    job = lab("openmpi4", workers=1)
    job.key.chmod(0o644)
    job.key.write_text("ssh-ed25519 AAAA public\n")
    worker = job.worker(0)
    assert worker.end() == 1
    assert "ssh-privatekey is no private key" in worker.message
    job.key.unlink()
    launcher = job.launcher("true")
    assert launcher.end() == 1
    assert "is the Secret mounted?" in launcher.message


def test_setup_that_fails(lab: MakeLab) -> None:
    """The worker ends with setup's code; a launcher's command is not run."""
    job = lab("openmpi4", workers=1)
    (job.mount / "setup.sh").write_text("false\n")
    worker = job.worker(0)
    assert worker.end() == 1
    assert "setup failed with exit code 1" in worker.log
    launcher = job.launcher("echo", "it runs")
    assert launcher.end() == 1
    assert "it runs" not in launcher.log
