"""Hand-overs of jobs that are not the usual kind: at_least_once, and without state."""

import subprocess

import pytest

from daemons import ROOT
from oracle import ProvenanceCheck, TopicReader, read_input_offsets, read_into
from scene import LIMIT_S, Scene

pytestmark = pytest.mark.timeout(300)

ECHO = r"""
#include "api/processor.h"

static enum baton_status create(const char *config, void **ret_instance, char *error, size_t error_bytes)
{
    *ret_instance = NULL;
    return BATON_PROCESSOR_OK;
}

static enum baton_status process(void *instance, const struct baton_record *record, struct baton_context *context,
                                 char *error, size_t error_bytes)
{
    const struct baton_output output = {.key = record->key, .value = record->value};
    return context->operations->emit(context, &output);
}

static void destroy(void *instance) {}

static const struct baton_processor echo = {
    .abi = BATON_PROCESSOR_ABI, .name = "echo", .version = "1", .create = create, .process = process, .destroy = destroy};

const struct baton_processor *baton_processor_entry(void)
{
    return &echo;
}
"""


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


# ---- at_least_once


def last_values(stage):
    """{key: the last value that was put out for it}."""
    reader = TopicReader(stage.broker.bootstrap, stage.job.output)
    values = {}

    class Last:
        def feed(self, messages):
            values.update((message.key(), int(message.value())) for message in messages)

    try:
        read_into([Last()], reader, None, LIMIT_S)
    finally:
        reader.close()
    return values


def assert_nothing_lost_and_state_right(stage):
    sent = stage.assert_at_least_once()
    assert last_values(stage) == sent.expected(), "no record was counted twice"


def test_handoff_of_an_at_least_once_job_is_exact_when_planned(scene):
    stage = scene(delivery="at_least_once")
    stage.agent()
    stage.job.wait_active()
    stage.history(10_000)
    stage.load()
    stage.agent()
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    for processor, owner in [(each["processor"], each["agent"]) for each in stage.job.processors()]:
        for target in ("agent-1", "agent-2") if owner == "agent-2" else ("agent-2", "agent-1"):
            operation = stage.job.wait_operation(stage.move(target, processor))
            assert operation["state"] == "succeeded", operation
    assert not any(each["forced"] for each in stage.job.handoffs())
    stage.assert_exact()


def test_failover_of_an_at_least_once_job_may_repeat_but_loses_nothing(scene):
    stage = scene(delivery="at_least_once")
    first = stage.agent()
    stage.job.wait_active()
    stage.history(10_000)
    stage.load()
    stage.agent()
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    first.kill()
    stage.job.wait_owners({"agent-2": 2})
    assert [each["forced"] for each in stage.job.handoffs("done")].count(True) == 1
    stage.wait_outputs(500)
    assert_nothing_lost_and_state_right(stage)


def test_failover_from_a_frozen_at_least_once_owner_that_thaws(scene):
    """Without transactions nothing keeps its last outputs back, but it notices soon, and the owner's state is untouched."""
    stage = scene(delivery="at_least_once")
    first = stage.agent()
    stage.job.wait_active()
    stage.load(keys=200)
    first.pause()
    stage.agent()
    stage.job.wait_owners({"agent-2": 2})
    stage.wait_outputs(500)
    first.resume()
    stage.wait_agent(first, "alive")
    for processor in range(2):
        first.wait_log("task_phase", LIMIT_S, phase="closed", processor=processor)
    stage.wait_outputs(500)
    stage.end_load()
    stage.history(10_000, keys=200)  # each key once more, by the owner: its count shows what the state holds
    assert_nothing_lost_and_state_right(stage)


# ---- stateless


@pytest.fixture
def plugins(tmp_path):
    """An agent's plugin folder with the logic `echo`, which puts out what comes in."""
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o755)
    source = tmp_path / "echo.c"
    source.write_text(ECHO)
    built = folder / "echo-1.so"
    subprocess.run(["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", f"-I{ROOT}", source, "-o", built], check=True)
    built.chmod(0o755)
    return folder


def assert_each_input_once(stage):
    stage.end_load()
    inputs = read_input_offsets(stage.broker.bootstrap, stage.job.input)
    check = ProvenanceCheck()
    reader = TopicReader(stage.broker.bootstrap, stage.job.output)
    try:
        read_into([check], reader, sum(map(len, inputs.values())), LIMIT_S)
    finally:
        reader.close()
    verdict = check.verdict(inputs)
    assert verdict.total > 0
    verdict.assert_exact()
    stage.assert_one_at_a_time()


def test_handoff_of_a_stateless_job_needs_no_learning(scene, plugins):
    """Planned, then forced: nothing is replayed, and each input has exactly one output."""
    stage = scene(stateful=False, logic={"kind": "plugin", "name": "echo", "version": "1"})
    first = stage.agent(plugin_dir=plugins)
    stage.job.wait_active()
    stage.history(10_000)
    stage.load()
    stage.agent(plugin_dir=plugins)
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    (done,) = stage.job.handoffs("done")
    assert not done["forced"] and done["learning_ms"] is None and done["caught_up_ms"] is None, done
    first.kill()
    stage.job.wait_owners({"agent-2": 2})
    stage.wait_outputs(500)
    assert stage.job.replayed() == 0
    assert_each_input_once(stage)
