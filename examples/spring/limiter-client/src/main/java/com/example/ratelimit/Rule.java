package com.example.ratelimit;

import java.time.Duration;
import java.util.Locale;
import org.springframework.util.Assert;

/**
 * One rule of a route: so many permits in a window, counted in one of the module's ways. What can
 * never work is refused here, which is when an application starts.
 *
 * @param name stands in the key, in the header fields and, after the route, in {@code RL.POLICY}
 * @param burst capacity of a bucket; 0: the limit
 * @param cost permits that one request takes
 */
public record Rule(String name, long limit, Duration window, Algorithm algorithm, long burst, long cost) {

    private static final long MOST = 1_000_000_000_000L;
    private static final long LONGEST = Duration.ofDays(3650).toMillis();

    /** Not {@code concurrency}: a lease needs an ID and someone who ends it. */
    public enum Algorithm {
        SLIDING,
        BUCKET,
        LEAKY,
        FIXED,
        COUNTER;

        String word() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    public Rule {
        check(name != null && window != null, name, "it needs a name and a window");
        long millis = window.toMillis();
        long capacity = algorithm == Algorithm.LEAKY ? 1 : burst > 0 ? burst : limit;
        check(name.matches("[\\w.-]{1,20}"), name, "its name must be 1 to 20 of A-Z a-z 0-9 _ . -");
        check(limit >= 0 && limit <= MOST, name, "limit must be 0 to 10^12, not " + limit);
        check(millis >= 1 && millis <= LONGEST, name, "window must be 1 ms to ten years");
        check(burst >= 0 && burst <= MOST, name, "burst must be 0 to 10^12, not " + burst);
        check(burst == 0 || algorithm == Algorithm.BUCKET, name, "burst goes with bucket only");
        check(cost >= 0, name, "cost must not be negative, but is " + cost);
        check(
                limit == 0 || cost <= capacity,
                name,
                "nothing could ever pass: a cost of " + cost + " does not fit into " + capacity);
    }

    /**
     * In the words of the command, always in the same order: the server remembers strings that
     * repeat. Nothing gets in but integers and words of ours.
     */
    String text() {
        String size = burst > 0 ? " BURST " + burst : "";
        return "WINDOW " + window.toMillis() + " LIMIT " + limit + " ALGO " + algorithm.word() + size + " COST " + cost;
    }

    private static void check(boolean ok, String name, String complaint) {
        Assert.isTrue(ok, () -> "rate limit rule '" + name + "': " + complaint);
    }
}
