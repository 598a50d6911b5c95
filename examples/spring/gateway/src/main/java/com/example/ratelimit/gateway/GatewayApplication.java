package com.example.ratelimit.gateway;

import com.example.ratelimit.Limiter;
import com.example.ratelimit.LimiterSettings;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration;
import org.springframework.boot.autoconfigure.data.redis.RedisReactiveAutoConfiguration;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.cloud.gateway.config.GatewayProperties;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.route.RouteLocator;
import org.springframework.context.annotation.Bean;
import reactor.core.publisher.Mono;

/** The limiter has a connection of its own; this application wants no other. */
@SpringBootApplication(exclude = {RedisAutoConfiguration.class, RedisReactiveAutoConfiguration.class})
@EnableConfigurationProperties(LimiterSettings.class)
class GatewayApplication {

    public static void main(String[] args) {
        SpringApplication.run(GatewayApplication.class, args);
    }

    @Bean
    Limiter limiter(LimiterSettings settings) {
        return new Limiter(settings, (route, decision) -> {});
    }

    @Bean
    RateLimitGatewayFilterFactory rateLimitGatewayFilterFactory(Limiter limiter) {
        return new RateLimitGatewayFilterFactory(limiter);
    }

    @Bean
    KeyResolver clientAddress(GatewayProperties properties) {
        return new ClientAddress(properties.getTrustedProxies());
    }

    /** Who calls. Fit for limits only where something before the gateway has checked the key. */
    @Bean
    KeyResolver apiKey() {
        return exchange -> Mono.justOrEmpty(exchange.getRequest().getHeaders().getFirst("X-Api-Key"));
    }

    /** A route that cannot work would only be logged: stop instead. */
    @Bean
    ApplicationRunner checkRoutes(RouteLocator routes) {
        return args -> routes.getRoutes().then().block();
    }
}
