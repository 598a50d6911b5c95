package com.example.ratelimit;

import com.example.ratelimit.Route.Limit;
import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.circuitbreaker.CircuitBreaker.StateTransition;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig.SlidingWindowType;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiConsumer;
import org.springframework.core.NestedExceptionUtils;

/**
 * Decides about requests: one call of {@code RL.ACQUIREX} for all limits of one, or none when the
 * answer is known. Asynchronous and thread-safe; an application has one.
 */
public final class Limiter implements AutoCloseable {

    private final LimiterSettings settings;
    private final LimiterConnection redis;
    private final DenyCache denials;
    private final Batches batches;
    private final OutageLog outages = new OutageLog();
    private final BiConsumer<Route, Decision> listener;
    private final CircuitBreaker breaker;
    private volatile String lastReason = "";

    /** The listener hears of each decision, for counters; it must not block. */
    public Limiter(LimiterSettings settings, BiConsumer<Route, Decision> listener) {
        this.settings = settings;
        this.listener = listener;
        int failures = settings.breakerFailures();
        breaker = CircuitBreaker.of(
                "rate-limiter",
                CircuitBreakerConfig.custom()
                        .slidingWindow(failures, failures, SlidingWindowType.COUNT_BASED)
                        .failureRateThreshold(100) // all of the last n: n in a row
                        .waitDurationInOpenState(settings.breakerOpen())
                        .permittedNumberOfCallsInHalfOpenState(1)
                        .build());
        denials = new DenyCache(settings.denyCache() ? settings.cacheSize() : 0);
        batches = new Batches(settings.cacheSize(), settings.batchTtl());
        redis = new LimiterConnection(settings);
        breaker.getEventPublisher().onStateTransition(event -> {
            if (event.getStateTransition() == StateTransition.HALF_OPEN_TO_OPEN) {
                redis.reconnect();
            }
        });
        warmUp();
    }

    /** So that the first request need not connect nor load classes. A cost of 0 takes nothing. */
    private void warmUp() {
        Rule free = new Rule("all", 1, Duration.ofSeconds(1), Rule.Algorithm.BUCKET, 0, 0);
        redis.acquire(List.of(new Route("warm-up", Route.WhenAway.PASS, 1).limit(free)), 1);
    }

    /**
     * Asks for a permit of each limit, or of none. Fails only when the call itself is wrong; when
     * Redis is away, the decision is the route's.
     */
    public CompletableFuture<Decision> acquire(Route route, List<Limit> limits) {
        Decision known = denials.find(limits);
        if (known != null) {
            listener.accept(route, known);
            return CompletableFuture.completedFuture(known);
        }
        return decide(route, limits).handle((answer, failure) -> {
            Decision decision = failure == null ? answer : away(route, cause(failure));
            listener.accept(route, decision);
            return decision;
        });
    }

    private CompletableFuture<Decision> decide(Route route, List<Limit> limits) {
        if (route.batch() == 1) {
            return call(limits, 1).thenApply(Decision::of);
        }
        // A request may wait for one fetch after another, but not for longer than one call.
        return batches.take(limits, () -> call(limits, route.batch()))
                .orTimeout(settings.timeout().toNanos(), TimeUnit.NANOSECONDS);
    }

    private CompletableFuture<Reply> call(List<Limit> limits, int upTo) {
        if (!breaker.tryAcquirePermission()) {
            return CompletableFuture.failedFuture(new BreakerOpen());
        }
        long asked = System.nanoTime();
        return redis.acquire(limits, upTo).whenComplete((reply, failure) -> {
            long took = System.nanoTime() - asked;
            Throwable cause = cause(failure);
            if (cause != null && LimiterConnection.isAway(cause)) {
                lastReason = reason(cause);
                breaker.onError(took, TimeUnit.NANOSECONDS, cause);
                return;
            }
            breaker.onSuccess(took, TimeUnit.NANOSECONDS); // an error is an answer, too
            if (reply != null && reply.granted() == 0) {
                denials.remember(limits, reply, asked);
            }
        });
    }

    private Decision away(Route route, Throwable cause) {
        if (cause instanceof BreakerOpen) {
            outages.failed(route, lastReason);
        } else if (LimiterConnection.isAway(cause)) {
            outages.failed(route, reason(cause));
        } else {
            throw new CompletionException(cause);
        }
        return Decision.away(route.whenAway());
    }

    private String reason(Throwable cause) {
        return cause instanceof TimeoutException
                ? "no answer within " + settings.timeout().toMillis() + " ms"
                : NestedExceptionUtils.getMostSpecificCause(cause).getMessage();
    }

    private static Throwable cause(Throwable failure) {
        return failure instanceof CompletionException ? failure.getCause() : failure;
    }

    @Override
    public void close() {
        redis.close();
        outages.tellAll();
    }

    /** No call was made. */
    private static final class BreakerOpen extends RuntimeException {
        BreakerOpen() {
            super(null, null, false, false);
        }
    }
}
