package com.example.ratelimit.boot;

import com.example.ratelimit.Route.WhenAway;
import com.example.ratelimit.Rule.Algorithm;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Repeatable;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Limits calls of a method of a Spring bean, most likely of a controller. Several on a method are
 * asked in one step: a call takes a permit of each, or of none.
 *
 * <p>{@link #route}, {@link #whenAway} and {@link #batch} are those of the whole method: it is
 * enough to say them once.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
@Repeatable(RateLimit.All.class)
public @interface RateLimit {

    /** Who shares a limiter: all, those of one address, or those of one user. */
    enum By {
        GLOBAL,
        IP,
        USER
    }

    By by() default By.GLOBAL;

    /** Instead of {@link #by}: a SpEL expression over the arguments, as {@code #form.account}. */
    String key() default "";

    /** Permits in a window; 0 closes the method. */
    long limit();

    /** Such as 500ms, 10s, 5m, 1h or 1d. */
    String window();

    Algorithm algorithm() default Algorithm.SLIDING;

    /** Capacity of a bucket, if it is not the limit. */
    long burst() default 0;

    /** Permits that one call takes. */
    long cost() default 1;

    /** The name in keys and header fields; by default all, ip, user or key. */
    String name() default "";

    /** What callers are told when this limit refuses them. */
    String message() default "Too many requests";

    /** A method of the class with the same parameters, called instead when this limit refuses. */
    String fallback() default "";

    /** True, false, or a placeholder such as {@code ${limits.login.enabled:true}}. */
    String enabled() default "true";

    /** Stands in keys, logs and counters; by default the class and the method. */
    String route() default "";

    /** REFUSE, if one of the method's limits says so. */
    WhenAway whenAway() default WhenAway.PASS;

    /** Permits to fetch at once; the largest number counts. */
    int batch() default 1;

    /** The container of several. */
    @Documented
    @Target(ElementType.METHOD)
    @Retention(RetentionPolicy.RUNTIME)
    @interface All {
        RateLimit[] value();
    }
}
