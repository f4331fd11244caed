"""Real brokers: one shared by the whole run, and own ones for tests that stop, kill or cut them off.

A broker has, next to its direct listener, listeners that are reached through a proxy only: they advertise the proxy's port,
so a client that starts from the proxy's address stays behind it for all its connections.
"""

import os
import pathlib
import signal
import subprocess
import uuid

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

import process
from proxy import TcpProxy
from waiting import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "kafka.sh"
START_LIMIT_S = 180  # five seconds on a quiet machine
STOP_LIMIT_S = 120  # then it is killed, and may come back without what it had not written
ADMIN_LIMIT_S = 30
# What a broker that has just come back, or a partition whose leader has just changed, says for a moment.
UNSETTLED = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def _prepare(directory, properties, **environment):
    """Writes a node's properties and formats its disk, the first time; returns the environment that `kafka.sh run` needs."""
    directory.mkdir(parents=True, exist_ok=True)
    environment = {"KAFKA_DIR": str(directory), **environment}
    settings = [f"{name}={value}" for name, value in properties.items()]
    command = [SCRIPT, "prepare", *settings]
    prepared = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert prepared.returncode == 0, prepared.stderr
    return environment


def settled(call, what):
    """What `call` gives, once it gives something and the broker has settled. TimeoutError: not yet."""

    def asked():
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in UNSETTLED:
                raise
            return None

    try:
        return wait_until(asked, ADMIN_LIMIT_S, what)
    except AssertionError as error:
        raise TimeoutError(str(error)) from None


