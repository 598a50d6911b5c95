package com.example.ratelimit.boot;

import static org.assertj.core.api.Assertions.assertThat;

import com.example.ratelimit.Rule.Algorithm;
import com.example.ratelimit.boot.RateLimit.By;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** An annotation that cannot work stops the start, and says why. */
class ImpossibleAnnotationsTest {

    static class Cost {
        @RateLimit(limit = 3, window = "1s", cost = 5)
        void method() {}
    }

    static class Window {
        @RateLimit(limit = 3, window = "soon")
        void method() {}
    }

    static class Burst {
        @RateLimit(limit = 3, window = "1s", burst = 5, algorithm = Algorithm.FIXED)
        void method() {}
    }

    static class Name {
        @RateLimit(limit = 3, window = "1s", name = "a b")
        void method() {}
    }

    static class Twice {
        @RateLimit(limit = 3, window = "1s")
        @RateLimit(limit = 9, window = "1m")
        void method() {}
    }

    static class Routes {
        @RateLimit(limit = 3, window = "1s", route = "a")
        @RateLimit(limit = 9, window = "1m", route = "b", name = "slow")
        void method() {}
    }

    static class Misspelt {
        @RateLimit(limit = 3, window = "1s", key = "#form + #acount")
        void method(String form, String account) {}
    }

    static class NoSpel {
        @RateLimit(limit = 3, window = "1s", key = "#form(")
        void method(String form) {}
    }

    static class Both {
        @RateLimit(limit = 3, window = "1s", key = "#form", by = By.IP)
        void method(String form) {}
    }

    static class Fallback {
        @RateLimit(limit = 3, window = "1s", fallback = "other")
        void method(String form) {}

        void other() {}
    }

    static class Enabled {
        @RateLimit(limit = 3, window = "1s", enabled = "maybe")
        void method() {}
    }

    static class Placeholder {
        @RateLimit(limit = 3, window = "1s", enabled = "${no.such.property}")
        void method() {}
    }

    static class Hidden {
        @RateLimit(limit = 3, window = "1s")
        private void method() {}
    }

    static Stream<Arguments> impossible() {
        return Map.<Class<?>, String>ofEntries(
                        Map.entry(Cost.class, "rule 'all': nothing could ever pass: a cost of 5 does not fit into 3"),
                        Map.entry(Window.class, "'soon' is not a valid duration"),
                        Map.entry(Burst.class, "rule 'all': burst goes with bucket only"),
                        Map.entry(Name.class, "rule 'a b': its name must be"),
                        Map.entry(Twice.class, "two rules are called 'all', give one a name"),
                        Map.entry(Routes.class, "its rules name different routes"),
                        Map.entry(Misspelt.class, "key \"#form + #acount\" names no parameter with #acount"),
                        Map.entry(NoSpel.class, "EL"),
                        Map.entry(Both.class, "by and key exclude each other"),
                        Map.entry(Fallback.class, "there is no fallback 'other'"),
                        Map.entry(Enabled.class, "enabled must be true or false, not 'maybe'"),
                        Map.entry(Placeholder.class, "no.such.property"),
                        Map.entry(Hidden.class, "Spring cannot intercept private"))
                .entrySet()
                .stream()
                .map(entry -> Arguments.of(entry.getKey(), entry.getValue()));
    }

    @ParameterizedTest
    @MethodSource
    void impossible(Class<?> bean, String complaint) {
        new ApplicationContextRunner()
                .withBean(RateLimitPlans.class)
                .withBean(bean)
                .run(context -> assertThat(context)
                        .getFailure()
                        .rootCause()
                        .satisfiesAnyOf(
                                cause -> assertThat(cause).hasMessageContaining(complaint),
                                cause -> assertThat(context.getStartupFailure()).hasMessageContaining(complaint)));
    }

    @Test
    void theErrorNamesTheMethod() {
        new ApplicationContextRunner()
                .withBean(RateLimitPlans.class)
                .withBean(Cost.class)
                .run(context -> assertThat(context.getStartupFailure())
                        .hasMessageContaining("@RateLimit on " + Cost.class.getName() + ".method cannot work"));
    }
}
