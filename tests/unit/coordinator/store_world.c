/* The same world as the core's tests have: its updates are what the store is tested with. */
#include "tests/unit/coordinator/core/world.c"
#include "tests/unit/coordinator/core/world_check.c"
#include "tests/unit/coordinator/core/world_copy.c"
