package com.example.ratelimit;

import com.example.ratelimit.Route.Limit;
import io.github.resilience4j.circuitbreaker.CallNotPermittedException;
import io.github.resilience4j.circuitbreaker.CircuitBreaker.StateTransition;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig.SlidingWindowType;
import io.github.resilience4j.circuitbreaker.CircuitBreakerRegistry;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
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
    private final CircuitBreakerRegistry breakers;
    private final Map<String, String> lastReasons = new ConcurrentHashMap<>();
    private volatile long lastAnswer = System.nanoTime();

    /** The listener hears of each decision, for counters; it must not block. */
    public Limiter(LimiterSettings settings, BiConsumer<Route, Decision> listener) {
        this.settings = settings;
        this.listener = listener;
        denials = new DenyCache(settings.denyCache() ? settings.cacheSize() : 0);
        batches = new Batches(settings.cacheSize(), settings.batchTtl(), denials);
        redis = new LimiterConnection(settings);
        breakers = breakers();
        warmUp();
    }

    /**
     * One for each route, whose keys share a slot: in a cluster, a node that is away does not switch
     * off the limits on the other nodes.
     */
    private CircuitBreakerRegistry breakers() {
        int failures = settings.breakerFailures();
        var registry = CircuitBreakerRegistry.of(CircuitBreakerConfig.custom()
                .slidingWindow(failures, failures, SlidingWindowType.COUNT_BASED)
                .failureRateThreshold(100) // all of the last n: n in a row
                .recordException(LimiterConnection::isDown)
                .waitDurationInOpenState(settings.breakerOpen())
                .permittedNumberOfCallsInHalfOpenState(1)
                // A trial ends within the time-out. Should its end get lost, the next one follows.
                .maxWaitDurationInHalfOpenState(settings.timeout().plus(settings.breakerOpen()))
                .writableStackTraceEnabled(false)
                .build());
        registry.getEventPublisher().onEntryAdded(added -> added.getAddedEntry()
                .getEventPublisher()
                .onStateTransition(event -> {
                    if (event.getStateTransition() == StateTransition.HALF_OPEN_TO_OPEN) {
                        reconnect();
                    }
                }));
        return registry;
    }

    /** Unless other routes get answers, or it has been tried just now. */
    private synchronized void reconnect() {
        long now = System.nanoTime();
        if (now - lastAnswer > settings.breakerOpen().toNanos()) {
            lastAnswer = now;
            redis.reconnect();
        }
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
        return decide(route, limits).handle((answer, failure) -> {
            Decision decision = failure == null ? answer : away(route, cause(failure));
            listener.accept(route, decision);
            return decision;
        });
    }

    private CompletableFuture<Decision> decide(Route route, List<Limit> limits) {
        if (route.batch() > 1) {
            return batches.take(limits, route.batch(), () -> call(route, limits));
        }
        Decision known = denials.find(limits);
        return known != null
                ? CompletableFuture.completedFuture(known)
                : call(route, limits).thenApply(Decision::of);
    }

    private CompletableFuture<Reply> call(Route route, List<Limit> limits) {
        return breakers.circuitBreaker(route.name())
                .executeCompletionStage(() -> {
                    long asked = System.nanoTime();
                    return redis.acquire(limits, route.batch()).thenApply(reply -> {
                        lastAnswer = System.nanoTime();
                        if (reply.granted() == 0) {
                            denials.remember(limits, reply, asked);
                        }
                        return reply;
                    });
                })
                .toCompletableFuture();
    }

    private Decision away(Route route, Throwable cause) {
        if (LimiterConnection.isAway(cause)) {
            lastReasons.put(route.name(), reason(cause));
        } else if (!(cause instanceof CallNotPermittedException)) {
            throw new CompletionException(cause);
        }
        outages.failed(route, lastReasons.getOrDefault(route.name(), ""));
        return Decision.away(route.whenAway());
    }

    private String reason(Throwable cause) {
        if (cause instanceof TimeoutException) {
            return "no answer within " + settings.timeout().toMillis() + " ms";
        }
        Throwable root = NestedExceptionUtils.getMostSpecificCause(cause);
        return root.getMessage() == null ? root.toString() : root.getMessage();
    }

    private static Throwable cause(Throwable failure) {
        return failure instanceof CompletionException ? failure.getCause() : failure;
    }

    @Override
    public void close() {
        redis.close();
        outages.tellAll();
    }
}
