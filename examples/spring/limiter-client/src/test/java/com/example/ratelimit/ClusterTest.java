package com.example.ratelimit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.example.ratelimit.Decision.Outcome;
import com.example.ratelimit.Route.Limit;
import com.example.ratelimit.Route.WhenAway;
import com.example.ratelimit.Rule.Algorithm;
import io.lettuce.core.cluster.SlotHash;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The same client on a cluster: calls go straight to the node that has the slot. */
class ClusterTest {

    private static final List<RedisServer> NODES =
            Stream.generate(ClusterTest::node).limit(3).toList();

    private static RedisServer node() {
        return new RedisServer("--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
                "--cluster-require-full-coverage", "no");
    }

    @BeforeAll
    static void join() throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("redis-cli", "--cluster-yes", "--cluster", "create"));
        NODES.forEach(node -> command.add("127.0.0.1:" + node.port()));
        var output = NODES.get(0).directory().resolve("create").toFile();
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(output)
                .start();
        assertThat(process.waitFor())
                .as("redis-cli --cluster create, see " + output)
                .isZero();
        NODES.forEach(node -> await().until(() -> node.clusterIsOk()));
    }

    @AfterAll
    static void end() {
        NODES.forEach(RedisServer::close);
    }

    @Test
    void callsAreNotRedirected() {
        NODES.forEach(node -> node.call("CONFIG", "RESETSTAT"));
        Rule all = new Rule("all", 1, Duration.ofMinutes(1), Algorithm.SLIDING, 0, 1);
        Rule ip = new Rule("ip", 2, Duration.ofMinutes(1), Algorithm.BUCKET, 0, 1);
        try (Limiter limiter =
                LimiterTest.limiter("cluster", true, "redis", NODES.get(0).uri())) {
            limiter.acquire(route(0), limits(route(0), all, ip)).join(); // loads the topology
            long moved = moved();
            for (int i = 1; i <= 300; i++) {
                List<Limit> limits = limits(route(i), all, ip);
                assertThat(limiter.acquire(route(i), limits).join().outcome()).isEqualTo(Outcome.PASSED);
                assertThat(limiter.acquire(route(i), limits).join().outcome()).isEqualTo(Outcome.REFUSED);
            }
            assertThat(moved() - moved).isZero();
        }
        assertThat(NODES).allSatisfy(node -> assertThat(node.acquisitions()).isGreaterThan(100));
        assertThat(NODES.stream().mapToLong(RedisServer::acquisitions).sum()).isEqualTo(602);
    }

    /** Its routes are away, the others go on: also while those try again. */
    @Test
    void aNodeThatIsAwayTakesOnlyItsRoutesWithIt() {
        RedisServer gone = NODES.get(2);
        Rule all = new Rule("all", 1_000_000, Duration.ofMinutes(1), Algorithm.BUCKET, 0, 1);
        Map<Boolean, List<Route>> routes = IntStream.range(1000, 1030)
                .mapToObj(ClusterTest::route)
                .collect(Collectors.partitioningBy(
                        route -> SlotHash.getSlot(route.limit(all).key()) > 10922)); // the third of three
        try (Limiter limiter =
                LimiterTest.limiter("cluster", true, "redis", NODES.get(0).uri(), "timeout", "250ms")) {
            Function<Route, Outcome> ask = route ->
                    limiter.acquire(route, List.of(route.limit(all))).join().outcome();
            routes.values().forEach(some -> some.forEach(
                    route -> assertThat(ask.apply(route)).isEqualTo(Outcome.PASSED)));
            gone.kill();
            int rounds = 0;
            for (long end = System.nanoTime() + 3_000_000_000L; System.nanoTime() < end; rounds++) {
                assertThat(routes.get(true)).allMatch(route -> ask.apply(route) == Outcome.UNAVAILABLE);
                assertThat(routes.get(false)).allMatch(route -> ask.apply(route) == Outcome.PASSED);
            }
            System.out.printf("a node of the cluster away: %d rounds%n", rounds);
            gone.start();
            await().until(() -> routes.get(true).stream().allMatch(route -> ask.apply(route) == Outcome.PASSED));
        }
    }

    private static Route route(int number) {
        return new Route("route-" + number, WhenAway.REFUSE, 1);
    }

    private static List<Limit> limits(Route route, Rule all, Rule ip) {
        return List.of(route.limit(all), route.limit(ip, "192.0.2.7"));
    }

    private static long moved() {
        return NODES.stream()
                .mapToLong(node -> node.info("errorstats", "errorstat_MOVED:count=(\\d+)"))
                .sum();
    }
}
