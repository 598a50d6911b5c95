package com.example.ratelimit.boot;

import com.example.ratelimit.Decision;
import com.example.ratelimit.Route;
import com.example.ratelimit.Route.WhenAway;
import com.example.ratelimit.Rule.Algorithm;
import com.example.ratelimit.boot.RateLimit.By;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BiConsumer;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.Primary;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.filter.OncePerRequestFilter;

/** What the tests request. The user is who the header X-User says, in place of a log-in. */
@TestConfiguration(proxyBeanMethods = false)
@Import(Endpoints.Limited.class)
class Endpoints {

    @RestController
    static class Limited {

        @RateLimit(by = By.IP, limit = 20, window = "3s", route = "burst")
        @GetMapping("/burst")
        String burst() {
            return "done";
        }

        @RateLimit(by = By.IP, limit = 10, window = "30s", route = "two")
        @RateLimit(by = By.USER, limit = 3, window = "30s", message = "Your three are used")
        @GetMapping("/two")
        String two() {
            return "done";
        }

        @RateLimit(limit = 5, window = "500ms", algorithm = Algorithm.FIXED, route = "attack")
        @GetMapping("/attack")
        String attack() {
            return "done";
        }

        @RateLimit(limit = 200, window = "1m", batch = 20, route = "batch")
        @GetMapping("/batch")
        String batch() {
            return "done";
        }

        @RateLimit(limit = 50, window = "1s", algorithm = Algorithm.BUCKET, burst = 70, route = "headers")
        @RateLimit(by = By.IP, limit = 9, window = "10500ms", cost = 2)
        @GetMapping("/headers")
        String headers() {
            return "done";
        }

        @RateLimit(limit = 5, window = "1m", route = "wrong")
        @GetMapping("/wrong")
        String wrong() {
            return "done";
        }

        @RateLimit(name = "account", key = "#account", limit = 1, window = "1m", route = "key", fallback = "other")
        @GetMapping("/key")
        String key(@RequestParam String account) {
            return "done";
        }

        private String other(String account) {
            return "fallback for " + account.length();
        }

        @RateLimit(limit = 0, window = "1m", enabled = "${test.enabled:false}")
        @GetMapping("/disabled")
        String disabled() {
            return "done";
        }

        @RateLimit(by = By.IP, limit = 1_000_000, window = "1m", route = "open")
        @GetMapping("/open")
        String open() {
            return "done";
        }

        @RateLimit(by = By.IP, limit = 1_000_000, window = "1m", route = "closed", whenAway = WhenAway.REFUSE)
        @GetMapping("/closed")
        String closed() {
            return "done";
        }

        @RateLimit(limit = 1_000_000, window = "1m", route = "flood-open")
        @GetMapping("/flood-open")
        String floodOpen() {
            return "done";
        }

        @RateLimit(limit = 1_000_000, window = "1m", route = "flood-closed", whenAway = WhenAway.REFUSE)
        @GetMapping("/flood-closed")
        String floodClosed() {
            return "done";
        }
    }

    /** Hears of each decision in the moment in which it is made. */
    static class Listeners extends CopyOnWriteArrayList<BiConsumer<Route, Decision>> {}

    @Bean
    Listeners listeners() {
        return new Listeners();
    }

    @Bean
    @Primary
    BiConsumer<Route, Decision> tellAll(BiConsumer<Route, Decision> rateLimitCounters, Listeners listeners) {
        return (route, decision) -> {
            rateLimitCounters.accept(route, decision);
            listeners.forEach(listener -> listener.accept(route, decision));
        };
    }

    @Bean
    OncePerRequestFilter login() {
        return new OncePerRequestFilter() {
            @Override
            protected void doFilterInternal(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
                    throws ServletException, IOException {
                chain.doFilter(
                        new HttpServletRequestWrapper(request) {
                            @Override
                            public String getRemoteUser() {
                                return getHeader("X-User");
                            }
                        },
                        response);
            }
        };
    }
}
