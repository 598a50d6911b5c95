package com.example.ratelimit.gateway;

import com.example.ratelimit.ClientNetwork;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.springframework.cloud.gateway.filter.headers.TrustedProxies;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.util.StringUtils;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Mono;

/**
 * The address of the socket or, behind the gateway's {@code trusted-proxies}, the rightmost address
 * in X-Forwarded-For that is not one of them. The gateway's and Netty's own handling take the
 * leftmost, which any client can write.
 */
class ClientAddress implements KeyResolver {

    private final TrustedProxies proxies;

    /** {@code trustedProxies} is a regular expression, or null. */
    ClientAddress(String trustedProxies) {
        proxies = StringUtils.hasText(trustedProxies) ? TrustedProxies.from(trustedProxies) : host -> false;
    }

    @Override
    public Mono<String> resolve(ServerWebExchange exchange) {
        InetSocketAddress peer = Objects.requireNonNull(exchange.getRequest().getRemoteAddress());
        String address = peer.getAddress().getHostAddress();
        List<String> hops = exchange.getRequest().getHeaders().getOrEmpty("X-Forwarded-For").stream()
                .flatMap(line -> Stream.of(line.split(",")))
                .map(String::trim)
                .toList();
        for (int i = hops.size() - 1; i >= 0 && proxies.isTrusted(address); i--) {
            address = hops.get(i);
        }
        return Mono.just(ClientNetwork.of(address));
    }
}
