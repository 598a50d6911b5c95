package com.example.ratelimit.boot;

import com.example.ratelimit.Route;
import com.example.ratelimit.Route.WhenAway;
import com.example.ratelimit.Rule;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.expression.Expression;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;
import org.springframework.util.Assert;
import org.springframework.util.ReflectionUtils;

/** The limits of one method, read from its annotations and checked when the application starts. */
record RateLimitPlan(Route route, List<Entry> entries) {

    /** {@code key} and {@code fallback} may be null. */
    record Entry(Rule rule, RateLimit.By by, Expression key, String message, Method fallback) {}

    static final ParameterNameDiscoverer PARAMETERS = new DefaultParameterNameDiscoverer();

    private static final SpelExpressionParser SPEL = new SpelExpressionParser();

    static RateLimitPlan of(Method method, Class<?> owner, UnaryOperator<String> placeholders) {
        try {
            return read(method, owner, placeholders);
        } catch (RuntimeException e) {
            throw new IllegalStateException(
                    "@RateLimit on %s.%s cannot work: %s".formatted(owner.getName(), method.getName(), e.getMessage()),
                    e);
        }
    }

    static Set<RateLimit> annotations(Method method) {
        return AnnotatedElementUtils.getMergedRepeatableAnnotations(method, RateLimit.class, RateLimit.All.class);
    }

    private static RateLimitPlan read(Method method, Class<?> owner, UnaryOperator<String> placeholders) {
        int hidden = method.getModifiers() & (Modifier.PRIVATE | Modifier.STATIC | Modifier.FINAL);
        Assert.isTrue(
                hidden == 0 && !Modifier.isFinal(owner.getModifiers()),
                "Spring cannot intercept private, static or final methods, nor final classes");
        Set<String> routes = new HashSet<>();
        Set<String> names = new HashSet<>();
        List<Entry> entries = new ArrayList<>();
        WhenAway whenAway = WhenAway.PASS;
        int batch = 1;
        for (RateLimit limit : annotations(method)) {
            Entry entry = entry(limit, method, owner);
            String name = entry.rule.name();
            Assert.isTrue(names.add(name), "two rules are called '" + name + "', give one a name");
            if (!limit.route().isEmpty()) {
                routes.add(limit.route());
            }
            whenAway = limit.whenAway() == WhenAway.REFUSE ? WhenAway.REFUSE : whenAway;
            batch = Math.max(batch, limit.batch());
            if (isEnabled(placeholders.apply(limit.enabled()))) {
                entries.add(entry);
            }
        }
        Assert.isTrue(routes.size() <= 1, "its rules name different routes: " + routes);
        String route = routes.isEmpty()
                ? owner.getSimpleName() + "." + method.getName()
                : routes.iterator().next();
        return new RateLimitPlan(new Route(route, whenAway, batch), entries);
    }

    private static Entry entry(RateLimit limit, Method method, Class<?> owner) {
        boolean byKey = !limit.key().isEmpty();
        Assert.isTrue(!byKey || limit.by() == RateLimit.By.GLOBAL, "by and key exclude each other");
        String name = byKey
                ? "key"
                : limit.by() == RateLimit.By.GLOBAL ? "all" : limit.by().name().toLowerCase(Locale.ROOT);
        Rule rule = new Rule(
                limit.name().isEmpty() ? name : limit.name(),
                limit.limit(),
                DurationStyle.detectAndParse(limit.window()),
                limit.algorithm(),
                limit.burst(),
                limit.cost());
        return new Entry(
                rule,
                limit.by(),
                byKey ? key(limit.key(), method) : null,
                limit.message(),
                limit.fallback().isEmpty() ? null : fallback(limit.fallback(), method, owner));
    }

    private static Expression key(String text, Method method) {
        SpelExpression key = SPEL.parseRaw(text);
        String[] parameters = PARAMETERS.getParameterNames(method);
        Assert.notNull(parameters, "compile with -parameters, key needs the names");
        checkVariables(key.getAST(), Arrays.asList(parameters), text);
        return key;
    }

    /** A name that is misspelt would be null for everyone, who would then share one limiter. */
    private static void checkVariables(SpelNode node, List<String> parameters, String text) {
        Assert.isTrue(
                !(node instanceof VariableReference)
                        || node.toStringAST().equals("#root")
                        || parameters.contains(node.toStringAST().substring(1)),
                () -> "key \"" + text + "\" names no parameter with " + node.toStringAST());
        for (int i = 0; i < node.getChildCount(); i++) {
            checkVariables(node.getChild(i), parameters, text);
        }
    }

    private static Method fallback(String name, Method method, Class<?> owner) {
        Method fallback = ReflectionUtils.findMethod(owner, name, method.getParameterTypes());
        Class<?> type = method.getReturnType();
        Assert.isTrue(
                fallback != null && type.isAssignableFrom(fallback.getReturnType()),
                "there is no fallback '" + name + "' with its parameters and return type");
        ReflectionUtils.makeAccessible(fallback);
        return fallback;
    }

    private static boolean isEnabled(String value) {
        Assert.isTrue(
                value.equals("true") || value.equals("false"), "enabled must be true or false, not '" + value + "'");
        return value.equals("true");
    }
}
