package com.example.ratelimit;

import io.netty.util.NetUtil;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;

/** What a client counts as: an IPv6 client as its /64, all of which one customer usually has. */
public final class ClientNetwork {

    private ClientNetwork() {}

    /** {@code 192.0.2.7} is itself, {@code 2001:db8::7} is {@code 2001:db8::/64}. */
    public static String of(String address) {
        byte[] bytes = NetUtil.createByteArrayFromIpAddressString(address); // asks no name server
        if (bytes == null) {
            return address;
        }
        try {
            InetAddress ip = InetAddress.getByAddress(bytes); // ::ffff:192.0.2.7 becomes what it means
            if (!(ip instanceof Inet6Address)) {
                return ip.getHostAddress();
            }
            Arrays.fill(bytes, 8, 16, (byte) 0);
            return NetUtil.toAddressString(InetAddress.getByAddress(bytes)) + "/64";
        } catch (UnknownHostException e) {
            throw new AssertionError("it has 4 or 16 bytes", e);
        }
    }
}
