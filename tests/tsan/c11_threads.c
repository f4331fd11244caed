/*
 * C11 threads on top of POSIX threads, linked into the ThreadSanitizer variant only.
 *
 * Debian's librdkafka starts its threads with thrd_create and locks with mtx_lock. ThreadSanitizer
 * knows only the pthread functions: a thread that it did not see start crashes in its run-time, and
 * locks that it does not see give false reports. The definitions here take the place of the C
 * library's for every library of the process. glibc lays the C11 types out as the POSIX ones, which
 * the assertions below hold it to.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

static_assert(sizeof(thrd_t) == sizeof(pthread_t), "thrd_t is a pthread_t");
static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "mtx_t is a pthread_mutex_t");
static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "cnd_t is a pthread_cond_t");
static_assert(sizeof(once_flag) == sizeof(pthread_once_t), "once_flag is a pthread_once_t");

static int result_of(int error)
{
    switch (error) {
    case 0:
        return thrd_success;
    case EBUSY:
        return thrd_busy;
    case ETIMEDOUT:
        return thrd_timedout;
    case ENOMEM:
        return thrd_nomem;
    default:
        return thrd_error;
    }
}

struct start {
    thrd_start_t function;
    void *arg;
};

static void *run(void *arg)
{
    struct start start = *(struct start *)arg;

    free(arg);
    return (void *)(intptr_t)start.function(start.arg);
}

int thrd_create(thrd_t *thread, thrd_start_t function, void *arg)
{
    struct start *start = malloc(sizeof(*start));
    int error;

    if (start == NULL)
        return thrd_nomem;
    *start = (struct start){.function = function, .arg = arg};
    error = pthread_create((pthread_t *)thread, NULL, run, start);
    if (error != 0)
        free(start);
    return result_of(error);
}

int thrd_join(thrd_t thread, int *ret_result)
{
    void *result;
    int error = pthread_join((pthread_t)thread, &result);

    if (error == 0 && ret_result != NULL)
        *ret_result = (int)(intptr_t)result;
    return result_of(error);
}

int thrd_detach(thrd_t thread)
{
    return result_of(pthread_detach((pthread_t)thread));
}

_Noreturn void thrd_exit(int result)
{
    pthread_exit((void *)(intptr_t)result);
}

int mtx_init(mtx_t *mutex, int type)
{
    pthread_mutexattr_t attributes;
    int error;

    (void)pthread_mutexattr_init(&attributes); /* does nothing that can fail in glibc */
    (void)pthread_mutexattr_settype(
        &attributes, (type & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    error = pthread_mutex_init((pthread_mutex_t *)mutex, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    return result_of(error);
}

void mtx_destroy(mtx_t *mutex)
{
    (void)pthread_mutex_destroy((pthread_mutex_t *)mutex);
}

int mtx_lock(mtx_t *mutex)
{
    return result_of(pthread_mutex_lock((pthread_mutex_t *)mutex));
}

int mtx_trylock(mtx_t *mutex)
{
    return result_of(pthread_mutex_trylock((pthread_mutex_t *)mutex));
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict deadline)
{
    return result_of(pthread_mutex_timedlock((pthread_mutex_t *)mutex, deadline));
}

int mtx_unlock(mtx_t *mutex)
{
    return result_of(pthread_mutex_unlock((pthread_mutex_t *)mutex));
}

int cnd_init(cnd_t *condition)
{
    return result_of(pthread_cond_init((pthread_cond_t *)condition, NULL));
}

void cnd_destroy(cnd_t *condition)
{
    (void)pthread_cond_destroy((pthread_cond_t *)condition);
}

int cnd_signal(cnd_t *condition)
{
    return result_of(pthread_cond_signal((pthread_cond_t *)condition));
}

int cnd_broadcast(cnd_t *condition)
{
    return result_of(pthread_cond_broadcast((pthread_cond_t *)condition));
}

int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
    return result_of(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
                  const struct timespec *restrict deadline)
{
    return result_of(
        pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, deadline));
}

void call_once(once_flag *flag, void (*function)(void))
{
    (void)pthread_once((pthread_once_t *)flag, function);
}
