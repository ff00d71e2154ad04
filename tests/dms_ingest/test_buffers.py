from contextlib import ExitStack

from dms_ingest.buffers import Buffers


def test_a_crowd_gets_small_buffers_and_who_comes_later_large_ones_again() -> None:
    buffers = Buffers(size=1000, keep=4, many=4, small=10)

    with ExitStack() as crowd:
        pairs = [crowd.enter_context(buffers.two()) for _ in range(10)]
        sizes = [len(buffer) for pair in pairs for buffer in pair]
    with buffers.two() as later:
        size_later = len(later[0])

    assert sizes == [1000] * 4 + [10] * 16
    assert size_later == 1000


def test_idle_buffers_are_used_again_and_only_so_many_are_kept() -> None:
    buffers = Buffers(size=1000, keep=2, many=100)

    with buffers.two() as first, buffers.two() as second:
        before = {id(buffer) for pair in (first, second) for buffer in pair}
    with buffers.two() as again, buffers.two() as more:
        after = [id(buffer) in before for pair in (again, more) for buffer in pair]

    assert after == [True, True, False, False]
