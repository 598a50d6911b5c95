package com.example.ratelimit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.example.ratelimit.Decision.Outcome;
import com.example.ratelimit.Route.Limit;
import com.example.ratelimit.Route.WhenAway;
import com.example.ratelimit.Rule.Algorithm;
import io.lettuce.core.RedisCommandExecutionException;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.MapConfigurationPropertySource;

/** The client by itself, against a real server. */
class LimiterTest {

    private static final RedisServer REDIS = new RedisServer();
    private static final Route ROUTE = new Route("test", WhenAway.PASS, 1);

    @BeforeEach
    void empty() {
        REDIS.call("FLUSHALL");
    }

    @AfterAll
    static void end() {
        REDIS.close();
    }

    /** With time enough: the machine may be busy, and most of these tests are about answers. */
    static Limiter limiter(Object... settings) {
        Map<String, Object> properties = new HashMap<>(Map.of("redis", REDIS.uri(), "timeout", "2s"));
        for (int i = 0; i < settings.length; i += 2) {
            properties.put((String) settings[i], settings[i + 1]);
        }
        Binder binder = new Binder(new MapConfigurationPropertySource(properties));
        return new Limiter(binder.bindOrCreate("", LimiterSettings.class), (route, decision) -> {});
    }

    private static Rule rule(String name, long limit, Duration window) {
        return new Rule(name, limit, window, Algorithm.SLIDING, 0, 1);
    }

    private static Outcome outcome(Limiter limiter, Route route, Limit... limits) {
        return limiter.acquire(route, List.of(limits)).join().outcome();
    }

    @Test
    void refusesLocallyOnlyWhatTheServerWouldRefuse() {
        var limits = List.of(ROUTE.limit(rule("ip", 3, Duration.ofMillis(100)), "192.0.2.7"));
        int local = 0;
        int passed = 0;
        long calls = REDIS.acquisitions();
        try (Limiter limiter = limiter()) {
            // Nobody else takes permits: what the server has, it still has when we ask.
            for (long end = System.nanoTime() + 2_000_000_000L; System.nanoTime() < end; ) {
                boolean free = REDIS.peek(limits).outcome().passes();
                Decision decision = limiter.acquire(ROUTE, limits).join();
                assertThat(free && !decision.outcome().passes())
                        .as("refused what was free")
                        .isFalse();
                local += decision.local() ? 1 : 0;
                passed += decision.outcome().passes() ? 1 : 0;
            }
        }
        assertThat(local).isGreaterThan(500);
        assertThat(passed)
                .as("3 each 100 ms, and a little time to ask for them")
                .isBetween(20, 63);
        assertThat(REDIS.acquisitions() - calls).isLessThan(passed + local / 2);
    }

    @Test
    void remembersOnlyTheLimitThatRefused() {
        REDIS.call("RL.POLICY", "SET", "test.ip", "WINDOW", 60000, "LIMIT", 0, "ALGO", "sliding", "SHADOW");
        Limit ip = ROUTE.limit(rule("ip", 1, Duration.ofMinutes(1)), "192.0.2.7");
        Rule user = rule("user", 1, Duration.ofMinutes(1));
        try (Limiter limiter = limiter()) {
            Limit[] anna = {ip, ROUTE.limit(user, "anna")};
            assertThat(outcome(limiter, ROUTE, anna)).isEqualTo(Outcome.PASSED);
            assertThat(outcome(limiter, ROUTE, anna)).isEqualTo(Outcome.REFUSED);
            // The address has no permits left either, but only the shadow of a policy says so.
            assertThat(outcome(limiter, ROUTE, ip, ROUTE.limit(user, "bert"))).isEqualTo(Outcome.PASSED);
        } finally {
            REDIS.call("RL.POLICY", "DEL", "test.ip");
        }
    }

    @Test
    void whatNeverComesHasNoRetryAfter() {
        Limit closed = ROUTE.limit(rule("all", 0, Duration.ofMinutes(1)));
        try (Limiter limiter = limiter()) {
            for (boolean local : new boolean[] {false, true}) {
                Decision decision = limiter.acquire(ROUTE, List.of(closed)).join();
                assertThat(decision.local()).isEqualTo(local);
                assertThat(decision.headers())
                        .containsExactly(
                                Map.entry("RateLimit-Policy", "\"all\";q=0;w=60"),
                                Map.entry("RateLimit", "\"all\";r=0"));
            }
        }
    }

    @Test
    void withoutTheDenyCacheEachRequestIsACall() {
        Limit limit = ROUTE.limit(rule("all", 1, Duration.ofMinutes(1)));
        try (Limiter limiter = limiter("deny-cache", false)) {
            outcome(limiter, ROUTE, limit);
            long calls = REDIS.acquisitions();
            IntStream.range(0, 10).forEach(i -> outcome(limiter, ROUTE, limit));
            assertThat(REDIS.acquisitions() - calls).isEqualTo(10);
        }
    }

    @Test
    void batchesOfTwoProcessesTogetherStayWithinTheLimit() {
        Route route = new Route("batch", WhenAway.PASS, 20);
        Limit limit = route.limit(rule("all", 100, Duration.ofMinutes(1)));
        long calls = REDIS.acquisitions();
        try (Limiter one = limiter("batch-ttl", "10s");
                Limiter two = limiter("batch-ttl", "10s")) {
            var decisions = IntStream.range(0, 300)
                    .mapToObj(i -> (i % 2 == 0 ? one : two).acquire(route, List.of(limit)))
                    .toList();
            var passed = decisions.stream()
                    .map(CompletableFuture::join)
                    .filter(decision -> decision.outcome() == Outcome.PASSED)
                    .toList();
            assertThat(passed).hasSize(100);
        }
        assertThat(REDIS.acquisitions() - calls)
                .as("5 batches, warm-up and denials")
                .isLessThan(12);
    }

