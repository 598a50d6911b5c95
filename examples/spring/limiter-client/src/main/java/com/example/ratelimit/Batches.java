package com.example.ratelimit;

import com.example.ratelimit.Reply.Quota;
import com.example.ratelimit.Route.Limit;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/**
 * Fetches permits by the batch and hands them out to requests with the same keys and rules.
 *
 * <p>One fetch is under way for a set of keys; requests that come meanwhile share it. Permits that
 * are not used in time are dropped: late ones would come on top of those of the next window.
 */
final class Batches {

    private final Bounded<List<Limit>, Fetch> fetches;
    private final long ttl;

    Batches(int size, Duration ttl) {
        this.fetches = new Bounded<>(size);
        this.ttl = ttl.toNanos();
    }

    CompletableFuture<Decision> take(List<Limit> limits, Supplier<CompletableFuture<Reply>> call) {
        Fetch fetch;
        boolean first;
        synchronized (fetches) {
            fetch = fetches.get(limits);
            first = fetch == null || fetch.isSpent();
            if (first) {
                fetch = new Fetch();
                fetches.put(limits, fetch);
            }
        }
        if (first) {
            call.get().whenComplete(fetch::arrived);
        }
        return fetch.handOut(first, limits)
                .thenCompose(decision ->
                        decision == null ? take(limits, call) : CompletableFuture.completedFuture(decision));
    }

    private final class Fetch {
        /** Measured from before the call: that is when the permits may have been taken. */
        private final long until = System.nanoTime() + ttl;

        private final CompletableFuture<Reply> reply = new CompletableFuture<>();
        private final AtomicLong left = new AtomicLong();

        void arrived(Reply answer, Throwable failure) {
            if (failure == null) {
                left.set(answer.granted() - 1); // one is kept for the request that fetched
                reply.complete(answer);
            } else {
                reply.completeExceptionally(failure);
            }
        }

        boolean isSpent() {
            return reply.isDone() && (left.get() <= 0 || isLate());
        }

        private boolean isLate() {
            return until - System.nanoTime() <= 0;
        }

        /** A permit of this batch or the denial of it; null: others had them. */
        CompletableFuture<Decision> handOut(boolean first, List<Limit> limits) {
            return reply.thenApply(answer -> {
                if (answer.granted() == 0) {
                    return Decision.of(answer);
                }
                long rest = first ? answer.granted() - 1 : isLate() ? -1 : left.decrementAndGet();
                return rest < 0 ? null : Decision.of(withRest(answer, rest, limits));
            });
        }
    }

    /** Permits that wait here have left the server, but have not been used. */
    private static Reply withRest(Reply reply, long rest, List<Limit> limits) {
        List<Quota> quotas = new ArrayList<>();
        for (Quota quota : reply.quotas()) {
            long unused = rest * limits.get(quotas.size()).rule().cost();
            quotas.add(new Quota(
                    quota.name(),
                    quota.granted(),
                    quota.remaining() + unused,
                    quota.retryAfter(),
                    quota.resetAfter(),
                    quota.window(),
                    quota.quota()));
        }
        return new Reply(reply.granted(), reply.binding(), reply.retryAfter(), quotas);
    }
}
