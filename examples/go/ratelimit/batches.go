package ratelimit

// Batches: one call fetches permits for several requests of the same keys and rules.

import (
	"context"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// batches has a batch for each of the newest Options.CacheSize sets of keys.
type batches struct {
	mu      sync.Mutex
	byKey   *lru.Cache[string, *batch]
	ttl     time.Duration
	denials *denials
	fetch   func(context.Context, query) (*verdict, error)
}

type batch struct {
	mu       sync.Mutex
	verdict  *verdict
	left     int64 // acquisitions of verdict that nobody has used
	expires  time.Time
	fetching *fetch
}

// fetch is a call under way, which all requests that come meanwhile wait for.
type fetch struct {
	done    chan struct{}
	verdict *verdict
	err     error
}

func (b *batches) of(q query) *batch {
	var id strings.Builder
	for i, k := range q.keys {
		id.WriteString(k + " " + q.rules[i].text + "\n")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one, ok := b.byKey.Get(id.String())
	if !ok {
		one = new(batch)
		b.byKey.Add(id.String(), one)
	}
	return one
}

// take hands out a permit that is there, or waits for a fetch until ctx ends.
func (b *batches) take(ctx context.Context, q query) (*verdict, error) {
	one := b.of(q)
	for {
		v, f := b.next(ctx, one, q)
		if v != nil {
			return v, nil
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if f.err != nil {
			return nil, f.err
		}
		// A denial holds for all who waited, unless it is over by now.
		if f.verdict.granted == 0 && time.Now().Before(f.verdict.deniedUntil()) {
			return f.verdict, nil
		}
	}
}

// next is what is known, or else the fetch to wait for, started if there was none.
func (b *batches) next(ctx context.Context, one *batch, q query) (*verdict, *fetch) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.left > 0 && time.Now().Before(one.expires) {
		one.left--
		return one.verdict, nil
	}
	// Again, now that no fetch can end meanwhile: its denial is in there before it ends.
	if v := b.denials.find(q); v != nil {
		return v, nil
	}
	if one.fetching == nil {
		one.fetching = &fetch{done: make(chan struct{})}
		go b.run(context.WithoutCancel(ctx), one, one.fetching, q)
	}
	return nil, one.fetching
}

// run is a goroutine of its own with a time-out of its own: the request that started it may have
// spent most of its time on waiting for the fetch before.
func (b *batches) run(ctx context.Context, one *batch, f *fetch, q query) {
	f.verdict, f.err = b.fetch(ctx, q)

	one.mu.Lock()
	if f.err == nil && f.verdict.granted > 0 {
		// From before the call: no permit is used more than ttl after it was taken.
		one.verdict, one.left, one.expires = f.verdict, f.verdict.granted, f.verdict.sent.Add(b.ttl)
	}
	one.fetching = nil
	one.mu.Unlock()
	close(f.done)
}
