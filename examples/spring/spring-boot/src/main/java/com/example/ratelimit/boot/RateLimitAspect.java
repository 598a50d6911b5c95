package com.example.ratelimit.boot;

import com.example.ratelimit.ClientNetwork;
import com.example.ratelimit.Decision;
import com.example.ratelimit.Decision.Outcome;
import com.example.ratelimit.Limiter;
import com.example.ratelimit.Route;
import com.example.ratelimit.Route.Limit;
import io.micrometer.core.instrument.MeterRegistry;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletionException;
import org.aspectj.lang.ProceedingJoinPoint;
import org.aspectj.lang.annotation.Around;
import org.aspectj.lang.annotation.Aspect;
import org.aspectj.lang.reflect.MethodSignature;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.annotation.Order;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.web.context.request.RequestContextHolder;
import org.springframework.web.context.request.ServletRequestAttributes;

/** Asks the limiter before a method that carries {@link RateLimit}, once for all its limits. */
@Aspect
@Order(0) // before transactions: who is refused opens none
class RateLimitAspect {

    private final RateLimitPlans plans;
    private final Limiter limiter;
    private final MeterRegistry meters;

    RateLimitAspect(RateLimitPlans plans, Limiter limiter, MeterRegistry meters) {
        this.plans = plans;
        this.limiter = limiter;
        this.meters = meters;
    }

    @Around("@annotation(com.example.ratelimit.boot.RateLimit)"
            + " || @annotation(com.example.ratelimit.boot.RateLimit.All)")
    Object limit(ProceedingJoinPoint call) throws Throwable {
        Method method = ((MethodSignature) call.getSignature()).getMethod();
        RateLimitPlan plan = plans.plan(method, call.getTarget().getClass());
        if (plan.entries().isEmpty()) {
            return call.proceed(); // all are disabled
        }
        List<Limit> limits = plan.entries().stream()
                .map(entry -> limit(plan.route(), entry, method, call))
                .toList();
        Decision decision = acquire(plan.route(), limits);
        if (decision.outcome() == Outcome.UNAVAILABLE) {
            throw new RateLimitException(HttpStatus.SERVICE_UNAVAILABLE, "Try again in a moment", decision.headers());
        }
        RateLimitPlan.Entry binding = plan.entries().get(decision.binding());
        if (decision.outcome() == Outcome.REFUSED && binding.fallback() == null) {
            throw new RateLimitException(HttpStatus.TOO_MANY_REQUESTS, binding.message(), decision.headers());
        }
        tell(decision);
        return decision.outcome().passes() ? call.proceed() : fallback(plan.route(), binding.fallback(), call);
    }

    /** No Retry-After: what is answered here is an answer, if only a fallback's. */
    private static void tell(Decision decision) {
        ServletRequestAttributes web = request();
        if (web != null && web.getResponse() != null) {
            decision.headers().forEach((name, value) -> {
                if (!name.equals(HttpHeaders.RETRY_AFTER)) {
                    web.getResponse().addHeader(name, value);
                }
            });
        }
    }

    /** Blocks the request's thread, for as long as the time-out at most. */
    private Decision acquire(Route route, List<Limit> limits) throws Throwable {
        try {
            return limiter.acquire(route, limits).join();
        } catch (CompletionException e) {
            throw e.getCause();
        }
    }

    private static Limit limit(Route route, RateLimitPlan.Entry entry, Method method, ProceedingJoinPoint call) {
        if (entry.key() != null) {
            var arguments = new MethodBasedEvaluationContext(
                    call.getTarget(), method, call.getArgs(), RateLimitPlan.PARAMETERS);
            return route.limit(entry.rule(), Objects.toString(entry.key().getValue(arguments), ""));
        }
        return switch (entry.by()) {
            case GLOBAL -> route.limit(entry.rule());
            case IP -> route.limit(entry.rule(), address());
            case USER -> user() != null ? route.limit(entry.rule(), user()) : route.anonymous(entry.rule(), address());
        };
    }

    /** The socket's, or what a trusted proxy says: see server.tomcat.remoteip. */
    private static String address() {
        return ClientNetwork.of(required().getRequest().getRemoteAddr());
    }

    private static String user() {
        return required().getRequest().getRemoteUser();
    }

    private static ServletRequestAttributes required() {
        return Objects.requireNonNull(request(), "limits by IP and USER need a request");
    }

    private static ServletRequestAttributes request() {
        return (ServletRequestAttributes) RequestContextHolder.getRequestAttributes();
    }

    private Object fallback(Route route, Method fallback, ProceedingJoinPoint call) throws Throwable {
        meters.counter("rate.limit.fallbacks", "route", route.name()).increment();
        try {
            return fallback.invoke(call.getTarget(), call.getArgs());
        } catch (InvocationTargetException e) {
            throw e.getTargetException();
        }
    }
}
