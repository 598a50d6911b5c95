package com.example.ratelimit;

import com.example.ratelimit.Route.Limit;
import java.util.List;
import java.util.stream.IntStream;

/** The reply of {@code RL.ACQUIREX ... WITHKEYS}: six integers, then seven for each key. */
record Reply(long granted, int binding, long retryAfter, List<Quota> quotas) {

    /** One key by itself, times in milliseconds. */
    record Quota(
            String name, boolean granted, long remaining, long retryAfter, long resetAfter, long window, long quota) {}

    static Reply of(List<Limit> limits, List<?> reply) {
        List<?> keys = (List<?>) reply.get(6);
        List<Quota> quotas = IntStream.range(0, limits.size())
                .mapToObj(i -> quota(limits.get(i).rule().name(), (List<?>) keys.get(i)))
                .toList();
        return new Reply(number(reply, 0), (int) number(reply, 5), number(reply, 3), quotas);
    }

    private static Quota quota(String name, List<?> key) {
        return new Quota(
                name,
                number(key, 0) > 0,
                number(key, 2),
                number(key, 3),
                number(key, 4),
                number(key, 5),
                number(key, 6));
    }

    private static long number(List<?> list, int index) {
        return (Long) list.get(index);
    }
}
