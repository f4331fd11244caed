"""The figures of bench_expand.py, made of what was measured; what the words mean is in that program's help."""

from latency import Steady, cut_out, spread, windows_within

KINDS = ("partitions", "processors")


class Part:
    """One job's part: its expansions, and what came of its outputs.

    An expansion has its `kind`, `from` and `to`, the moments `asked`, `done` and `settled` (us), and of the output's partitions
    those that are `moved` and those `beside` them: of the moved ones' processors, which have to do with it.
    """

    def __init__(self, kind, arrivals, expansions, quiet, margin_us, window_us):
        assert kind in KINDS
        self.kind = kind
        taken = [(each["asked"] - margin_us, each["settled"] + margin_us) for each in expansions]
        windows = [window for begin, end in quiet for window in windows_within(*cut_out(begin, end, taken), window_us)]
        self.steady = Steady(arrivals, windows)
        self.during_ms = []
        self.faults = [f"no outputs in the steady window {window}" for window in self.steady.empty]
        self.lines = [self._line(each, arrivals, margin_us) for each in expansions]

    def _line(self, expansion, arrivals, margin_us):
        window = expansion["asked"], expansion["done"] + margin_us
        moved, beside = expansion["moved"], expansion["beside"]
        still = arrivals.latencies_ms(window, but=moved | beside)
        if not still:
            self.faults.append(f"no outputs of what does not move in the window of {self.kind} {expansion['to']}")
        self.during_ms += still
        return {
            "kind": self.kind,
            "from": expansion["from"],
            "to": expansion["to"],
            "took_ms": round((expansion["done"] - expansion["asked"]) / 1000),
            "settled_ms": round((expansion["settled"] - expansion["done"]) / 1000),
            "latency_ms": spread(still),
            "beside_latency_ms": spread(arrivals.latencies_ms(window, beside)),
            "moved_latency_ms": spread(arrivals.latencies_ms(window, moved)),
            "settling_latency_ms": spread(
                arrivals.latencies_ms((expansion["done"], expansion["settled"]), but=moved | beside)
            ),
        }


def figures(during_ms, steady_ms):
    during, steady = spread(during_ms), spread(steady_ms)
    ratio = round(during["p99"] / steady["p99"], 2) if during and steady and steady["p99"] > 0 else None
    return {"during_latency_ms": during, "steady_latency_ms": steady, "ratio_p99": ratio}


def summary(parts, steady_windows_min):
    """(of all parts and of each kind, faults)."""
    faults = [fault for part in parts for fault in part.faults]
    windows = sum(len(part.steady.worst_ms) for part in parts)
    if windows < steady_windows_min:
        faults.append(f"{windows} steady windows, at least {steady_windows_min} wanted: make --pause longer")

    def of(some):
        during = [value for part in some for value in part.during_ms]
        steady = [value for part in some for value in part.steady.latencies_ms]
        return {"expansions": sum(len(part.lines) for part in some), **figures(during, steady)}

    made = {kind: [part for part in parts if part.kind == kind] for kind in KINDS}
    return {**of(parts), "steady_windows": windows, "kinds": {kind: of(some) for kind, some in made.items() if some}}, faults
