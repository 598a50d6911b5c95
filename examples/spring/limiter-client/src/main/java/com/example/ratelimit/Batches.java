package com.example.ratelimit;

import com.example.ratelimit.Reply.Quota;
import com.example.ratelimit.Route.Limit;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

/**
 * Fetches permits by the batch and hands them out to requests with the same keys and rules.
 *
 * <p>As many requests as permits were asked for share a fetch, also while it is under way. No
 * request asks twice: of a fetch that brings less than was asked for, those left over know that
 * there is no room. Permits that are not used in time are dropped: late ones would come on top of
 * those of the next window.
 */
final class Batches {

    private final Bounded<List<Limit>, Fetch> fetches;
    private final long ttl;
    private final DenyCache denials;

    Batches(int size, Duration ttl, DenyCache denials) {
        this.fetches = new Bounded<>(size);
        this.ttl = ttl.toNanos();
        this.denials = denials;
    }

    /** The call is one for {@code size} permits, and ends in time. */
    CompletableFuture<Decision> take(List<Limit> limits, int size, Supplier<CompletableFuture<Reply>> call) {
        Fetch fetch;
        int share;
        synchronized (fetches) {
            fetch = fetches.get(limits);
            long left = fetch == null ? 0 : fetch.room() - fetch.shares;
            // A permit that is here counts more than a denial, which may be of another fetch.
            if (left <= 0 || !fetch.reply.isDone()) {
                Decision known = denials.find(limits);
                if (known != null) {
                    return CompletableFuture.completedFuture(known);
                }
            }
            if (left <= 0) {
                fetch = new Fetch(size);
                fetches.put(limits, fetch);
            }
            share = ++fetch.shares;
        }
        if (share == 1) {
            fetch.start(call);
        }
        return fetch.reply.thenApply(reply -> decide(reply, share, limits));
    }

    private static Decision decide(Reply reply, int share, List<Limit> limits) {
        if (reply.granted() == 0) {
            return Decision.of(reply);
        }
        return share > reply.granted()
                ? Decision.leftOver(reply)
                : Decision.of(withRest(reply, reply.granted() - share, limits));
    }

    private final class Fetch {
        /** Measured from before the call: that is when the permits may have been taken. */
        private final long until = System.nanoTime() + ttl;

        private final CompletableFuture<Reply> reply = new CompletableFuture<>();
        private final int size;
        private int shares; // handed out

        Fetch(int size) {
            this.size = size;
        }

        void start(Supplier<CompletableFuture<Reply>> call) {
            try {
                call.get().whenComplete((answer, failure) -> {
                    if (failure == null) {
                        reply.complete(answer);
                    } else {
                        reply.completeExceptionally(failure);
                    }
                });
            } catch (RuntimeException e) {
                reply.completeExceptionally(e); // or all others would wait for ever
            }
        }

        /** How many shares it has. */
        long room() {
            if (!reply.isDone()) {
                return size;
            }
            boolean late = until - System.nanoTime() <= 0;
            return late || reply.isCompletedExceptionally() ? 0 : reply.join().granted();
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
