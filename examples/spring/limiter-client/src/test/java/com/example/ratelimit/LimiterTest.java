package com.example.ratelimit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.example.ratelimit.Decision.Outcome;
import com.example.ratelimit.Route.Limit;
import com.example.ratelimit.Route.WhenAway;
import com.example.ratelimit.Rule.Algorithm;
import io.lettuce.core.RedisCommandExecutionException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.source.MapConfigurationPropertySource;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** The client by itself, against a real server. */
@ExtendWith(OutputCaptureExtension.class)
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

    /** Also where the machine's language has other digits. */
    @Test
    void digitsAreAscii() {
        Locale locale = Locale.getDefault();
        Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab"));
        try (Limiter limiter = limiter()) {
            Limit limit = ROUTE.limit(rule("all", 5, Duration.ofMinutes(1)));
            Map<String, String> headers =
                    limiter.acquire(ROUTE, List.of(limit)).join().headers();
            assertThat(headers)
                    .containsEntry("RateLimit-Policy", "\"all\";q=5;w=60")
                    .containsEntry("RateLimit", "\"all\";r=4;t=60");
        } finally {
            Locale.setDefault(locale);
        }
    }

    @Test
    void withoutTheDenyCacheEachRequestIsACall() {
        Limit limit = ROUTE.limit(rule("all", 1, Duration.ofMinutes(1)));
        long calls = REDIS.acquisitions();
        try (Limiter limiter = limiter("deny-cache", false)) {
            IntStream.range(0, 10).forEach(i -> outcome(limiter, ROUTE, limit));
            // And the one that warms up, which may come last.
            await().untilAsserted(() -> assertThat(REDIS.acquisitions() - calls).isEqualTo(11));
        }
    }

    @Test
    void batchesOfTwoProcessesTogetherStayWithinTheLimit() {
        Route route = new Route("batch", WhenAway.PASS, 20);
        Limit limit = route.limit(rule("all", 100, Duration.ofMinutes(1)));
        long calls = REDIS.acquisitions();
        try (Limiter one = limiter("batch-ttl", "10s");
                Limiter two = limiter("batch-ttl", "10s")) {
            // What waits for the connection has no order, and a batch that few share comes first.
            Limit other = ROUTE.limit(rule("all", 1, Duration.ofMinutes(1)));
            List.of(one, two).forEach(limiter -> outcome(limiter, ROUTE, other));
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
                .as("8 for the 150 requests of each, which come at once, and 4 to connect")
                .isLessThanOrEqualTo(20);
    }

    /**
     * Under overload each fetch finds a few permits, never none. Who gets none of them is refused,
     * not left waiting for the next until it looks as if Redis were away.
     */
    @Test
    void underOverloadABatchRefusesTheRest(CapturedOutput output) throws Exception {
        int rate = 2000;
        Route route = new Route("overload", WhenAway.PASS, 20);
        List<Limit> limits = List.of(
                route.limit(new Rule("all", rate, Duration.ofSeconds(1), Algorithm.BUCKET, 0, 1)));
        List<CompletableFuture<Decision>> asked = new ArrayList<>();
        try (Proxy proxy = new Proxy(REDIS.port(), Duration.ofMillis(2));
                Limiter limiter = limiter("redis", "redis://127.0.0.1:" + proxy.port(), "timeout", "500ms")) {
            await().until(() -> outcome(limiter, route, limits.get(0)) == Outcome.PASSED);
            REDIS.call("FLUSHALL");
            long start = System.nanoTime();
            for (int i = 0; i < 240; i++) { // 30 requests each 5 ms: 6000 a second
                for (int j = 0; j < 30; j++) {
                    asked.add(limiter.acquire(route, limits));
                }
                TimeUnit.MILLISECONDS.sleep(5);
            }
            var outcomes = asked.stream()
                    .collect(Collectors.groupingBy(decision -> decision.join().outcome(), Collectors.counting()));
            double seconds = (System.nanoTime() - start) / 1e9;
            long calls = REDIS.acquisitions();
            System.out.printf("overload: %s in %.2f s%n", outcomes, seconds);

            assertThat(outcomes).containsOnlyKeys(Outcome.PASSED, Outcome.REFUSED);
            long most = rate + (long) (rate * seconds) + 20; // the 20 of a batch from before the start
            assertThat(outcomes.get(Outcome.PASSED)).isBetween(most / 2, most);
            assertThat(asked).allSatisfy(future -> {
                Decision decision = future.join();
                assertThat(decision.headers().get("Retry-After"))
                        .isEqualTo(decision.outcome() == Outcome.REFUSED ? "1" : null);
            });
            assertThat(output).doesNotContain("rate limiter away");
            await().during(Duration.ofMillis(200)).until(() -> REDIS.acquisitions() == calls);
        }
    }

    /** And nobody asks on behalf of requests that have gone. */
    @Test
    void whoWaitsForABatchGetsItsFailure() {
        Route route = new Route("waiting", WhenAway.REFUSE, 20);
        Limit limit = route.limit(rule("all", 1000, Duration.ofMinutes(1)));
        try (Limiter limiter = limiter("timeout", "200ms", "batch-ttl", "1ms")) {
            await().until(() -> outcome(limiter, route, limit) == Outcome.PASSED);
            long late = System.nanoTime() + 2_000_000;
            await().pollInterval(Duration.ofMillis(1)).until(() -> System.nanoTime() > late);
            long calls = REDIS.acquisitions();
            REDIS.hang();
            try {
                var decisions = IntStream.range(0, 50)
                        .mapToObj(i -> limiter.acquire(route, List.of(limit)))
                        .toList();
                assertThat(decisions)
                        .allSatisfy(decision -> assertThat(decision.join().outcome()).isEqualTo(Outcome.UNAVAILABLE));
            } finally {
                REDIS.resume();
            }
            await().during(Duration.ofMillis(200)).until(() -> REDIS.acquisitions() == calls + 3);
        }
    }

    @Test
    void aCallThatThrowsIsTheFailureOfItsBatch() {
        Batches batches = new Batches(10, Duration.ofSeconds(1), new DenyCache(10));
        List<Limit> limits = List.of(ROUTE.limit(rule("all", 1, Duration.ofSeconds(1))));
        for (int i = 0; i < 2; i++) { // and the next request asks again
            String message = "call " + i;
            assertThat(batches.take(limits, 20, () -> {
                        throw new IllegalStateException(message);
                    }))
                    .isCompletedExceptionally()
                    .failsWithin(Duration.ZERO)
                    .withThrowableThat()
                    .withMessageContaining(message);
        }
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
        try (Proxy proxy = new Proxy(REDIS.port(), Duration.ZERO);
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

    /** Limiters that are there go on working, so OOM neither opens the breaker nor keeps it open. */
    @Test
    void aServerWithoutMemoryStillLimits() {
        Rule two = new Rule("user", 2, Duration.ofHours(1), Algorithm.BUCKET, 0, 1);
        Limit there = ROUTE.limit(two, "anna");
        Limit fresh = ROUTE.limit(two, "bert");
        try (Limiter limiter = limiter("deny-cache", false, "timeout", "100ms", "breaker-open", "300ms")) {
            Runnable full = () -> {
                for (int i = 0; i < 20; i++) {
                    assertThat(outcome(limiter, ROUTE, fresh)).isEqualTo(Outcome.UNCHECKED);
                }
                assertThat(outcome(limiter, ROUTE, there)).isEqualTo(Outcome.REFUSED);
            };
            await().until(() -> outcome(limiter, ROUTE, there) == Outcome.REFUSED);
            REDIS.call("CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction");
            full.run();
            untilABreakerTries(limiter, there);
            full.run(); // the first of them is the trial
        } finally {
            REDIS.resume();
            REDIS.call("CONFIG", "SET", "maxmemory", 0);
        }
    }

    @Test
    void aTrialThatThrowsDoesNotBlockTheNext() {
        Limit limit = ROUTE.limit(rule("all", 1000, Duration.ofMinutes(1)));
        Limit wrong = new Limit(null, limit.policy(), limit.rule());
        try (Limiter limiter = limiter("timeout", "100ms", "breaker-open", "300ms")) {
            await().until(() -> outcome(limiter, ROUTE, limit) == Outcome.PASSED);
            untilABreakerTries(limiter, limit);
            assertThatThrownBy(() -> outcome(limiter, ROUTE, wrong)).hasCauseInstanceOf(NullPointerException.class);
            assertThat(outcome(limiter, ROUTE, limit)).isEqualTo(Outcome.PASSED);
        } finally {
            REDIS.resume();
        }
    }

    /** The server hangs, the breaker opens, for 300 ms, and the server is there again. */
    private static void untilABreakerTries(Limiter limiter, Limit limit) {
        REDIS.hang();
        IntStream.range(0, 5).forEach(i -> outcome(limiter, ROUTE, limit));
        REDIS.resume();
        assertThat(outcome(limiter, ROUTE, limit)).as("open").isEqualTo(Outcome.UNCHECKED);
        long over = System.nanoTime() + 300_000_000;
        await().pollInterval(Duration.ofMillis(5)).until(() -> System.nanoTime() > over);
    }

    /** All rules of a call are one string, in which nobody hides a word of his own. */
    @Test
    void whatIsMoreThanAWordIsRefusedBeforeAnythingIsSent() {
        Rule rule = rule("all", 5, Duration.ofMinutes(1));
        long calls = REDIS.acquisitions();
        for (String text : List.of("a b", "a FORCE", "a\tFORCE", "a\n", "\u00a0", "a COST 0", "", "x".repeat(65))) {
            assertThatIllegalArgumentException().isThrownBy(() -> rule(text, 5, Duration.ofMinutes(1)));
            assertThatIllegalArgumentException().isThrownBy(() -> new Route(text, WhenAway.PASS, 1));
            assertThatIllegalArgumentException().isThrownBy(() -> new Limit("key", text, rule));
        }
        assertThat(REDIS.acquisitions()).isEqualTo(calls);
    }

    /** The server remembers a string that it has parsed twice. */
    @Test
    void aRouteAlwaysSendsTheSameString() {
        Route route = new Route("repeat", WhenAway.REFUSE, 1);
        Rule all = new Rule("all", 100, Duration.ofMinutes(1), Algorithm.BUCKET, 200, 2);
        Rule user = rule("user", 1, Duration.ofMinutes(1));
        long calls = REDIS.acquisitions();
        try (Limiter limiter = limiter()) {
            await().until(() -> REDIS.acquisitions() > calls); // warm
            long parsed = REDIS.info("rl", "rl_rules_parsed:(\\d+)");
            for (int i = 0; i < 10; i++) {
                Limit own = route.limit(user, "user-" + i + " FORCE");
                assertThat(outcome(limiter, route, route.limit(all), own)).isEqualTo(Outcome.PASSED);
                assertThat(outcome(limiter, route, route.limit(all), own)).isEqualTo(Outcome.REFUSED);
            }
            assertThat(REDIS.info("rl", "rl_rules_parsed:(\\d+)") - parsed).isEqualTo(2);
        }
    }

    @Test
    void anIpv6ClientCountsAsItsNetwork() {
        assertThat(ClientNetwork.of("2001:db8:1:2:3:4:5:6")).isEqualTo("2001:db8:1:2::/64");
        assertThat(ClientNetwork.of("2001:DB8:1:2:0:0:0:0")).isEqualTo("2001:db8:1:2::/64");
        assertThat(ClientNetwork.of("fe80::1%eth0")).isEqualTo("fe80::/64");
        assertThat(ClientNetwork.of("0:0:0:0:0:0:0:1")).isEqualTo("::/64");
        assertThat(ClientNetwork.of("::ffff:192.0.2.7")).isEqualTo("192.0.2.7");
        assertThat(ClientNetwork.of("192.0.2.7")).isEqualTo("192.0.2.7");
        assertThat(ClientNetwork.of("unknown")).isEqualTo("unknown");
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
