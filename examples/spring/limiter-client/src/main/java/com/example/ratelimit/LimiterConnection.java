package com.example.ratelimit;

import com.example.ratelimit.Route.Limit;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.ClientOptions.DisconnectedBehavior;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.Delay;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.dao.DataAccessException;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisNode;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnection;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * The connection to Redis, one for all requests, with a time-out that covers everything and without
 * repetitions: an acquisition that timed out may have been taken, and is not sent again.
 *
 * <p>A connection of its own, so that these options are not those of the application's cache.
 */
final class LimiterConnection implements AutoCloseable {

    /** The errors of a server that cannot serve now. */
    private static final Pattern DOWN = Pattern.compile("(READONLY|LOADING|CLUSTERDOWN|MASTERDOWN|TRYAGAIN"
            + "|NOREPLICAS|MISCONF|BUSY|ERR unknown command|ERR max number of clients) ");

    /** With a name of its own: Lettuce keeps statistics by it. */
    private static final ProtocolKeyword ACQUIREX = new ProtocolKeyword() {
        private static final byte[] BYTES = "RL.ACQUIREX".getBytes(StandardCharsets.US_ASCII);

        @Override
        public byte[] getBytes() {
            return BYTES;
        }

        @Override
        public String toString() {
            return "RL.ACQUIREX";
        }
    };

    private final Duration timeout;
    private final ClientResources resources;
    private final LettuceConnectionFactory factory;
    private final SimpleAsyncTaskExecutor connector = new SimpleAsyncTaskExecutor("rate-limiter-");
    private CompletableFuture<RedisClusterAsyncCommands<byte[], byte[]>> connected;

    LimiterConnection(LimiterSettings settings) {
        timeout = settings.timeout();
        // When Lettuce has reconnected, it sends again what had no answer, but not what has timed
        // out: so reconnecting takes longer than any request waits. By default the delay would grow
        // up to half a minute, too.
        Duration delay = timeout.multipliedBy(2).plusMillis(100);
        resources =
                ClientResources.builder().reconnectDelay(Delay.constant(delay)).build();
        factory = new LettuceConnectionFactory(server(settings), client(settings));
        factory.afterPropertiesSet();
        factory.start();
    }

    private static RedisConfiguration server(LimiterSettings settings) {
        List<RedisURI> uris = settings.redis().stream().map(RedisURI::create).toList();
        if (!settings.cluster()) {
            return LettuceConnectionFactory.createRedisConfiguration(uris.get(0));
        }
        var cluster = new RedisClusterConfiguration();
        uris.forEach(uri -> cluster.addClusterNode(new RedisNode(uri.getHost(), uri.getPort())));
        var login = uris.get(0).getCredentialsProvider().resolveCredentials().block();
        if (login != null && login.hasPassword()) {
            cluster.setUsername(login.getUsername());
            cluster.setPassword(new String(login.getPassword()));
        }
        return cluster;
    }

    private LettuceClientConfiguration client(LimiterSettings settings) {
        var topology = ClusterTopologyRefreshOptions.builder()
                .enableAllAdaptiveRefreshTriggers()
                .enablePeriodicRefresh(Duration.ofSeconds(30))
                .build();
        var options = settings.cluster()
                ? ClusterClientOptions.builder().topologyRefreshOptions(topology)
                : ClientOptions.builder();
        var socket = SocketOptions.builder()
                .connectTimeout(settings.connectTimeout())
                .build();
        return LettuceClientConfiguration.builder()
                .apply(RedisURI.create(settings.redis().get(0))) // TLS
                .commandTimeout(settings.connectTimeout()) // of the handshake
                .clientResources(resources)
                .clientOptions(options.disconnectedBehavior(DisconnectedBehavior.REJECT_COMMANDS)
                        .replayFilter(command -> true) // nor does it repeat what it failed to write
                        .socketOptions(socket)
                        .build())
                .build();
    }

    CompletableFuture<Reply> acquire(List<Limit> limits, int upTo) {
        var args = new CommandArgs<>(ByteArrayCodec.INSTANCE);
        limits.forEach(limit -> args.addKey(limit.key().getBytes(StandardCharsets.UTF_8)));
        String rules = limits.stream().map(Limit::text).collect(Collectors.joining(" "));
        args.add(rules + (upTo > 1 ? " UPTO " + upTo : "") + " WITHKEYS");
        return send(args).thenApply(reply -> Reply.of(limits, reply));
    }

    private CompletableFuture<List<Object>> send(CommandArgs<byte[], byte[]> args) {
        var result = new CompletableFuture<List<Object>>();
        result.orTimeout(timeout.toNanos(), TimeUnit.NANOSECONDS);
        connect().whenComplete((redis, failure) -> {
            if (failure != null) {
                result.completeExceptionally(failure);
            } else if (!result.isDone()) {
                dispatch(redis, args, result);
            }
        });
        return result;
    }

    /**
     * {@code RedisConnection.execute} can read neither integers nor nested arrays. Lettuce's own
     * connection can, and finds the node of a cluster by the first key.
     */
    private static void dispatch(
            RedisClusterAsyncCommands<byte[], byte[]> redis,
            CommandArgs<byte[], byte[]> args,
            CompletableFuture<List<Object>> result) {
        var output = new ArrayOutput<>(ByteArrayCodec.INSTANCE);
        var sent = redis.dispatch(ACQUIREX, output, args);
        sent.whenComplete((reply, failure) -> {
            if (failure == null) {
                result.complete(reply);
            } else {
                result.completeExceptionally(failure);
            }
        });
        result.whenComplete((reply, failure) -> sent.cancel(false)); // when it has timed out
    }

    private synchronized CompletableFuture<RedisClusterAsyncCommands<byte[], byte[]>> connect() {
        if (connected == null || connected.isCompletedExceptionally()) {
            connected = open(() -> {});
        }
        return connected;
    }

    /** The present connection leads nowhere: the host is gone, or is not the primary any more. */
    synchronized void reconnect() {
        if (connected.isDone()) {
            connected = open(factory::resetConnection);
        }
    }

    /** Both steps block, so they have a thread; requests wait for it, but within their time-out. */
    private CompletableFuture<RedisClusterAsyncCommands<byte[], byte[]>> open(Runnable before) {
        return CompletableFuture.supplyAsync(
                () -> {
                    before.run();
                    return ((LettuceConnection) factory.getConnection()).getNativeConnection();
                },
                connector);
    }

    /** No answer for this request, which otherwise is the caller's mistake. */
    static boolean isAway(Throwable failure) {
        // Only what needs more memory fails so, such as a new limiter. The others go on working.
        boolean noMemory = failure instanceof RedisCommandExecutionException
                && failure.getMessage().startsWith("OOM ");
        return noMemory || isDown(failure);
    }

    /** No answers at all: any reply but these, an error as well, shows a server that works. */
    static boolean isDown(Throwable failure) {
        return failure instanceof RedisCommandExecutionException
                ? DOWN.matcher(failure.getMessage()).lookingAt()
                : failure instanceof RedisException
                        || failure instanceof DataAccessException
                        || failure instanceof TimeoutException
                        || failure instanceof CancellationException;
    }

    @Override
    public void close() {
        factory.destroy();
        resources.shutdown(0, 1, TimeUnit.SECONDS);
    }
}
