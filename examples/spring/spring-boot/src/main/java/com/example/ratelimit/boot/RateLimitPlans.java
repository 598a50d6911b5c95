package com.example.ratelimit.boot;

import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;

/** Reads the annotations of each bean when it is made, so that a wrong one stops the start. */
class RateLimitPlans implements BeanPostProcessor {

    private final Map<Method, RateLimitPlan> plans = new ConcurrentHashMap<>();
    private final Environment environment;

    RateLimitPlans(Environment environment) {
        this.environment = environment;
    }

    @Override
    public Object postProcessBeforeInitialization(Object bean, String name) {
        Class<?> type = ClassUtils.getUserClass(bean);
        if (AnnotationUtils.isCandidateClass(type, RateLimit.class)) {
            MethodIntrospector.selectMethods(type, this::isLimited).forEach(method -> plan(method, type));
        }
        return bean;
    }

    private boolean isLimited(Method method) {
        return !RateLimitPlan.annotations(method).isEmpty();
    }

    RateLimitPlan plan(Method method, Class<?> owner) {
        return plans.computeIfAbsent(
                method, key -> RateLimitPlan.of(key, owner, environment::resolveRequiredPlaceholders));
    }
}
