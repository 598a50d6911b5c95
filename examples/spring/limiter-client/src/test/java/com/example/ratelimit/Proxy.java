package com.example.ratelimit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/**
 * Passes connections on to a server, as a network that takes its time, and can lose them without a
 * word, as a host that is gone.
 */
final class Proxy implements AutoCloseable {

    private final ServerSocket listener;
    private final int target;
    private final Duration delay;
    private volatile int lost;

    /** The delay is that of what is sent to the server. */
    Proxy(int target, Duration delay) {
        this.target = target;
        this.delay = delay;
        try {
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        run(this::accept);
    }

    int port() {
        return listener.getLocalPort();
    }

    /** From now on nothing gets through on the present connections. New ones work. */
    void loseConnections() {
        lost++;
    }

    private void accept() throws IOException {
        while (true) {
            Socket client = listener.accept();
            Socket server = new Socket(InetAddress.getLoopbackAddress(), target);
            int alive = lost;
            run(() -> pump(client, server, alive, delay));
            run(() -> pump(server, client, alive, Duration.ZERO));
        }
    }

    private void pump(Socket from, Socket to, int alive, Duration delay) throws IOException {
        byte[] buffer = new byte[8192];
        for (int length; (length = from.getInputStream().read(buffer)) > 0; ) {
            LockSupport.parkNanos(delay.toNanos());
            if (lost == alive) {
                to.getOutputStream().write(buffer, 0, length);
            }
        }
    }

    private interface Io {
        void run() throws IOException;
    }

    private static void run(Io io) {
        Thread thread = new Thread(() -> {
            try {
                io.run();
            } catch (IOException e) {
                // closed
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
