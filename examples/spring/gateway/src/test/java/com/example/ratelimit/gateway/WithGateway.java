package com.example.ratelimit.gateway;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.example.ratelimit.Load;
import com.example.ratelimit.Load.Answer;
import com.example.ratelimit.RedisServer;
import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.test.context.ActiveProfiles;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

/** The gateway before a server that answers "done". For its routes see application-test.yml. */
@SpringBootTest(webEnvironment = WebEnvironment.RANDOM_PORT)
@ActiveProfiles("test")
abstract class WithGateway {

    static final RedisServer REDIS = new RedisServer();

    private static final DisposableServer UPSTREAM = HttpServer.create()
            .host("127.0.0.1")
            .port(0)
            .handle((request, response) -> response.sendString(Mono.just("done")))
            .bindNow();

    @LocalServerPort
    int port;

    @DynamicPropertySource
    static void properties(DynamicPropertyRegistry properties) {
        properties.add("rate-limit.redis", REDIS::uri);
        properties.add("test.upstream", () -> "http://127.0.0.1:" + UPSTREAM.port());
    }

    /** A warm gateway, whose limiter is there. */
    @BeforeEach
    void warmUp() {
        Load.burst(300, 4, i -> get(i % 2 == 0 ? "/open" : "/closed"));
        awaitLimits();
        REDIS.call("FLUSHALL");
    }

    void awaitLimits() {
        await().atMost(Duration.ofSeconds(5)).until(() -> get("/open").header("RateLimit") != null);
        assertThat(get("/closed").status()).isEqualTo(200);
    }

    Answer get(String path, String... headers) {
        return Load.get("http://127.0.0.1:" + port + path, headers);
    }
}
