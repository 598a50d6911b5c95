package com.example.ratelimit;

import com.example.ratelimit.Reply.Quota;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * What becomes of a request.
 *
 * @param binding which of the request's limits refused it
 * @param local refused by the deny cache, without a call
 * @param headers RateLimit-Policy and RateLimit, of draft-ietf-httpapi-ratelimit-headers, and
 *     Retry-After, as far as they apply
 */
public record Decision(Outcome outcome, int binding, boolean local, Map<String, String> headers) {

    /** UNCHECKED and UNAVAILABLE: Redis was away, and the route passes or refuses requests then. */
    public enum Outcome {
        PASSED,
        REFUSED,
        UNCHECKED,
        UNAVAILABLE;

        public boolean passes() {
            return this == PASSED || this == UNCHECKED;
        }
    }

    static Decision of(Reply reply) {
        boolean passed = reply.granted() > 0;
        return new Decision(
                passed ? Outcome.PASSED : Outcome.REFUSED,
                reply.binding(),
                false,
                headers(reply.quotas(), passed, reply.retryAfter()));
    }

    /**
     * For whom the permits of a batch were not enough. As some were granted, the reply says no time
     * to wait: it is the shortest that can be told, a second.
     */
    static Decision leftOver(Reply reply) {
        List<Quota> quotas = new ArrayList<>(reply.quotas());
        quotas.set(reply.binding(), refused(quotas.get(reply.binding()), 1));
        return new Decision(Outcome.REFUSED, reply.binding(), false, headers(quotas, false, 1));
    }

    /** {@code wait} is in milliseconds; -1: for good. */
    static Decision refusedLocally(Quota quota, int binding, long wait) {
        return new Decision(Outcome.REFUSED, binding, true, headers(List.of(refused(quota, wait)), false, wait));
    }

    private static Quota refused(Quota quota, long wait) {
        return new Quota(
                quota.name(), false, quota.remaining(), wait, quota.resetAfter(), quota.window(), quota.quota());
    }

    static Decision away(Route.WhenAway mode) {
        return mode == Route.WhenAway.PASS
                ? new Decision(Outcome.UNCHECKED, 0, false, Map.of())
                : new Decision(Outcome.UNAVAILABLE, 0, false, Map.of("Retry-After", "1"));
    }

    private static Map<String, String> headers(List<Quota> quotas, boolean passed, long wait) {
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put(
                "RateLimit-Policy",
                join(quotas, quota -> '"' + quota.name() + "\";q=" + quota.quota() + ";w=" + seconds(quota.window())));
        headers.put("RateLimit", join(quotas, quota -> {
            long time = passed || quota.granted() ? quota.resetAfter() : quota.retryAfter();
            String state = '"' + quota.name() + "\";r=" + quota.remaining();
            return time < 0 ? state : state + ";t=" + seconds(time);
        }));
        if (!passed && wait >= 0) {
            headers.put("Retry-After", String.valueOf(Math.max(1, seconds(wait))));
        }
        return headers;
    }

    private static String join(List<Quota> quotas, Function<Quota, String> item) {
        return quotas.stream().map(item).collect(Collectors.joining(", "));
    }

    private static long seconds(long millis) {
        return (millis + 999) / 1000;
    }
}
