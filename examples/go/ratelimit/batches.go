package ratelimit

// Batches: one call fetches permits for several requests of the same keys and rules.

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// batches has the latest fetch for each of the newest Options.CacheSize sets of keys.
type batches struct {
	size    int64
	ttl     time.Duration
	denials *denials
	fetch   func(context.Context, query) (*verdict, error)

	mu     sync.Mutex
	latest *lru.Cache[string, *fetch]
}

// fetch is a call for a batch of permits, which as many requests share.
type fetch struct {
	shares int64 // handed out, under batches.mu

	done    chan struct{} // closed when verdict or err is there
	verdict *verdict
	err     error
}

// take hands out a permit that is there, or waits for the one call that may bring it. It never asks
// again: of a call that brings less than was asked for, those left over know that there is no room.
func (b *batches) take(ctx context.Context, q query) (*verdict, error) {
	f, share, denied := b.join(q)
	switch {
	case denied != nil:
		return denied, nil
	case share == 1:
		b.run(ctx, f, q)
	default:
		<-f.done // the call has a time-out
	}
	if f.err != nil {
		return nil, f.err
	}
	if share > f.verdict.granted {
		return f.verdict.leftOver(), nil
	}
	return f.verdict, nil
}

// join finds a fetch that has a share left. Who has the first share makes the call.
func (b *batches) join(q query) (f *fetch, share int64, denied *verdict) {
	var id strings.Builder
	for i, k := range q.keys {
		id.WriteString(k + " " + q.rules[i].text + "\n")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.latest.Get(id.String())
	ended, room := false, int64(0)
	if ok {
		ended, room = b.room(f)
	}
	// A permit that is here counts more than a denial, which may be another fetch's. That of a fetch
	// is known before the fetch ends.
	if here := ended && f.shares < room; !here {
		if denied := b.denials.find(q); denied != nil {
			return nil, 0, denied
		}
	}
	if !ok || f.shares >= room {
		f = &fetch{done: make(chan struct{}), err: errReply} // unless there is one
		b.latest.Add(id.String(), f)
	}
	f.shares++
	return f, f.shares, nil
}

// room is how many shares the fetch has.
func (b *batches) room(f *fetch) (ended bool, shares int64) {
	select {
	case <-f.done:
		// From before the call: no permit is used more than ttl after it was taken.
		if f.err != nil || time.Since(f.verdict.sent) >= b.ttl {
			return true, 0
		}
		return true, f.verdict.granted
	default:
		return false, b.size
	}
}

func (b *batches) run(ctx context.Context, f *fetch, q query) {
	defer close(f.done) // whatever happens: others wait for it
	f.verdict, f.err = b.fetch(ctx, q)
}

// leftOver is what those get for whom the permits of a batch were not enough. When some were
// granted, the reply says no time to wait: it is the shortest that can be told, a second.
func (v *verdict) leftOver() *verdict {
	if v.granted == 0 {
		return v
	}
	refused := *v
	refused.granted = 0
	refused.keys = slices.Clone(v.keys)
	refused.keys[v.binding].granted = false
	return &refused
}
