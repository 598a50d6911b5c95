package ratelimit

// The warning while Redis is away: at once, then at most one line a second with a sum.

import (
	"fmt"
	"sync"
	"time"
)

type outage struct {
	warn func(message string)
	what string // "passed unchecked"
	name string

	mu      sync.Mutex
	pending int
	reason  error
	ticking bool
}

// add counts a request that was not checked.
func (o *outage) add(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending++
	// "Breaker is open" tells less than what opened it.
	if o.reason == nil || !notAsked(err) {
		o.reason = err
	}
	if !o.ticking {
		o.ticking = true
		o.flush("")
	}
}

// flush warns of what came since the last line, and comes back in a second, until a second was
// quiet. So the sum comes out even if no request follows.
func (o *outage) flush(when string) {
	if o.pending == 0 {
		o.ticking, o.reason = false, nil
		return
	}
	requests := "requests"
	if o.pending == 1 {
		requests = "request"
	}
	o.warn(fmt.Sprintf("rate limiter away for '%s': %d %s %s%s: %v", o.name, o.pending, requests, o.what, when, o.reason))
	o.pending = 0
	time.AfterFunc(time.Second, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.flush(" in the last second")
	})
}