    @Test
    void permitsOfABatchAreDroppedWhenTheyAreLate() {
        Route route = new Route("late", WhenAway.PASS, 10);
        Limit limit = route.limit(rule("all", 20, Duration.ofMinutes(1)));
        try (Limiter limiter = limiter("batch-ttl", "1ms")) {
            // Each fetches ten, and nobody comes within a millisecond to use the other nine.
            Decision first = limiter.acquire(route, List.of(limit)).join();
            assertThat(first.headers().get("RateLimit"))
                    .as("ten at the server, nine here")
                    .isEqualTo("\"all\";r=19;t=60");
            long late = System.nanoTime() + 2_000_000;
            await().pollInterval(Duration.ofMillis(1)).until(() -> System.nanoTime() > late);
            assertThat(outcome(limiter, route, limit)).isEqualTo(Outcome.PASSED);
            assertThat(REDIS.peek(List.of(limit)).outcome()).isEqualTo(Outcome.REFUSED);
        }
    }

    @Test
    void doesNotRepeatACallAfterReconnecting() {
        Limit limit = ROUTE.limit(rule("all", 10, Duration.ofMinutes(1)));
        try (Limiter limiter = limiter("timeout", "500ms")) {
            await().until(() -> outcome(limiter, ROUTE, limit) == Outcome.PASSED);
            long calls = REDIS.acquisitions();
            REDIS.call("CLIENT", "PAUSE", 5000, "WRITE"); // the call waits in the server ...
            var decision = limiter.acquire(ROUTE, List.of(limit));
            await().until(() -> REDIS.info("clients", "blocked_clients:(\\d+)") == 1);
            REDIS.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); // ... and dies there
            assertThat(decision.join().outcome()).isEqualTo(Outcome.UNCHECKED);
            REDIS.call("CLIENT", "UNPAUSE");
            await().until(() -> outcome(limiter, ROUTE, limit) == Outcome.PASSED);
            assertThat(REDIS.acquisitions() - calls)
                    .as("only the one that passed")
                    .isEqualTo(1);
        }
    }

    @Test
    void startsWithoutRedisAndFindsItLater() {
        REDIS.kill();
        Limit limit = ROUTE.limit(rule("all", 1000, Duration.ofMinutes(1)));
        try (Limiter limiter = limiter()) {
            assertThat(outcome(limiter, ROUTE, limit)).isEqualTo(Outcome.UNCHECKED);
            REDIS.start();
            await().atMost(Duration.ofSeconds(5)).until(() -> outcome(limiter, ROUTE, limit) == Outcome.PASSED);
        }
    }

    @Test
    void leavesAConnectionThatLeadsNowhere() throws IOException {
        Limit limit = ROUTE.limit(rule("all", 1000, Duration.ofMinutes(1)));
        try (Proxy proxy = new Proxy(REDIS.port());
                Limiter limiter = limiter("redis", "redis://127.0.0.1:" + proxy.port(), "timeout", "50ms")) {
            await().until(() -> outcome(limiter, ROUTE, limit) == Outcome.PASSED);
            proxy.loseConnections();
            assertThat(outcome(limiter, ROUTE, limit)).isEqualTo(Outcome.UNCHECKED);
            await().atMost(Duration.ofSeconds(6)).until(() -> outcome(limiter, ROUTE, limit) == Outcome.PASSED);
        }
    }

    @Test
    void theCallersMistakesAreItsOwn() {
        Limit limit = ROUTE.limit(rule("all", 1, Duration.ofMinutes(1)));
        try (Limiter limiter = limiter()) {
            assertThatThrownBy(() -> outcome(limiter, ROUTE, limit, limit))
                    .isInstanceOf(CompletionException.class)
                    .hasCauseInstanceOf(RedisCommandExecutionException.class)
                    .hasMessageContaining("named twice");
        }
    }

    @Test
    void aServerThatMayNotWriteIsAway() {
        Limit limit = ROUTE.limit(rule("all", 10, Duration.ofMinutes(1)));
        try (Limiter limiter = limiter()) {
            REDIS.call("CONFIG", "SET", "min-replicas-to-write", 1);
            assertThat(outcome(limiter, ROUTE, limit)).isEqualTo(Outcome.UNCHECKED);
            REDIS.call("CONFIG", "SET", "min-replicas-to-write", 0);
            REDIS.call("CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction");
            assertThat(outcome(limiter, ROUTE, limit)).isEqualTo(Outcome.UNCHECKED);
            REDIS.call("CONFIG", "SET", "maxmemory", 0);
            assertThat(outcome(limiter, ROUTE, limit)).isEqualTo(Outcome.PASSED);
        }
    }

    @Test
    void nobodyChoosesHisSlotOrTheLengthOfAKey() {
        Rule rule = rule("user", 1, Duration.ofSeconds(1));
        assertThat(ROUTE.limit(rule).key()).isEqualTo("rl:{test}:user");
        assertThat(ROUTE.limit(rule, "2001:db8::7").key()).isEqualTo("rl:{test}:user:2001:db8::7");
        assertThat(ROUTE.limit(rule, "}{%h").key()).isEqualTo("rl:{test}:user:%7D%7B%25h");
        assertThat(ROUTE.limit(rule, "x".repeat(1_000_000)).key())
                .hasSizeLessThan(100)
                .contains(":%h");
    }
}
