package com.example.ratelimit.boot;

import com.example.ratelimit.Route.WhenAway;
import com.example.ratelimit.Rule.Algorithm;
import java.util.List;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** Two endpoints to try it with: see the README. */
@RestController
class ShopController {

    /** Fairness: everybody together, and each address. When Redis is away it goes on. */
    @RateLimit(route = "search", limit = 1000, window = "1s", algorithm = Algorithm.BUCKET)
    @RateLimit(by = RateLimit.By.IP, limit = 5, window = "10s", fallback = "popular")
    @GetMapping("/search")
    List<String> search(@RequestParam String q) {
        return List.of("the best " + q, "another " + q);
    }

    /** Instead of a refusal: something that costs nothing. */
    List<String> popular(String q) {
        return List.of("what everybody buys");
    }

    /** Nobody guesses passwords, not from many addresses, and not while Redis is away. */
    @RateLimit(by = RateLimit.By.IP, limit = 20, window = "1m", route = "login", whenAway = WhenAway.REFUSE)
    @RateLimit(
            name = "account",
            key = "#account",
            limit = 3,
            window = "1m",
            message = "Too many attempts for this account")
    @PostMapping("/login")
    String login(@RequestParam String account) {
        return "Hello " + account;
    }
}
