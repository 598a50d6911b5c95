package com.example.ratelimit;

import com.example.ratelimit.Reply.Quota;
import com.example.ratelimit.Route.Limit;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Remembers who was refused and for how long, so that an attack does not reach Redis.
 *
 * <p>Only the limit that refused is remembered, with its cost: to any other request the server
 * might say yes. And for a second at most, as an operator may raise or lift the limit meanwhile.
 */
final class DenyCache {

    private static final long LONGEST = 1000;
    private static final long MILLI = TimeUnit.MILLISECONDS.toNanos(1);

    /** {@code permitAt} is null when no permit will ever come. */
    private record Denial(long until, Long permitAt, Quota quota) {

        boolean outlasts(Denial other) {
            return other.permitAt != null && (permitAt == null || permitAt - other.permitAt > 0);
        }
    }

    private final Bounded<Limit, Denial> denials;

    DenyCache(int size) {
        denials = new Bounded<>(size);
    }

    /** {@code asked} is the time before the call: the server cannot have counted from earlier. */
    void remember(List<Limit> limits, Reply reply, long asked) {
        long wait = reply.retryAfter();
        // Less one: the server counts whole milliseconds, and the present one had begun.
        long until = asked + MILLI * ((wait < 0 ? LONGEST : Math.min(wait, LONGEST)) - 1);
        Long permitAt = wait < 0 ? null : System.nanoTime() + MILLI * wait;
        Denial denial = new Denial(until, permitAt, reply.quotas().get(reply.binding()));
        synchronized (denials) {
            denials.remove(limits.get(reply.binding())); // so that it becomes the youngest
            denials.put(limits.get(reply.binding()), denial);
        }
    }

    /** The refusal with the longest wait, or null: ask the server. */
    Decision find(List<Limit> limits) {
        long now = System.nanoTime();
        Denial longest = null;
        int binding = 0;
        synchronized (denials) {
            for (int i = 0; i < limits.size(); i++) {
                Denial denial = denials.get(limits.get(i));
                if (denial != null && denial.until - now <= 0) {
                    denials.remove(limits.get(i));
                } else if (denial != null && (longest == null || denial.outlasts(longest))) {
                    longest = denial;
                    binding = i;
                }
            }
        }
        if (longest == null) {
            return null;
        }
        long wait = longest.permitAt == null
                ? -1
                : Math.min(longest.quota.retryAfter(), (longest.permitAt - now) / MILLI + 1);
        return Decision.refusedLocally(longest.quota, binding, wait);
    }
}
