package com.example.ratelimit.gateway;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.example.ratelimit.Load;
import com.example.ratelimit.Load.Answer;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.test.context.TestPropertySource;

/**
 * What is limited. The limiter gets more time than the default 50 ms: the machine may be busy, and
 * a request that passes unchecked would spoil the counts.
 */
@TestPropertySource(properties = "rate-limit.timeout=5s")
class GatewayTest extends WithGateway {

    @Test
    void ofABurstExactlyTheLimitPasses() throws InterruptedException {
        List<Answer> answers = Load.burst(60, 8, i -> get("/burst"));
        assertThat(Load.count(answers, 200)).isEqualTo(20);
        assertThat(Load.count(answers, 429)).isEqualTo(40);
        assertThat(answers).allSatisfy(answer -> {
            assertThat(answer.header("RateLimit-Policy")).isEqualTo("\"ip\";q=20;w=3");
            assertThat(answer.header("RateLimit")).matches("\"ip\";r=\\d+;t=[123]");
            if (answer.status() == 429) {
                assertThat(answer.header("Retry-After")).matches("[123]");
                assertThat(answer.header("Content-Type")).isEqualTo("application/problem+json");
                assertThat(answer.body()).contains("Too Many Requests");
            } else {
                assertThat(answer.header("Retry-After")).isNull();
                assertThat(answer.body()).isEqualTo("done");
            }
        });
        TimeUnit.SECONDS.sleep(Long.parseLong(get("/burst").header("Retry-After")));
        assertThat(get("/burst").status()).isEqualTo(200);
    }

    @Test
    void twoLimitsRefuseIndependentlyAndLeakNothing() {
        for (String user : List.of("anna", "bert", "cora")) {
            for (int i = 0; i < 8; i++) {
                assertThat(get("/two", "X-Api-Key", user).status()).isEqualTo(i < 3 ? 200 : 429);
            }
        }
        Answer tenth = get("/two", "X-Api-Key", "dora");
        assertThat(tenth.status()).as("15 refusals took nothing").isEqualTo(200);
        assertThat(tenth.header("RateLimit")).isEqualTo("\"ip\";r=0;t=30, \"user\";r=2;t=30");
        for (int i = 0; i < 5; i++) {
            assertThat(get("/two", "X-Api-Key", "dora").status()).isEqualTo(429);
        }
        List<Object> dora = REDIS.call("RL.INFO", "rl:{two}:user:dora");
        assertThat(dora.get(dora.indexOf("remaining") + 1)).isEqualTo(2L);
    }

    @Test
    void headersAreExact() {
        Answer answer = get("/two", "X-Api-Key", "anna");
        List<Object> peek = REDIS.call(
                "RL.PEEK",
                "rl:{two}:ip:127.0.0.1",
                "rl:{two}:user:anna",
                "WINDOW 30s LIMIT 10 ALGO sliding COST 0 WINDOW 30s LIMIT 3 ALGO sliding COST 0 WITHKEYS");
        List<?> keys = (List<?>) peek.get(6);
        assertThat(answer.header("RateLimit-Policy")).isEqualTo("\"ip\";q=10;w=30, \"user\";q=3;w=30");
        assertThat(answer.header("RateLimit"))
                .isEqualTo("\"ip\";r=%s;t=30, \"user\";r=%s;t=30"
                        .formatted(((List<?>) keys.get(0)).get(2), ((List<?>) keys.get(1)).get(2)));
    }

    @Test
    void theCallersMistakeIsAnError() {
        REDIS.call("SET", "rl:{burst}:ip:127.0.0.1", "not a limiter");
        assertThat(get("/burst").status()).isEqualTo(500);
    }

    @Test
    void onlyATrustedProxySaysWhoTheClientIs() {
        get("/burst", "X-Forwarded-For", "203.0.113.1, 198.51.100.7, 127.0.0.9");
        assertThat(REDIS.call("KEYS", "*")).containsExactly("rl:{burst}:ip:198.51.100.7");
        REDIS.call("FLUSHALL");
        get("/burst", "X-Forwarded-For", "2001:db8:1:2:3:4:5:6");
        assertThat(REDIS.call("KEYS", "*")).containsExactly("rl:{burst}:ip:2001:db8:1:2::/64");
        REDIS.call("FLUSHALL");
        Load.getFrom("127.0.0.2", "http://127.0.0.1:" + port + "/burst", "X-Forwarded-For", "198.51.100.7");
        assertThat(REDIS.call("KEYS", "*")).containsExactly("rl:{burst}:ip:127.0.0.2");
    }

    @Test
    void anImpossibleRuleStopsTheStart() {
        assertThatThrownBy(() -> startWithCost("30")).hasMessageContaining("rule 'ip': nothing could ever pass");
    }

    /** In the string of all rules the second word would be an option of the call. */
    @Test
    void aCostThatIsMoreThanANumberStopsTheStart() {
        assertThatThrownBy(() -> startWithCost("1 FORCE")).hasStackTraceContaining("for value [1 FORCE]");
    }

    private static void startWithCost(String cost) {
        new SpringApplicationBuilder(GatewayApplication.class)
                .profiles("test")
                .run("--server.port=0", "--test.upstream=http://127.0.0.1:1", "--test.cost=" + cost)
                .close();
    }
}
