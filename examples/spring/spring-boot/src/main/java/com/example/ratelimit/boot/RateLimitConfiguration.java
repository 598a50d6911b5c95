package com.example.ratelimit.boot;

import com.example.ratelimit.Decision;
import com.example.ratelimit.Limiter;
import com.example.ratelimit.LimiterSettings;
import com.example.ratelimit.Route;
import io.micrometer.core.instrument.MeterRegistry;
import java.util.Locale;
import java.util.function.BiConsumer;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;

/** The beans behind {@link RateLimit}. */
@Configuration(proxyBeanMethods = false)
@EnableConfigurationProperties(LimiterSettings.class)
class RateLimitConfiguration {

    @Bean
    Limiter limiter(LimiterSettings settings, BiConsumer<Route, Decision> listener) {
        return new Limiter(settings, listener);
    }

    /** Counts what becomes of requests: passed, refused, unchecked or unavailable. */
    @Bean
    BiConsumer<Route, Decision> rateLimitCounters(MeterRegistry meters) {
        return (route, decision) -> meters.counter(
                        "rate.limit.requests",
                        "route",
                        route.name(),
                        "outcome",
                        decision.outcome().name().toLowerCase(Locale.ROOT),
                        "local",
                        String.valueOf(decision.local()))
                .increment();
    }

    @Bean
    static RateLimitPlans rateLimitPlans(Environment environment) {
        return new RateLimitPlans(environment);
    }

    @Bean
    RateLimitAspect rateLimitAspect(RateLimitPlans plans, Limiter limiter, MeterRegistry meters) {
        return new RateLimitAspect(plans, limiter, meters);
    }
}
