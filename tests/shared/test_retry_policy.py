"""How long a retry waits."""

from nexarch.jobs import RetryPolicy


def test_a_retry_waits_thirty_seconds_times_the_attempts_up_to_ten() -> None:
    policy = RetryPolicy(jitter=0)

    assert [policy.delay_s(attempts) for attempts in (1, 2, 10, 50)] == [30, 60, 300, 300]


def test_an_exponential_retry_doubles() -> None:
    policy = RetryPolicy(base_s=2, exponential=True, cap_attempts=4, jitter=0)

    assert [policy.delay_s(attempts) for attempts in (1, 2, 3, 4, 5)] == [2, 4, 8, 16, 16]


def test_jitter_adds_at_most_a_fifth() -> None:
    delays = {RetryPolicy().delay_s(1) for _ in range(200)}

    assert 30 <= min(delays) < max(delays) <= 36
