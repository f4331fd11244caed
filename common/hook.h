/*
 * Named points at which a test can end or hold the process, to show what a crash exactly there
 * leaves. In test builds only (BATON_TEST_HOOKS); elsewhere HOOK is nothing.
 *
 * BATON_HOOK=name:count:action in the environment acts when the point `name` is passed for the
 * count-th time (1..): action "kill" is SIGKILL to itself, "stop" is SIGSTOP (a test resumes it
 * with SIGCONT). Any thread may pass a point.
 */
#ifndef BATON_COMMON_HOOK_H
#define BATON_COMMON_HOOK_H

#ifdef BATON_TEST_HOOKS
void hook_pass(const char *name);
#define HOOK(name) hook_pass(name)
#else
#define HOOK(name) ((void)0)
#endif

#endif
