"""Generations of workers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allranks_operator.master.rendezvous import Generation, PeerNode, Rendezvous, Timing

TIMING = Timing(gather=10, recover=30, lost=45, stop=60)


def node(number: int, port: int = 1000) -> PeerNode:
    """A worker."""
    return PeerNode(f"j-edljob-worker-{number}", f"10.0.0.{number}", port + number)


def name(number: int) -> str:
    """Its pod."""
    return node(number).pod


def first_generation(*numbers: int, minimum: int = 1) -> Rendezvous:
    """A job whose first generation has these workers; at second 0."""
    rendezvous = Rendezvous(TIMING, minimum, now=-1000.0)
    for number in numbers:
        rendezvous.join(node(number), Generation(), 0.0, training=False)
    world = rendezvous.tick([name(number) for number in numbers], 0.0)
    assert world is not None
    assert tuple(node(number) for number in numbers) == world.nodes
    return rendezvous


def again(job: Rendezvous, now: float, *numbers: int) -> None:
    """Workers that were told to stop have stopped, and join again."""
    for number in numbers:
        job.join(node(number, 2000), Generation(job.world.generation), now, training=False)


def test_a_generation_begins_when_all_that_are_expected_have_joined() -> None:
    """Ranks follow the pods' numbers, not who came first."""
    job = Rendezvous(TIMING, 1, now=-1000.0)
    pods = [name(number) for number in (2, 10, 9)]
    for number in (10, 2):
        job.join(node(number), Generation(), 0.0, training=False)
        assert job.tick(pods, 0.0) is None
    job.join(node(9), Generation(), 1.0, training=False)
    world = job.tick(pods, 1.0)
    assert world is not None
    assert [name(2), name(9), name(10)] == [node.pod for node in world.nodes]
    assert 1 == world.generation


def test_those_that_do_not_come_are_waited_for_a_while() -> None:
    """A pod that pulls a large image does not keep the others from training."""
    job = Rendezvous(TIMING, 1, now=-1000.0)
    job.join(node(0), Generation(), 0.0, training=False)
    pods = [name(0), name(1)]
    assert job.tick(pods, 0.0) is None
    assert job.tick(pods, 9.9) is None
    world = job.tick(pods, 10.0)
    assert world is not None
    assert 1 == len(world.nodes)


def test_fewer_than_the_least_wait() -> None:
    """A generation is never smaller than allowed."""
    job = Rendezvous(TIMING, 2, now=-1000.0)
    job.join(node(0), Generation(), 0.0, training=False)
    assert job.tick([name(0)], 0.0) is None
    assert job.tick([name(0)], 40.0) is None


def test_a_new_worker_makes_all_stop_before_the_next_generation() -> None:
    """Never do two generations train at once; those of the old one keep their ranks."""
    job = first_generation(0, 1)
    job.join(node(2), Generation(), 5.0, training=False)
    pods = [name(number) for number in range(3)]
    assert job.tick(pods, 5.0) is None
    assert job.forming is not None
    again(job, 6.0, 1)
    assert job.tick(pods, 6.0) is None
    again(job, 7.0, 0)
    world = job.tick(pods, 7.0)
    assert world is not None
    assert (2, (name(0), name(1), name(2))) == (
        world.generation,
        tuple(node.pod for node in world.nodes),
    )
    assert 2000 == world.nodes[0].port


def test_a_lost_worker_leaves_the_others_to_go_on() -> None:
    """At once where its pod is known to be gone."""
    job = first_generation(0, 1, 2)
    job.lose(name(1))
    assert job.tick([name(0), name(2)], 3.0) is None
    again(job, 4.0, 0, 2)
    world = job.tick([name(0), name(2)], 4.0)
    assert world is not None
    assert [name(0), name(2)] == [node.pod for node in world.nodes]


