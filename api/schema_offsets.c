/* The tables of what people decide about records and committed offsets. */
#include "api/schema_fields.h"

const char *const schema_names_offsets_action[] = {"accept", "restore", NULL};

#define CHOICES_MAX (API_INPUTS_MAX * API_PARTITIONS_MAX)

static const struct schema_field record_view_fields[] = {
    FIELD_TOPIC(record_view, topic, .required = true, .help = "Name of the input topic."),
    FIELD_UINT32(record_view, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_INT64(record_view, offset, 0, INT64_MAX, .required = true,
                .help = "The record's own offset."),
};
SCHEMA_TYPE(record_view, "The place of a record.");

static const struct schema_field skip_request_fields[] = {
    FIELD_TOPIC(skip_request, topic, .required = true, .help = "Name of the input topic."),
    FIELD_UINT32(skip_request, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_INT64(skip_request, offset, 0, INT64_MAX - 1, .required = true,
                .help = "Offset of the record that stops the processor."),
    FIELD_STRING(skip_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
};
SCHEMA_TYPE(skip_request, "A wish to pass a record that a processor can not process.");

static const struct schema_field skip_view_fields[] = {
    FIELD_TOPIC(skip_view, topic, .required = true, .help = "Name of the input topic."),
    FIELD_UINT32(skip_view, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_INT64(skip_view, offset, 0, INT64_MAX, .required = true, .help = "Offset of the record."),
    FIELD_UINT32(skip_view, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor that it stopped."),
    FIELD_STRING(skip_view, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, as it was given; or null."),
    FIELD_STRING(skip_view, actor, 0, 255, .required = true, .help = "Who said so."),
    FIELD_TIME(skip_view, skipped_at, .required = true, .help = "When."),
};
SCHEMA_TYPE(skip_view, "A record that no task of the job gives to the logic, by somebody's word.");

static const struct schema_field skip_page_fields[] = {
    FIELD_OBJECTS(skip_page, items, skip_view, API_SKIPS_MAX, .required = true,
                  .help = "The entries."),
    FIELD_STRING(skip_page, next, 1, API_TEXT_BYTES_MAX,
                 .help = "Cursor of the next page; null: this is the last one."),
};
SCHEMA_TYPE(skip_page, "A page of a list.");

static const struct schema_field offsets_request_fields[] = {
    FIELD_ENUM(offsets_request, action, schema_names_offsets_action, .required = true,
               .help =
                   "accept: go on from the offsets that Kafka has; restore: from those that the "
                   "job had committed, as far as baton knows."),
    FIELD_UINTS(offsets_request, processors, API_PARTITIONS_MAX, API_PARTITIONS_MAX - 1,
                .help = "Processors to do it for; absent or empty: all that wait for it."),
    FIELD_BOOL(offsets_request, dry_run, .help = "true: say what would be done, and do nothing."),
    FIELD_STRING(offsets_request, reason, 0, API_TEXT_BYTES_MAX,
                 .help = "Why, for people who look later; or null."),
};
SCHEMA_TYPE(offsets_request, "A choice between what Kafka has and what the job had committed.");

static const struct schema_field offset_choice_view_fields[] = {
    FIELD_UINT32(offset_choice_view, processor, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Processor that owns the partition."),
    FIELD_TOPIC(offset_choice_view, topic, .required = true, .help = "Name of the input topic."),
    FIELD_UINT32(offset_choice_view, partition, 0, API_PARTITIONS_MAX - 1, .required = true,
                 .help = "Partition number."),
    FIELD_KNOWABLE(offset_choice_view, found, .required = true,
                   .help = "Committed offset that Kafka has; null: none."),
    FIELD_INT64(offset_choice_view, offset, 0, INT64_MAX, .required = true,
                .help = "Offset that the processor goes on from."),
    FIELD_KNOWABLE(offset_choice_view, t2, .required = true,
                   .help = "How far the owner's state had learned (T2); null while unknown."),
};
SCHEMA_TYPE(offset_choice_view, "Where a processor goes on in one partition.");

static const struct schema_field offsets_view_fields[] = {
    FIELD_BOOL(offsets_view, dry_run, .required = true, .help = "Whether nothing was done."),
    FIELD_OBJECTS(offsets_view, offsets, offset_choice_view, CHOICES_MAX, .required = true,
                  .help = "The partitions that it is about."),
};
SCHEMA_TYPE(offsets_view, "What was chosen.");
