package com.example.ratelimit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.apache.hc.client5.http.classic.HttpClient;
import org.apache.hc.client5.http.impl.classic.HttpClients;
import org.apache.hc.client5.http.impl.io.PoolingHttpClientConnectionManagerBuilder;
import org.apache.hc.client5.http.impl.routing.DefaultRoutePlanner;
import org.apache.hc.core5.http.ClassicHttpResponse;
import org.apache.hc.core5.http.Header;
import org.apache.hc.core5.http.HttpHost;
import org.apache.hc.core5.http.ParseException;
import org.apache.hc.core5.http.io.entity.EntityUtils;
import org.apache.hc.core5.http.io.support.ClassicRequestBuilder;
import org.apache.hc.core5.http.protocol.HttpContext;

/** HTTP requests, one or many at once, each with the time that it took. */
public final class Load {

    public record Answer(int status, List<Header> headers, String body, Duration took) {

        /** Null when the response has no such header. */
        public String header(String name) {
            return headers.stream()
                    .filter(header -> header.getName().equalsIgnoreCase(name))
                    .map(Header::getValue)
                    .findFirst()
                    .orElse(null);
        }
    }

    private static final HttpClient CLIENT = client(null);

    private Load() {}

    private static HttpClient client(InetAddress from) {
        return HttpClients.custom()
                .setConnectionManager(PoolingHttpClientConnectionManagerBuilder.create()
                        .setMaxConnTotal(100)
                        .setMaxConnPerRoute(100)
                        .build())
                .setRoutePlanner(new DefaultRoutePlanner(null) {
                    @Override
                    protected InetAddress determineLocalAddress(HttpHost host, HttpContext context) {
                        return from;
                    }
                })
                .disableAutomaticRetries() // it would repeat what got 429 or 503
                .build();
    }

    /** Headers are name, value, name, value. */
    public static Answer get(String uri, String... headers) {
        return get(CLIENT, uri, headers);
    }

    /** From this address of the machine. */
    public static Answer getFrom(String address, String uri, String... headers) {
        try {
            return get(client(InetAddress.getByName(address)), uri, headers);
        } catch (UnknownHostException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Answer get(HttpClient client, String uri, String... headers) {
        ClassicRequestBuilder request = ClassicRequestBuilder.get(uri);
        for (int i = 0; i < headers.length; i += 2) {
            request.addHeader(headers[i], headers[i + 1]);
        }
        try {
            long start = System.nanoTime();
            return client.execute(request.build(), response -> answer(response, start));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Answer answer(ClassicHttpResponse response, long start) throws IOException, ParseException {
        String body = response.getEntity() == null ? "" : EntityUtils.toString(response.getEntity());
        Duration took = Duration.ofNanos(System.nanoTime() - start);
        return new Answer(response.getCode(), List.of(response.getHeaders()), body, took);
    }

    /** All the requests, so many at a time. */
    public static List<Answer> burst(int requests, int threads, IntFunction<Answer> request) {
        List<Callable<Answer>> calls = IntStream.range(0, requests)
                .<Callable<Answer>>mapToObj(i -> () -> request.apply(i))
                .toList();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            return pool.invokeAll(calls).stream().map(Load::result).toList();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            pool.shutdownNow();
        }
    }

    private static Answer result(Future<Answer> done) {
        try {
            return done.get();
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    public static long count(List<Answer> answers, int status) {
        return answers.stream().filter(answer -> answer.status() == status).count();
    }
}