def test_a_silent_worker_is_lost() -> None:
    """No word of it for too long: its machine is gone, whatever the list of pods says."""
    job = first_generation(0, 1)
    job.hear(name(0), 40.0)
    job.tick([name(0), name(1)], 46.0)
    assert {name(1)} == job.broken
    assert [name(0)] == list(job.members)


def test_where_all_are_needed_those_that_are_left_stop_and_wait() -> None:
    """A frozen worker keeps the others hanging: they are stopped at once, to be there for another.

    The pod of the frozen one runs, so nobody else would replace it.
    """
    job = first_generation(0, 1, minimum=2)
    job.hear(name(0), 40.0)
    pods = [name(0), name(1)]
    assert job.tick(pods, 45.0) is None
    assert (None, {}) == (job.forming, job.doubtful_pods(45.0))
    job.hear(name(0), 46.0)
    assert job.tick(pods, 46.0) is None
    assert 46.0 == job.forming
    assert {name(1): "said nothing for 45 s (lostSeconds)"} == job.doubtful_pods(46.0)
    again(job, 47.0, 0)
    assert job.tick(pods, 47.0) is None
    job.join(node(2), Generation(), 60.0, training=False)
    world = job.tick([name(0), name(2)], 60.0)
    assert world is not None
    assert [name(0), name(2)] == [node.pod for node in world.nodes]


def test_those_left_at_the_end_go_on_though_they_are_too_few() -> None:
    """Two are done, two are taken away in this moment, and nobody will come for the last one.

    It trains what is left, from its last checkpoint, by itself: to wait would be for ever.
    """
    job = first_generation(0, 1, 2, 3, minimum=2)
    job.done(name(1), 5.0)
    job.lose(name(2))
    job.lose(name(3))
    assert job.tick([name(0)], 5.0) is None
    again(job, 6.0, 0)
    world = job.tick([name(0)], 6.0)
    assert world is not None
    assert [name(0)] == [node.pod for node in world.nodes]
    job.done(name(0), 7.0)
    assert job.finished


def test_one_that_takes_a_lost_ones_place_at_the_end_trains() -> None:
    """The others are done, and it is one where two are the least."""
    job = first_generation(0, 1, minimum=2)
    job.done(name(1), 5.0)
    job.lose(name(0))
    assert job.tick([], 5.0) is None
    job.join(node(2), Generation(), 8.0, training=False)
    world = job.tick([name(2)], 8.0)
    assert world is not None
    assert [name(2)] == [node.pod for node in world.nodes]


def test_a_silent_worker_is_not_waited_for() -> None:
    """It is expected no more, though its pod is still there."""
    job = first_generation(0, 1)
    job.hear(name(0), 40.0)
    job.tick([name(0), name(1)], 46.0)
    assert 46.0 == job.forming


def test_who_is_heard_of_again_is_not_given_up() -> None:
    """It was frozen for a minute, and joins before its pod is taken away."""
    job = first_generation(0, 1)
    job.hear(name(0), 40.0)
    job.tick([name(0), name(1)], 46.0)
    job.join(node(1), job.world, 47.0, training=True)
    assert {} == job.doubtful_pods(47.0)
    job.silent["gone"] = (0.0, "")
    job.forget([name(0)])
    assert {} == job.silent


def test_who_does_not_stop_nor_join_again_is_given_up() -> None:
    """It is left behind after `stop`, and has `lost` seconds more to come back by itself."""
    job = first_generation(0, 1, minimum=2)
    job.fail(name(0), 1, 5.0)
    pods = [name(0), name(1)]
    again(job, 5.0, 0)
    for second in range(5, 111, 5):
        job.hear(name(0), float(second))
        assert job.tick(pods, float(second)) is None
        assert (second >= 110) == bool(job.doubtful_pods(float(second)))
    assert {name(1): "did not stop in 60 s, nor join again"} == job.doubtful_pods(110.0)


