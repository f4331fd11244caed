#include "tests/sim/tally.h"

const char *const tally_texts[TALLY_COUNT] = {
#define TALLY_TEXT(name, text) [TALLY_##name] = (text),
    TALLY_KINDS(TALLY_TEXT)
#undef TALLY_TEXT
};
