"""The figures of bench_handoff.py, made of what was measured; what the words mean is in that program's help."""

import math

import phases
from latency import Steady, cut_out, spread, windows_within

PHASES = ("learning_ms", "caught_up_ms", "releasing_ms", "released_ms", "activating_ms", "output_gap_ms")


LENGTH_STEP_US = 100_000


def window_length(handoffs, margin_us, length_us_min):
    """One length for all windows: the least, or what holds the longest hand-over with its margins."""
    longest = max(each["moments"]["done"] - each["moments"]["asked"] for each in handoffs)
    return max(length_us_min, math.ceil((longest + 2 * margin_us) / LENGTH_STEP_US) * LENGTH_STEP_US)


def handoff_window(handoff, margin_us, length_us):
    begin = handoff["moments"]["asked"] - margin_us
    return begin, begin + length_us


def steady_windows(handoffs, margin_us, length_us_min, quiet):
    """In the times `quiet` that lie beside the windows of the hand-overs."""
    length_us = window_length(handoffs, margin_us, length_us_min)
    taken = [handoff_window(each, margin_us, length_us) for each in handoffs]
    return [window for begin, end in quiet for window in windows_within(*cut_out(begin, end, taken), length_us)]


class Report:
    """`handoffs` are views of the API, each with its `moments` (phases.moments_us) and `records_replayed`; `quiet` are the
    times (begin, end) without a hand-over. There are as many partitions as processors: partition p is processor p's."""

    def __init__(self, handoffs, arrivals, quiet, margin_us, length_us_min, steady_windows_min):
        self.margin_us = margin_us
        self.length_us = window_length(handoffs, margin_us, length_us_min)
        windows = steady_windows(handoffs, margin_us, length_us_min, quiet)
        self.steady = Steady(arrivals, windows)
        self.faults = [f"no outputs in the steady window {window}" for window in self.steady.empty]
        if len(windows) < steady_windows_min:
            self.faults.append(f"{len(windows)} steady windows, at least {steady_windows_min} wanted: make --pause longer")
        self.lines = [self._line(each, arrivals) for each in handoffs] if self.steady.worst_ms else []

    def _line(self, handoff, arrivals):
        moments, moved = handoff["moments"], {handoff["processor"]}
        window = handoff_window(handoff, self.margin_us, self.length_us)
        of_moved, of_others = arrivals.latencies_ms(window, moved), arrivals.latencies_ms(window, but=moved)
        for latencies, whose in ((of_moved, "the moved processor"), (of_others, "the other processors")):
            if not latencies:
                self.faults.append(f"no outputs of {whose} in the window of hand-over {handoff['id']}")
        worst = max(of_moved + of_others, default=None)
        learning = (phases.parse_us(handoff["started_at"]), moments["asked"])
        return {
            "handoff": handoff["id"],
            "processor": handoff["processor"],
            "source": handoff["source"],
            "target": handoff["target"],
            **{phase: handoff[phase] for phase in PHASES},
            "records_replayed": handoff["records_replayed"],
            "worst_ms": _rounded(worst),
            "worst_moved_ms": _rounded(max(of_moved, default=None)),
            "worst_others_ms": _rounded(max(of_others, default=None)),
            "added_ms": _rounded(None if worst is None else worst - self.steady.worst_median_ms),
            "seen_gap_ms": _rounded(arrivals.gap_ms(window, moved)),
            "learning_worst_ms": _rounded(max(arrivals.latencies_ms(learning), default=None)),
            "steps_ms": phases.steps_ms(moments),
        }

    def summary(self):
        """Of all hand-overs; None where nothing can be said."""
        steady = self.steady
        return {
            "handoffs": len(self.lines),
            "added_latency_ms": self._spread("added_ms"),
            "steady_latency_ms": spread(steady.latencies_ms),
            "output_gap_ms": self._spread("output_gap_ms"),
            "seen_gap_ms": self._spread("seen_gap_ms"),
            "learning_worst_ms": self._spread("learning_worst_ms"),
            "steady_worst_ms": spread(steady.worst_ms),
            "steady_windows": len(steady.worst_ms),
            "window_ms": self.length_us // 1000,
            "steps_ms": self._steps(),
        }

    def _spread(self, field):
        return spread([line[field] for line in self.lines if line[field] is not None])

    def _steps(self):
        took = {}
        for step in phases.STEPS.values():
            values = [line["steps_ms"][step] for line in self.lines if step in line["steps_ms"]]
            if values:
                took[step] = spread(values)
        return took


def _rounded(value):
    return None if value is None else round(value, 1)
