/*
 * What a job's specification must be beyond its fields one by one: rules between fields (D7, D12)
 * and what this version can do. What Kafka must say about it (topics, counts, the group) is checked
 * by the coordinator. Pure, no JSON; any thread.
 *
 * Order for a request: codec_decode(&schema_job_spec), spec_complete, spec_check.
 */
#ifndef BATON_API_SPEC_H
#define BATON_API_SPEC_H

#include "api/codec_faults.h"
#include "api/schema.h"
#include "common/err.h"

/* Fills in the defaults that depend on other fields: logic.version of a built-in. */
void spec_complete(struct job_spec *spec);

/* ERR_INVALID: the faults say where and why; they are added to what is there. */
enum err_code spec_check(const struct job_spec *spec, struct codec_faults *reterr_faults) MUSTCHECK;

/* Of a field that schema_immutable_change found: why it can not change and what to do instead. */
const char *spec_immutable_advice(const struct schema_field *field);

#endif
