package com.example.ratelimit;

import java.util.LinkedHashMap;
import java.util.Map;

/** A map of limited size that forgets the oldest entry. */
final class Bounded<K, V> extends LinkedHashMap<K, V> {

    private final int size;

    Bounded(int size) {
        this.size = size;
    }

    @Override
    protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
        return size() > size;
    }
}
