package com.example.ratelimit.gateway;

import com.example.ratelimit.Decision;
import com.example.ratelimit.Decision.Outcome;
import com.example.ratelimit.Limiter;
import com.example.ratelimit.Route;
import com.example.ratelimit.Route.Limit;
import com.example.ratelimit.Route.WhenAway;
import com.example.ratelimit.Rule;
import com.example.ratelimit.Rule.Algorithm;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.cloud.gateway.filter.GatewayFilter;
import org.springframework.cloud.gateway.filter.factory.AbstractGatewayFilterFactory;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.support.HasRouteId;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.util.Assert;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/** The filter {@code RateLimit} of a route: one call to the limiter for all its rules. */
class RateLimitGatewayFilterFactory extends AbstractGatewayFilterFactory<RateLimitGatewayFilterFactory.Config> {

    private final Limiter limiter;

    RateLimitGatewayFilterFactory(Limiter limiter) {
        super(Config.class);
        this.limiter = limiter;
    }

    @Override
    public GatewayFilter apply(Config config) {
        long names = config.rules.stream().map(RuleArgs::name).distinct().count();
        Assert.isTrue(
                names > 0 && names == config.rules.size(),
                () -> "filter RateLimit of '" + config.routeId + "' needs rules with different names");
        Route route = new Route(config.routeId, config.whenAway, config.batch);
        List<KeyedRule> rules = config.rules.stream().map(KeyedRule::of).toList();
        return (exchange, chain) -> Flux.fromIterable(rules)
                .concatMap(rule -> rule.limit(route, exchange))
                .collectList()
                .flatMap(limits -> Mono.fromFuture(() -> limiter.acquire(route, limits)))
                .publishOn(Schedulers.parallel()) // away from the thread that reads from Redis
                .flatMap(decision -> {
                    decision.headers().forEach(exchange.getResponse().getHeaders()::add);
                    return decision.outcome().passes()
                            ? chain.filter(exchange)
                            : refuse(exchange.getResponse(), decision);
                });
    }

    private static Mono<Void> refuse(ServerHttpResponse response, Decision decision) {
        HttpStatus status =
                decision.outcome() == Outcome.REFUSED ? HttpStatus.TOO_MANY_REQUESTS : HttpStatus.SERVICE_UNAVAILABLE;
        String body = "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%s}"
                .formatted(status.getReasonPhrase(), status.value());
        response.setStatusCode(status);
        response.getHeaders().setContentType(MediaType.APPLICATION_PROBLEM_JSON);
        return response.writeWith(
                Mono.fromSupplier(() -> response.bufferFactory().wrap(body.getBytes(StandardCharsets.UTF_8))));
    }

    /** {@code resolver} is null when all requests share one limiter. */
    private record KeyedRule(Rule rule, KeyResolver resolver) {

        static KeyedRule of(RuleArgs args) {
            Assert.notNull(args.limit, () -> "rate limit rule '" + args.name + "' needs a limit");
            return new KeyedRule(
                    new Rule(args.name, args.limit, args.window, args.algorithm, args.burst, args.cost),
                    args.keyResolver);
        }

        Mono<Limit> limit(Route route, ServerWebExchange exchange) {
            return resolver == null
                    ? Mono.just(route.limit(rule))
                    : resolver.resolve(exchange).defaultIfEmpty("").map(key -> route.limit(rule, key));
        }
    }

    /** A rule in YAML. The key-resolver is a bean, {@code "#{@clientAddress}"}. */
    record RuleArgs(
            String name,
            KeyResolver keyResolver,
            Long limit,
            Duration window,
            @DefaultValue("SLIDING") Algorithm algorithm,
            @DefaultValue("0") long burst,
            @DefaultValue("1") long cost) {}

    /** The filter's arguments in YAML. */
    static class Config implements HasRouteId {

        private String routeId;
        private List<RuleArgs> rules = List.of();
        private WhenAway whenAway = WhenAway.PASS;
        private int batch = 1;

        public void setRules(List<RuleArgs> rules) {
            this.rules = rules;
        }

        public void setWhenAway(WhenAway whenAway) {
            this.whenAway = whenAway;
        }

        public void setBatch(int batch) {
            this.batch = batch;
        }

        @Override
        public void setRouteId(String routeId) {
            this.routeId = routeId;
        }

        @Override
        public String getRouteId() {
            return routeId;
        }
    }
}
