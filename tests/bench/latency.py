"""What an outsider saw of a job's latency: the arrivals that tests/tools/arrivals.c noted, seen through windows of time.

All times are wall-clock microseconds of one machine. An output *lives* from its input's timestamp to its arrival, and its
latency is the length of that life. It counts for every window that its life touches: so the worst of a window holds what was
made in it and what came in it, however long either took.
"""

import bisect
import math
import struct
from array import array

ARRIVAL = struct.Struct("=qqii")  # struct arrival


class Arrivals:
    """In the order of arrival."""

    def __init__(self, rows):
        """`rows` are (arrived_us, made_us, partition)."""
        self.arrived, self.made, self.partition = array("q"), array("q"), array("i")
        for arrived, made, partition in rows:
            self.arrived.append(arrived)
            self.made.append(made)
            self.partition.append(partition)
        self._life_max = max((a - m for a, m in zip(self.arrived, self.made)), default=0)

    @classmethod
    def read(cls, path, since_us=0):
        """Without those whose inputs were made before `since_us`: the history."""
        with open(path, "rb") as file:
            rows = ARRIVAL.iter_unpack(file.read())
        return cls((arrived, made * 1000, partition) for arrived, made, partition, _ in rows if made * 1000 >= since_us)

    def __len__(self):
        return len(self.arrived)

    def _touching(self, window):
        begin, end = window
        first = bisect.bisect_left(self.arrived, begin)
        last = bisect.bisect_right(self.arrived, end + self._life_max)
        return (index for index in range(first, last) if self.made[index] <= end)

    def latencies_ms(self, window, partitions=None, but=()):
        """Of the outputs that live in the window; `partitions` takes only those, `but` leaves those out."""
        return [
            (self.arrived[index] - self.made[index]) / 1000
            for index in self._touching(window)
            if (partitions is None or self.partition[index] in partitions) and self.partition[index] not in but
        ]

    def gap_ms(self, window, partitions):
        """The longest time between two arrivals of these partitions that both lie in the window; None: there are not two."""
        begin, end = window
        span = range(bisect.bisect_left(self.arrived, begin), bisect.bisect_right(self.arrived, end))
        times = [self.arrived[index] for index in span if self.partition[index] in partitions]
        return max(((b - a) / 1000 for a, b in zip(times, times[1:])), default=None)


def cut_out(begin, end, windows):
    """What is left of (begin, end) beside the windows that reach into it, from before or to behind."""
    for first, last in windows:
        if first < end and begin < last:
            begin, end = (last, end) if first <= begin else (begin, first)
    return begin, end


def windows_within(begin, end, length):
    """As many windows of `length` as fit, one after the other."""
    count = max(0, int((end - begin) // length))
    return [(begin + index * length, begin + (index + 1) * length) for index in range(count)]


def percentile(values, share):
    """The nearest rank: a value that occurred. Of twenty values, the 99th percentile is the largest."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(values):
    """None when there are none."""
    if not values:
        return None
    return {
        "p50": round(percentile(values, 0.50), 1),
        "p99": round(percentile(values, 0.99), 1),
        "max": round(max(values), 1),
    }


class Steady:
    """What is usual: the outputs of the windows without a hand-over."""

    def __init__(self, arrivals, windows):
        each = [arrivals.latencies_ms(window) for window in windows]
        self.empty = [window for window, latencies in zip(windows, each) if not latencies]
        self.worst_ms = [max(latencies) for latencies in each if latencies]
        self.latencies_ms = [latency for latencies in each for latency in latencies]

    @property
    def worst_median_ms(self):
        """By nearest rank, as all percentiles are."""
        return percentile(self.worst_ms, 0.50)
