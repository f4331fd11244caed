"""Partitions and processors doubled in turn, under a stock producer and one whose order per key is known."""

from expanding import CarefulProducer, assert_in_order
from oracle import check_outputs
from scene import Scene

LIMIT_S = 90


def grow(job, **wish):
    ended = job.wait_operation(job.expand(**wish), LIMIT_S)
    assert ended["state"] == "succeeded", ended


def run(broker, daemons, unique, loads, initial, doublings, keys=300, rate=200, after=None, **spec):
    """Two agents and `initial` of both to begin with; `after(stage, count)` is called when there are `count` processors."""
    stage = Scene(
        broker, daemons, unique, loads, partitions=initial, processors=initial, agents=2, settle="2s", partitioner="murmur2", **spec
    )
    stock = {"topic.metadata.refresh.interval.ms": 1000}  # else it hears of new partitions in five minutes
    load = loads(broker.bootstrap, stage.job.input, keys=200, seed=5, rate=rate, prefix="stock-", config=stock)
    producer = CarefulProducer(broker.bootstrap, stage.job.input, keys, initial, rate=rate)
    producer.wait_more(300)
    for count in (initial << n for n in range(1, doublings + 1)):
        grow(stage.job, partitions=count)
        producer.wait_more(100)  # by the earlier count
        producer.use(count)
        load.wait_known(count // 2, LIMIT_S)  # what it puts where keys are no more would be refused after the split
        grow(stage.job, processors=count)
        stage.job.wait_active(count)
        producer.wait_more(200)
        if after:
            after(stage, count)
    sent = producer.stop() | load.stop().expected()
    stage.job.wait_drained()
    check_outputs(broker.bootstrap, stage.job.output, sent, LIMIT_S, provenance_of=[stage.job.input]).assert_exact()
    assert assert_in_order(broker.bootstrap, stage.job.input, stage.job.output) > 0, "keys have moved"
    return stage
