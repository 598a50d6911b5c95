package com.example.ratelimit;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.regex.Pattern;
import org.springframework.util.Assert;

/**
 * What is limited: an endpoint, or several that share their limits.
 *
 * @param name the hash tag of all its keys, so that one call can carry them on a cluster too
 * @param whenAway what happens to requests while Redis does not answer
 * @param batch permits to fetch at once; 1: one call a request
 */
public record Route(String name, WhenAway whenAway, int batch) {

    private static final int LONGEST_SUBJECT = 64;
    private static final Pattern POLICY = Pattern.compile("[\\w.-]{1,64}");

    /** Fail open, or fail closed. */
    public enum WhenAway {
        PASS,
        REFUSE
    }

    /** A rule and the key that it counts under. The policy is its name for {@code RL.POLICY}. */
    public record Limit(String key, String policy, Rule rule) {

        public Limit {
            // White space would begin the next word of the rules, such as FORCE.
            Assert.isTrue(POLICY.matcher(policy).matches(), () -> "policy '" + policy + "' must be one word");
        }

        /** As the server gets it. */
        String text() {
            return rule.text() + " NAME " + policy;
        }
    }

    public Route {
        Assert.isTrue(
                name.matches("[\\w.-]{1,43}"),
                () -> "route '" + name + "': its name must be 1 to 43 of A-Z a-z 0-9 _ . -");
        Assert.isTrue(batch >= 1, () -> "route '" + name + "': batch must be at least 1");
    }

    /** One limiter for all requests: {@code rl:{login}:all}. */
    public Limit limit(Rule rule) {
        return new Limit("rl:{" + name + "}:" + rule.name(), name + "." + rule.name(), rule);
    }

    /** One limiter for each subject: {@code rl:{login}:ip:192.0.2.7}. */
    public Limit limit(Rule rule, String subject) {
        return limit(rule, ':', subject);
    }

    /** For one who has not said who he is, by address: no subject of the rule shares this key. */
    public Limit anonymous(Rule rule, String address) {
        return limit(rule, '@', address);
    }

    private Limit limit(Rule rule, char separator, String subject) {
        Limit all = limit(rule);
        return new Limit(all.key + separator + tame(subject), all.policy, rule);
    }

    /**
     * Users choose what stands in here. Braces are escaped, and long values hashed: "%h" is no
     * escape, so nobody can call himself like the hash of another.
     */
    private static String tame(String subject) {
        String escaped = subject.replace("%", "%25").replace("{", "%7B").replace("}", "%7D");
        return escaped.length() <= LONGEST_SUBJECT ? escaped : "%h" + sha256(subject);
    }

    private static String sha256(String text) {
        try {
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("every Java has SHA-256", e);
        }
    }
}