class Controller:
    """The node that leads a cluster whose broker may die: as in a cluster of many nodes, where others lead and go on.

    A broker that is its own controller comes back with what it knew when it died, and takes its partitions for led until it
    hears of itself. Markers of transactions that were just being committed are dropped in between, for good (docs/design.md D9).
    """

    NODE_ID = 100

    def __init__(self, directory, cluster_id):
        self.directory = pathlib.Path(directory)
        self.log_path = self.directory / "kafka.log"
        self.voter = f"{self.NODE_ID}@127.0.0.1:{process.free_port()}"
        self._cluster_id = cluster_id
        self._child = None

    def start(self):
        address = f"CONTROLLER://{self.voter.split('@')[1]}"
        settings = {
            "process.roles": "controller",
            "node.id": self.NODE_ID,
            "controller.quorum.voters": self.voter,
            "listeners": address,
            "advertised.listeners": address,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
        environment = _prepare(self.directory, settings, KAFKA_CLUSTER_ID=self._cluster_id)
        self._child = process.start([SCRIPT, "run"], self.log_path, environment)

    def stop(self):
        if self._child is not None:
            process.end(self._child, STOP_LIMIT_S)

    def fenced(self):
        """How often it has taken the broker for dead."""
        return self.log_path.read_text(errors="replace").count("Fencing broker")


def metadata_of(partition):
    """The client reads past the end of metadata, into whatever bytes are there: it begins with what was committed."""
    try:
        return partition.metadata
    except UnicodeDecodeError as error:
        return error.object[: error.start].decode()


class Broker:
    """One Kafka node. `directory` keeps its data over restarts. With `mortal` it may be killed: another node leads the cluster."""

    users = {}  # KAFKA_SCRAM, of a subclass

    def __init__(self, directory, proxies=0, properties=None, mortal=False):
        self.directory = pathlib.Path(directory)
        self.log_path = self.directory / "kafka.log"
        self.port = process.free_port()
        self._cluster_id = f"B{uuid.uuid4().hex[:21]}"
        self._controller = Controller(self.directory / "controller", self._cluster_id) if mortal else None
        self._controller_port = process.free_port()
        self._proxied = [(process.free_port(), process.free_port()) for _ in range(proxies)]
        self._properties = {**self._listeners(), **(properties or {})}
        self._proxies = {}
        self._child = None
        self._admin = None

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def _listeners(self):
        names = ["PLAINTEXT", *(f"PROXY{i}" for i in range(len(self._proxied)))]
        inner = [self.port, *(broker_port for broker_port, _ in self._proxied)]
        outer = [self.port, *(proxy_port for _, proxy_port in self._proxied)]
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in zip(names, inner)]
        if self._controller:
            roles = {"process.roles": "broker", "controller.quorum.voters": self._controller.voter}
        else:
            roles = {"controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}"}
            listeners.append(f"CONTROLLER://127.0.0.1:{self._controller_port}")
        return {
            **roles,
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in zip(names, outer)),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in [*names, "CONTROLLER"]),
        }

    # ---- life cycle ----

    def start(self):
        """Starts the broker (formatting its disk the first time) and waits until it serves."""
        assert self._child is None or self._child.poll() is not None, "the broker is running"
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._controller and self._child is None:
            self._controller.start()
        environment = _prepare(
            self.directory, self._properties, KAFKA_PORT=str(self.port), KAFKA_CLUSTER_ID=self._cluster_id, **self.users
        )
        self._child = process.start([SCRIPT, "run"], self.log_path, environment)
        wait_until(self._serves, START_LIMIT_S, f"broker ready, see {self.log_path}", ignoring=())
        return self

    def _serves(self):
        assert self._child.poll() is None, f"the broker ended while starting, see {self.log_path}"
        try:
            return bool(self.admin.list_topics(timeout=1).brokers)
        except Exception:  # the client has one class for all failures: any means "not yet"
            return False

    def stop(self):
        """An orderly end (SIGTERM)."""
        if self._child is not None:
            process.end(self._child, STOP_LIMIT_S)

    def kill(self):
        """kill -9."""
        before = self._controller.fenced() if self._controller else 0
        self._child.kill()
        self._child.wait()
        if self._controller:  # it comes back after the cluster has noticed, to what the cluster has made of that
            wait_until(lambda: self._controller.fenced() > before, START_LIMIT_S, "the cluster misses its broker", ignoring=())

    def pause(self):
        """SIGSTOP: connections stay open and nobody answers."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self):
        self._child.send_signal(signal.SIGCONT)

    def restart(self):
        self.stop()
        return self.start()

    def finish(self):
        for proxy in self._proxies.values():
            proxy.close()
        self._proxies.clear()
        self.stop()
        if self._controller:
            self._controller.stop()

    def proxy(self, index=0):
        """The running proxy before listener PROXY<index>; its `address` is what to give to clients as bootstrap server."""
        assert index < len(self._proxied), "start the broker with more proxies"
        if index not in self._proxies or self._proxies[index].closed:
            broker_port, proxy_port = self._proxied[index]
            self._proxies[index] = TcpProxy(broker_port, proxy_port)
        return self._proxies[index]

    # ---- administration ----

    @property
    def admin(self):
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        return self._admin

    def create_topic(self, name, partitions=1, **config):
        """Creates a topic and waits until it has leaders. Dots in setting names are written as underscores."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        self._result(self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name])
        self._wait_for_partitions(name, partitions)
        return name

    def delete_topic(self, name):
        self._result(self.admin.delete_topics([name])[name])
        wait_until(lambda: name not in self._metadata().topics, ADMIN_LIMIT_S, f"{name} is gone")

    def expand_topic(self, name, partitions):
        self._result(self.admin.create_partitions([NewPartitions(name, partitions)])[name])
        self._wait_for_partitions(name, partitions)

    def delete_records(self, name, partition, before_offset):
        """Moves the log start, as retention does."""
        at = TopicPartition(name, partition, before_offset)
        self._result(self.admin.delete_records([at])[at])

    def set_topic_config(self, name, **settings):
        """Changes settings and waits until the broker goes by them. Dots in setting names are written as underscores."""
        wanted = {setting.replace("_", "."): str(value) for setting, value in settings.items()}
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        for setting, value in wanted.items():
            resource.add_incremental_config(ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET))
        self._result(self.admin.incremental_alter_configs([resource])[resource])

        def told():
            asked = ConfigResource(ConfigResource.Type.TOPIC, name)
            seen = self._result(self.admin.describe_configs([asked])[asked])
            return all(seen[setting].value == value for setting, value in wanted.items())

        wait_until(told, ADMIN_LIMIT_S, f"{name} has {wanted}")
        # What it says of its settings it says just before its logs go by them; what it hears next, it says after that.
        self.create_topic(f"after-settings-{uuid.uuid4().hex}")

    def partition_count(self, name):
        return len(self._metadata(name).topics[name].partitions)

    def _metadata(self, *names):
        return self.admin.list_topics(*names, timeout=ADMIN_LIMIT_S)

    def start_offsets(self, name):
        return self._offsets(name, OffsetSpec.earliest())

    def end_offsets(self, name):
        """{partition: high watermark}, open transactions included."""
        return self._offsets(name, OffsetSpec.latest())

    def committed(self, group, *names):
        """{(topic, partition): (offset, metadata)} of what the group has committed; all its topics when none is named."""
        wanted = [TopicPartition(name, p) for name in names for p in range(self.partition_count(name))]
        request = ConsumerGroupTopicPartitions(group, wanted or None)

        def stable():
            answer = self._result(self.admin.list_consumer_group_offsets([request], require_stable=True)[group])
            found = answer.topic_partitions
            if any(t.error for t in found):  # a transaction is just being committed: not stable yet
                return None
            return [{(t.topic, t.partition): (t.offset, metadata_of(t)) for t in found if t.offset >= 0}]

        return settled(stable, f"the offsets of {group} are stable: no transaction stays open")[0]

    def group_members(self, group):
        return self._result(self.admin.describe_consumer_groups([group])[group]).members

    def _offsets(self, name, spec):
        asked = {TopicPartition(name, p): spec for p in range(self.partition_count(name))}

        def listed():
            futures = self.admin.list_offsets(asked, request_timeout=ADMIN_LIMIT_S)
            return {at.partition: self._result(future).offset for at, future in futures.items()}

        return settled(listed, f"the offsets of {name} are known")

    def _wait_for_partitions(self, name, count):
        def ready():
            topic = self._metadata(name).topics[name]
            partitions = topic.partitions.values()
            return topic.error is None and len(partitions) == count and all(p.leader >= 0 for p in partitions)

        wait_until(ready, ADMIN_LIMIT_S, f"{name} has {count} partitions with leaders")

    @staticmethod
    def _result(future):
        return future.result(ADMIN_LIMIT_S)

    # ---- records, for tests of a few records each; producer.py makes loads ----

    def produce(self, topic, records, transactional_id=None, abort=False):
        """Writes (key, value[, partition]) tuples in order and returns their (partition, offset).

        With `transactional_id` in one transaction, which is aborted when `abort` is set.
        """
        config = {"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "enable.idempotence": True}
        if transactional_id:
            config["transactional.id"] = transactional_id
        producer = Producer(config)
        places = [None] * len(records)

        def delivered_to(index):
            def delivered(error, message):
                assert error is None, error
                places[index] = (message.partition(), message.offset())

            return delivered

        if transactional_id:
            producer.init_transactions(ADMIN_LIMIT_S)
            producer.begin_transaction()
        for index, (key, value, *partition) in enumerate(records):
            where = {"partition": partition[0]} if partition else {}
            producer.produce(topic, value, key, on_delivery=delivered_to(index), **where)
        assert producer.flush(ADMIN_LIMIT_S) == 0, "records were not delivered"
        if transactional_id:
            (producer.abort_transaction if abort else producer.commit_transaction)(ADMIN_LIMIT_S)
        return places


class RunningBroker(Broker):
    """A broker that somebody else started: it is used and left as it is."""

    bootstrap = None

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self._admin = None

    def start(self):
        return self

    def finish(self):
        pass
