/* What the files of the logic module share, and its unit tests; nobody else includes this. */
#ifndef BATON_AGENT_LOGIC_PRIVATE_H
#define BATON_AGENT_LOGIC_PRIVATE_H

#include "agent/logic.h"

/*
 * An instance of `processor`, which lives as long as the process (built-in, or a plugin that stays
 * loaded) and has been checked. ERR_INVALID: it refuses `config`.
 */
enum err_code logic_create_from(const struct baton_processor *processor, const char *config,
                                bool has_output, struct logic **ret_logic,
                                struct err *reterr) MUSTCHECK;

/* Finds, checks and loads the plugin of spec->name and spec->version, which are valid names. Any
 * thread. */
enum err_code logic_plugin_load(const struct logic_spec *spec,
                                const struct baton_processor **ret_processor,
                                struct err *reterr) MUSTCHECK;

/* The built-ins, one a file when it needs the room. */
extern const struct baton_processor logic_dedup;

/*
 * Decodes a built-in's config by its table. Returns ERROR with a text that names the key.
 * `ret_value` is to be freed with schema_free on success.
 */
struct schema_type;
enum baton_status logic_config_decode(const struct schema_type *type, const char *config,
                                      void *ret_value, char *error, size_t error_bytes);

#endif