def test_a_new_master_gives_up_pods_that_do_not_tell() -> None:
    """A worker was frozen while there was no master; the others know that it trains with them."""
    old = first_generation(0, 1).world
    job = Rendezvous(TIMING, 2, now=0.0)
    job.join(node(0), old, 2.0, training=True)
    job.hear(name(0), 30.0)
    job.tick([name(0), name(1)], 31.0)
    assert [name(1)] == list(job.doubtful_pods(31.0))
    assert 31.0 == job.forming


def test_a_training_that_hangs_is_started_anew_as_often_as_one_that_fails() -> None:
    """All live and nobody comes forward."""
    job = first_generation(0, 1)
    for generation in range(2, 6):
        for number in (0, 1):
            job.hear(name(number), 1.0)
        job.stall("no step was reported")
        job.tick([name(0), name(1)], 1.0)
        assert 1.0 == job.forming
        again(job, 1.0, 0, 1)
        world = job.tick([name(0), name(1)], 1.0)
        assert (generation <= 4) == (world is not None)
    assert ("no step was reported", True) == (job.cause, job.exhausted)


def test_a_worker_that_does_not_stop_is_left_behind() -> None:
    """A hung one keeps nobody from training for ever."""
    job = first_generation(0, 1)
    job.join(node(2), Generation(), 5.0, training=False)
    pods = [name(number) for number in range(3)]
    job.tick(pods, 5.0)
    again(job, 6.0, 0)
    for second in range(6, 65, 5):
        for number in range(3):
            job.hear(name(number), float(second))
        assert job.tick(pods, float(second)) is None
    world = job.tick(pods, 65.0)
    assert world is not None
    assert [name(0), name(2)] == [node.pod for node in world.nodes]


def test_a_new_master_takes_over_who_trains() -> None:
    """Its workers tell the generation that they train in, and nobody is disturbed."""
    old = first_generation(0, 1).world
    job = Rendezvous(TIMING, 1, now=0.0)
    pods = [name(0), name(1)]
    for number in (0, 1):
        assert job.join(node(number, 9000), old, 2.0 + number, training=True)
        assert job.tick(pods, 2.0 + number) is None
    assert (old, None) == (job.world, job.forming)
    job.hear(name(0), 50.0)
    job.hear(name(1), 50.0)
    assert job.tick(pods, 60.0) is None
    assert old == job.world


def test_a_new_master_waits_for_workers_that_train_before_it_takes_new_ones() -> None:
    """Somebody new joins first: the training of the others is not run over."""
    old = first_generation(0, 1).world
    job = Rendezvous(TIMING, 1, now=0.0)
    pods = [name(0), name(1), name(2)]
    job.join(node(2), Generation(), 1.0, training=False)
    assert job.tick(pods, 15.0) is None
    for number in (0, 1):
        job.join(node(number), old, 16.0, training=True)
    job.tick(pods, 16.0)
    assert old == job.world
    assert job.forming is not None


def test_a_new_master_loses_those_that_do_not_tell() -> None:
    """A worker died while there was no master."""
    old = first_generation(0, 1).world
    job = Rendezvous(TIMING, 1, now=0.0)
    job.join(node(0), old, 2.0, training=True)
    job.tick([name(0)], 2.0)
    assert job.forming is None
    job.hear(name(0), 31.0)
    job.tick([name(0)], 31.0)
    assert {name(1)} == job.broken
    assert job.forming is not None


def test_who_trains_in_a_generation_that_is_over_has_to_stop() -> None:
    """Cut off from the master it was lost, and the others went on without it."""
    job = first_generation(0, 1)
    old = job.world
    job.lose(name(1))
    again(job, 1.0, 0)
    assert job.tick([name(0)], 1.0) is not None
    assert not job.join(node(1), old, 2.0, training=True)
    assert name(1) not in job.members


def test_a_number_that_is_remembered_without_its_workers_disturbs_nobody() -> None:
    """They tell who they are, and the next generation has the next number."""
    old = first_generation(0, 1).world
    job = Rendezvous(TIMING, 1, now=0.0, world=Generation(old.generation))
    for number in (0, 1):
        assert job.join(node(number), old, 2.0, training=True)
    assert old == job.world
    other = Rendezvous(TIMING, 1, now=-1000.0, world=Generation(6))
    other.join(node(0), Generation(), 0.0, training=False)
    world = other.tick([name(0)], 0.0)
    assert world is not None
    assert 7 == world.generation


