"""Where the time of one hand-over went: from the coordinator's times and the phases that the agents logged.

All processes share one machine's wall clock, whose log lines have milliseconds, so a step of under a millisecond shows as 0
or 1, and a step may come out as -1 where two processes wrote down one moment.

    asked       coordinator: has it in its database that the source must release
    told        source: its agent has the new document
    stopping    source: takes no more records, begins its last commit
    committed   source: the commit is done; writes its checkpoint
    closed      source: the checkpoint is written, everything closed
    released    coordinator: has it in its database that the target owns the processor
    informed    target: its agent has the new document
    initialises target: begins init_transactions
    initialised target: reads the committed offsets
    replays     target: knows T1, replays up to it (left out when there is nothing to replay)
    stamps      target: replayed, makes its first commit
    active      target: the first commit is done
    done        coordinator: has heard so
"""

from datetime import datetime

MOMENTS = (
    "asked", "told", "stopping", "committed", "released", "informed", "initialises", "initialised", "replays", "stamps",
    "active", "done",
)  # fmt: skip
# Name of a step: what happens up to the moment, from the one before that is known.
STEPS = {
    "told": "tell_source",
    "stopping": "stop_source",
    "committed": "release_commit",
    "released": "report_released",
    "informed": "tell_target",
    "initialises": "start_target",
    "initialised": "init_transactions",
    "replays": "read_committed_offsets",
    "stamps": "replay",
    "active": "first_commit",
    "done": "report_active",
}


def parse_us(text):
    """A time of the API or of a log line: "2026-11-29T18:12:03.123Z"."""
    return int(datetime.fromisoformat(text).timestamp() * 1000) * 1000 if text else None


def asked_us(handoff):
    """When the source was told to release: the states' times follow one another from started_at."""
    before = sum(handoff[phase] or 0 for phase in ("learning_ms", "caught_up_ms"))
    return parse_us(handoff["started_at"]) + before * 1000


def released_us(handoff):
    return asked_us(handoff) + handoff["releasing_ms"] * 1000


def done_us(handoff):
    """A hand-over that is done came into that state with changed_at."""
    assert handoff["state"] == "done", handoff
    return parse_us(handoff["changed_at"])


def moments_us(handoff, source_lines, target_lines):
    """{moment: time}; `*_lines` are the lines of the two agents' logs about tasks, parsed."""
    source = _first_times(source_lines, handoff["processor"], handoff["source_epoch"], asked_us(handoff))
    target = _first_times(target_lines, handoff["processor"], handoff["target_epoch"], asked_us(handoff))
    found = {
        "asked": asked_us(handoff),
        "told": source.get("task_desired"),
        "stopping": source.get("release"),
        "committed": source.get("checkpoint"),
        "closed": source.get("closed"),
        "released": released_us(handoff),
        "informed": target.get("task_desired"),
        "initialises": target.get("producer"),
        "initialised": target.get("committed"),
        "replays": target.get("replay"),
        "stamps": target.get("stamp"),
        "active": target.get("active"),
        "done": done_us(handoff),
    }
    return {moment: time for moment, time in found.items() if time is not None}


def _first_times(lines, processor, epoch, since_us):
    """{phase, or event that is no phase: when it was first logged for the task}."""
    times = {}
    for line in lines:
        at = parse_us(line["ts"])
        if line["processor"] == str(processor) and line["epoch"] == str(epoch) and at >= since_us:
            times.setdefault(line.get("phase", line["event"]), at)
    return times


def steps_ms(moments):
    """{step: milliseconds}, in their order; they add up to the time from asked to done."""
    steps, before = {}, "asked"
    for moment in MOMENTS[1:]:
        if moment in moments:
            steps[STEPS[moment]] = (moments[moment] - moments[before]) // 1000
            before = moment
    return steps
