package com.example.ratelimit;

import java.time.Duration;
import java.util.List;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The settings of the client, {@code rate-limit.*} in an application's configuration.
 *
 * @param redis where it is, {@code redis://}, {@code rediss://} or {@code redis-sentinel://}; of a
 *     cluster some of the nodes
 * @param cluster whether it is a cluster
 * @param timeout how long a request waits for an answer, connecting included
 * @param connectTimeout how long an attempt to connect may take, in the background
 * @param breakerFailures after so many failures in a row Redis is left alone ...
 * @param breakerOpen ... for so long
 * @param denyCache whether refusals are remembered
 * @param batchTtl how long a permit out of a batch may be used
 * @param cacheSize entries of the deny cache, and of the batches
 */
@ConfigurationProperties("rate-limit")
public record LimiterSettings(
        @DefaultValue("redis://127.0.0.1:6379") List<String> redis,
        @DefaultValue("false") boolean cluster,
        @DefaultValue("50ms") Duration timeout,
        @DefaultValue("1s") Duration connectTimeout,
        @DefaultValue("5") int breakerFailures,
        @DefaultValue("1s") Duration breakerOpen,
        @DefaultValue("true") boolean denyCache,
        @DefaultValue("100ms") Duration batchTtl,
        @DefaultValue("10000") int cacheSize) {}
