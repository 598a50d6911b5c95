package com.example.ratelimit;

import com.example.ratelimit.Route.Limit;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.springframework.util.FileSystemUtils;

/**
 * A redis-server with the module, in a directory of its own, that tests can kill, hang and restart.
 *
 * <p>{@code RL_TEST_SERVER} and {@code RL_TEST_MODULE} name the server and the module.
 */
public final class RedisServer implements AutoCloseable {

    private static final Path MODULE = Path.of("../../../target/release/libredis_rl.so");

    private final Path directory;
    private final int port;
    private final List<String> options;
    private Process process;
    private RedisClient client;
    private StatefulRedisConnection<String, String> connection;

    public RedisServer(String... options) {
        try {
            this.options = List.of(options);
            directory = Files.createTempDirectory("redis-rl-test");
            port = freePort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(this::close));
        start();
    }

    /** Starts it, or starts it anew on the same port. */
    public void start() {
        List<String> command = new ArrayList<>();
        command.add(Objects.requireNonNullElse(System.getenv("RL_TEST_SERVER"), "redis-server"));
        command.addAll(List.of("--bind", "127.0.0.1", "--port", String.valueOf(port)));
        command.addAll(List.of("--save", "", "--appendonly", "no", "--dir", directory.toString()));
        command.addAll(List.of("--loadmodule", module().toString()));
        command.addAll(options);
        Path log = directory.resolve("log");
        try {
            process = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(log.toFile())
                    .start();
            for (long end = System.nanoTime() + Duration.ofSeconds(10).toNanos(); ; ) {
                if (Files.readString(log).contains("Ready to accept connections")) {
                    break;
                }
                if (!process.isAlive() || System.nanoTime() > end) {
                    throw new IllegalStateException("no start:\n" + Files.readString(log));
                }
                TimeUnit.MILLISECONDS.sleep(10);
            }
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
        client = RedisClient.create(RedisURI.create(uri()));
        connection = client.connect();
    }

    private static Path module() {
        String named = System.getenv("RL_TEST_MODULE");
        Path module = (named == null ? MODULE : Path.of(named)).toAbsolutePath().normalize();
        if (!Files.exists(module)) {
            throw new IllegalStateException(module + " is missing: build it, or set RL_TEST_MODULE");
        }
        return module;
    }

    /** Below the ephemeral ports, so that no outgoing connection takes it while we are down. */
    private static int freePort() throws IOException {
        for (int port = 20000 + (int) (ProcessHandle.current().pid() % 5000); ; port++) {
            try (var free = new ServerSocket(port, 1, InetAddress.getLoopbackAddress());
                    var bus = new ServerSocket(port + 10000, 1, InetAddress.getLoopbackAddress())) {
                return free.getLocalPort();
            } catch (IOException taken) {
                if (port > 32000) {
                    throw taken;
                }
            }
        }
    }

    public String uri() {
        return "redis://127.0.0.1:" + port;
    }

    public int port() {
        return port;
    }

    public Path directory() {
        return directory;
    }

    public boolean clusterIsOk() {
        return connection.sync().clusterInfo().contains("cluster_state:ok");
    }

    /** SIGKILL. */
    public void kill() {
        disconnect();
        process.destroyForcibly().onExit().join();
    }

    /** SIGSTOP: connections stay, and nothing answers. */
    public void hang() {
        signal("STOP");
    }

    /** SIGCONT. */
    public void resume() {
        signal("CONT");
    }

    private void signal(String name) {
        try {
            new ProcessBuilder("kill", "-" + name, String.valueOf(process.pid()))
                    .start()
                    .waitFor();
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Any command, over a connection of the test's own. */
    public List<Object> call(String name, Object... args) {
        var arguments = new CommandArgs<>(StringCodec.UTF8);
        for (Object arg : args) {
            arguments.add(arg.toString());
        }
        var output = new ArrayOutput<>(StringCodec.UTF8);
        return connection
                .async()
                .dispatch(new Keyword(name), output, arguments)
                .toCompletableFuture()
                .orTimeout(5, TimeUnit.SECONDS)
                .join();
    }

    /** With equals: Lettuce keeps statistics for each keyword. */
    private record Keyword(String name) implements ProtocolKeyword {

        @Override
        public byte[] getBytes() {
            return name.getBytes(StandardCharsets.US_ASCII);
        }
    }

    /** What {@code RL.PEEK} says of these limits. */
    public Decision peek(List<Limit> limits) {
        List<Object> args = new ArrayList<>(limits.stream().map(Limit::key).toList());
        String rules = limits.stream().map(limit -> limit.rule().text()).collect(Collectors.joining(" "));
        args.add(rules + " WITHKEYS");
        return Decision.of(Reply.of(limits, call("RL.PEEK", args.toArray())));
    }

    /** How often clients called {@code RL.ACQUIREX}. */
    public long acquisitions() {
        return info("commandstats", "cmdstat_rl.acquirex:calls=(\\d+)");
    }

    /** A number of {@code INFO section}; 0 when it is not there. */
    public long info(String section, String pattern) {
        Matcher number = Pattern.compile(pattern).matcher(connection.sync().info(section));
        return number.find() ? Long.parseLong(number.group(1)) : 0;
    }

    private void disconnect() {
        if (client != null) {
            client.shutdown(Duration.ZERO, Duration.ofSeconds(1));
            client = null;
        }
    }

    @Override
    public void close() {
        disconnect();
        process.destroyForcibly().onExit().join(); // SIGKILL ends a stopped process too
        try {
            FileSystemUtils.deleteRecursively(directory);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
