#include "common/hash/murmur2.h"

#include <criterion/criterion.h>
#include <string.h>

static void assert_hash(const char *key, uint32_t expected)
{
    uint32_t hash = murmur2(key, strlen(key));
    cr_assert_eq(hash, expected, "murmur2(\"%s\") is %#x, not %#x", key, hash, expected);
}

/* org.apache.kafka.common.utils.UtilsTest, which states them as Java's signed int. */
Test(murmur2, equals_the_java_client)
{
    assert_hash("21", (uint32_t)-973932308);
    assert_hash("foobar", (uint32_t)-790332482);
    assert_hash("a-little-bit-long-string", (uint32_t)-985981536);
    assert_hash("a-little-bit-longer-string", (uint32_t)-1486304829);
    assert_hash("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", (uint32_t)-58897971);
    assert_hash("abc", UINT32_C(479470107));
}

/* rdmurmur2.c of librdkafka: every length of the tail, and the empty key. */
Test(murmur2, equals_librdkafka)
{
    assert_hash("", UINT32_C(0x106e08d9));
    assert_hash("4", UINT32_C(0x5a4b5ca1));
    assert_hash("34", UINT32_C(0x873930da));
    assert_hash("234", UINT32_C(0xe7c009ca));
    assert_hash("1234", UINT32_C(0x9fc97b14));
    assert_hash("kafka", UINT32_C(0xd067cf64));
    assert_hash("giberish123456789", UINT32_C(0x8f552b0c));
}

/* A C program reads a key where it lies in a message: at any address. */
Test(murmur2, does_not_depend_on_alignment)
{
    char room[40];
    for (size_t shift = 0; shift < 8; shift++) {
        memcpy(room + shift, "giberish123456789", 18);
        cr_assert_eq(murmur2(room + shift, 17), UINT32_C(0x8f552b0c));
    }
}

/* Signed bytes would be sign-extended by a careless port; Java masks them with 0xff. */
Test(murmur2, takes_bytes_as_unsigned)
{
    /* From a second implementation in another language, compared with librdkafka's partitioner. */
    cr_assert_eq(murmur2("\xff", 1), UINT32_C(0xed6f615b));
    cr_assert_eq(murmur2("\xff\xfe\xfd\xfc\xfb\x80\x81", 7), UINT32_C(0x77f32324));
    cr_assert_eq(murmur2(NULL, 0), UINT32_C(0x106e08d9));
}
