package ratelimit

// The deny cache: an attacker who has been refused is refused again without asking Redis, for as
// long as Redis would refuse anyway.

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxDenied bounds how long an operator's RL.EXEMPT, RL.POLICY or DEL goes unnoticed here.
const maxDenied = time.Second

type denialKey struct{ key, rule string }

type denial struct {
	state keyState
	until time.Time // refuse without asking until then
	back  time.Time // when the permit comes back, to be told; zero: never
}

// denials remembers the newest Options.CacheSize of them. A nil one remembers nothing.
type denials struct {
	entries *lru.Cache[denialKey, denial]
}

// deniedUntil is when the server may say something else. It errs towards asking too early: it counts
// from before the call was sent, and the last millisecond of retry_after has partly gone by, as the
// server's clock has no fractions of one.
func (v *verdict) deniedUntil() time.Time {
	wait := maxDenied
	if v.retryAfter >= 0 {
		wait = min(wait, time.Duration(v.retryAfter)*time.Millisecond)
	}
	return v.sent.Add(wait - time.Millisecond)
}

// add remembers the limiter that refused. The others say nothing about the next request: one that
// had room may be full by then, and one under a SHADOW policy that looks denied never refuses.
func (d *denials) add(q query, v *verdict) {
	if d == nil {
		return
	}
	entry := denial{state: v.keys[v.binding], until: v.deniedUntil()}
	if v.retryAfter >= 0 {
		// Clients are told a time from which they succeed, so this one errs to the other side.
		entry.back = v.received.Add(time.Duration(v.retryAfter) * time.Millisecond)
	}
	d.entries.Add(denialKey{q.keys[v.binding], q.rules[v.binding].text}, entry)
}

// find is the refusal of a query one of whose limiters is known to refuse, or nil. The longest
// wait counts, as in the server.
func (d *denials) find(q query) *verdict {
	if d == nil || d.entries.Len() == 0 {
		return nil
	}
	var found *verdict
	for i, key := range q.keys {
		k := denialKey{key, q.rules[i].text}
		// Peek, not Get: the oldest denial shall go first, not the one least asked for.
		entry, ok := d.entries.Peek(k)
		now := time.Now()
		if !ok || !now.Before(entry.until) {
			continue
		}
		wait := int64(-1)
		if !entry.back.IsZero() {
			wait = max(1, entry.back.Sub(now).Milliseconds()+1)
		}
		if found == nil || wait == -1 || found.retryAfter != -1 && wait > found.retryAfter {
			entry.state.retryAfter = wait
			found = &verdict{retryAfter: wait, keys: []keyState{entry.state}}
		}
	}
	return found
}
