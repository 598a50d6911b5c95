package com.example.ratelimit.boot;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration;

/** The limiter has a connection of its own; this application wants no other. */
@SpringBootApplication(exclude = RedisAutoConfiguration.class)
class Application {

    public static void main(String[] args) {
        SpringApplication.run(Application.class, args);
    }
}
