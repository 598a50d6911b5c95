package com.example.ratelimit;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One warning a route and second. The first failure is told at once, those that follow are summed
 * up, and a timer tells the sum, so that it comes out when the traffic has stopped as well.
 */
final class OutageLog {

    private static final Logger log = LoggerFactory.getLogger(OutageLog.class);

    private record Sum(long requests, String reason) {}

    private final Map<Route, Sum> sums = new ConcurrentHashMap<>();

    void failed(Route route, String reason) {
        sums.compute(
                route, (key, sum) -> sum == null ? warn(route, new Sum(1, reason)) : new Sum(sum.requests + 1, reason));
    }

    private void tell(Route route) {
        // After a second without failures the entry goes; the next failure is a first one again.
        sums.computeIfPresent(route, (key, sum) -> sum.requests == 0 ? null : warn(route, sum));
    }

    private Sum warn(Route route, Sum sum) {
        log.warn(
                "rate limiter away for '{}': {} {} {} in the last second: {}",
                route.name(),
                sum.requests,
                sum.requests == 1 ? "request" : "requests",
                route.whenAway() == Route.WhenAway.PASS ? "passed unchecked" : "refused unchecked",
                sum.reason);
        CompletableFuture.delayedExecutor(1, TimeUnit.SECONDS).execute(() -> tell(route));
        return new Sum(0, sum.reason);
    }

    /** At the end: what has not been told. */
    void tellAll() {
        sums.keySet().forEach(this::tell);
    }
}