def test_numbers_of_generations_only_go_up() -> None:
    """A master that knows nothing hears of the last one from a worker that waits."""
    job = Rendezvous(TIMING, 1, now=-1000.0)
    job.join(node(0), Generation(7), 0.0, training=False)
    world = job.tick([name(0)], 0.0)
    assert world is not None
    assert 8 == world.generation


def test_the_job_has_finished_when_all_of_a_generation_are_done() -> None:
    """And while it ends, a new worker is not let in any more."""
    job = first_generation(0, 1)
    job.done(name(0), 1.0)
    job.join(node(2), Generation(), 2.0, training=False)
    assert job.tick([name(1), name(2)], 2.0) is None
    assert job.forming is None
    assert (True, False) == (job.ending, job.finished)
    job.done(name(1), 3.0)
    assert job.finished


def test_failures_in_a_row_are_counted_and_progress_begins_anew() -> None:
    """Three tries; a step that was never done before makes them three again."""
    job = first_generation(0)
    for _ in range(3):
        job.fail(name(0), job.world.generation, 1.0)
        again(job, 1.0, 0)
        assert job.tick([name(0)], 1.0) is not None
    job.progressed = True
    job.fail(name(0), job.world.generation, 1.0)
    again(job, 1.0, 0)
    assert job.tick([name(0)], 1.0) is not None
    assert 1 == job.restarts
    for _ in range(2):
        job.fail(name(0), job.world.generation, 1.0)
        again(job, 1.0, 0)
        assert job.tick([name(0)], 1.0) is not None
    job.fail(name(0), job.world.generation, 1.0)
    again(job, 1.0, 0)
    assert job.tick([name(0)], 1.0) is None
    assert job.exhausted


def test_a_failure_that_a_lost_worker_caused_is_not_counted() -> None:
    """Its peers fail because their connection broke; that is not the training's fault."""
    job = first_generation(0, 1)
    for _ in range(5):
        job.fail(name(0), job.world.generation, 1.0)
        job.lose(name(1))
        again(job, 1.0, 0)
        job.join(node(1), Generation(), 1.0, training=False)
        assert job.tick([name(0), name(1)], 1.0) is not None
    assert 0 == job.restarts


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "lose", "done", "fail", "stopped", "time", "hear"]),
        st.integers(0, 4),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_whatever_happens_the_rules_hold(steps: list[tuple[str, int]]) -> None:
    """Over any course of events.

    Numbers go up by one, a generation never begins while one of the old trains, nobody is in it
    twice, and with those that are done it is never smaller than the least.
    """
    job = Rendezvous(TIMING, 2, now=-1000.0)
    now = 0.0
    training: set[str] = set()
    for action, number in steps:
        pod = name(number)
        if action == "join" and pod not in training:
            job.join(node(number), Generation(job.world.generation), now, training=False)
        elif action == "lose":
            job.lose(pod)
            training.discard(pod)
        elif action == "done" and pod in training:
            job.done(pod, now)
            training.discard(pod)
        elif action == "fail" and pod in training:
            job.fail(pod, job.world.generation, now)
            training.discard(pod)
        elif action == "stopped" and job.forming is not None:
            for pod_name in list(training):
                training.discard(pod_name)
                job.join(
                    node(int(pod_name[-1])), Generation(job.world.generation), now, training=False
                )
        elif action == "hear":
            job.hear(pod, now)
        else:
            now += 4.0
        before = job.world.generation
        world = job.tick([name(number) for number in range(5)], now)
        training &= set(job.members)
        if world is not None:
            assert before + 1 == world.generation
            assert not training
            assert len(world.nodes) == len(world.pods) >= 2 - job.counts("done")
            training = set(world.pods)
