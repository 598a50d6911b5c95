// Package ratelimit limits the requests of net/http handlers with redis-rl: one RL.ACQUIREX for
// all limits of a route, all or nothing.
//
// It decides what happens when Redis is away, stops asking for a while when it is, and refuses
// those who were refused a moment ago without asking.
package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Options are the same for all limits of a route. Only Client is required.
type Options struct {
	Client redis.UniversalClient // from NewClient

	// FailClosed answers 503 while Redis is away. Otherwise requests pass unchecked.
	FailClosed bool
	// Timeout of a call with all that belongs to it, such as connecting. By default 50 ms.
	Timeout time.Duration
	// After BreakerFailures in a row (5) no call is made for BreakerOpen (1 s), then one tries.
	BreakerFailures uint32
	BreakerOpen     time.Duration

	// NoDenyCache asks Redis about every request.
	NoDenyCache bool
	// Batch fetches permits for up to that many requests with the same keys at once, and drops
	// those not used within BatchTTL (100 ms). 0: off.
	Batch    int
	BatchTTL time.Duration
	// CacheSize bounds the denials and the batches in memory, each. By default 10,000.
	CacheSize int

	Logger *slog.Logger // by default slog.Default()
}

func (o *Options) setDefaults() {
	orElse(&o.Timeout, 50*time.Millisecond)
	orElse(&o.BreakerFailures, 5)
	orElse(&o.BreakerOpen, time.Second)
	orElse(&o.BatchTTL, 100*time.Millisecond)
	orElse(&o.CacheSize, 10_000)
	orElse(&o.Logger, slog.Default())
}

func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Limiter limits one route.
type Limiter struct {
	name    string
	opts    Options
	rules   []*rule
	breaker *gobreaker.CircuitBreaker[*verdict]
	denials *denials // nil: off
	batches *batches // nil: off
	outage  *outage
}

// New makes the limiter of a route. All of its limits must have room for a request to pass, and
// one that is refused takes nothing from any of them.
//
// The breaker belongs to the route, as the route's keys share a slot: in a cluster, a node that is
// away does not switch off the limits on the other nodes.
func New(name string, opts Options, limits ...Limit) (*Limiter, error) {
	if opts.Client == nil || len(limits) == 0 {
		return nil, errors.New("ratelimit: a limiter needs a client and a limit")
	}
	if !names.MatchString(name) {
		return nil, fmt.Errorf("ratelimit: name %q must be 1 to 64 letters, digits, _, . or -", name)
	}
	rules, err := prepare(limits)
	if err != nil {
		return nil, err
	}
	opts.setDefaults()

	l := &Limiter{name: name, opts: opts, rules: rules}
	l.breaker = gobreaker.NewCircuitBreaker[*verdict](gobreaker.Settings{
		Timeout:      opts.BreakerOpen,
		MaxRequests:  1, // to try whether it is back
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= opts.BreakerFailures },
		IsSuccessful: func(err error) bool { return !isFailure(err) },
	})
	l.outage = &outage{name: name, what: "passed unchecked", warn: func(m string) { opts.Logger.Warn(m) }}
	if opts.FailClosed {
		l.outage.what = "got 503"
	}
	if !opts.NoDenyCache {
		entries, err := lru.New[denialKey, denial](opts.CacheSize)
		if err != nil {
			return nil, err
		}
		l.denials = &denials{entries}
	}
	if opts.Batch > 1 {
		latest, err := lru.New[string, *fetch](opts.CacheSize)
		if err != nil {
			return nil, err
		}
		l.batches = &batches{size: int64(opts.Batch), latest: latest, ttl: opts.BatchTTL, denials: l.denials}
		l.batches.fetch = func(ctx context.Context, q query) (*verdict, error) { return l.acquire(ctx, q, opts.Batch) }
	}
	return l, nil
}

// Wrap lets through to next what has room.
func (l *Limiter) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := l.ask(r)
		switch {
		case err == nil && v == nil: // no limit applies
			next.ServeHTTP(w, r)
		case err == nil && v.granted > 0:
			v.writeHeaders(w.Header())
			next.ServeHTTP(w, r)
		case err == nil:
			writeRefused(w, v)
		case !isAway(err):
			// A rule that the server does not take, a key that holds something else: somebody
			// must mend that, and a limiter that fails open would hide it.
			l.opts.Logger.Error(fmt.Sprintf("rate limiter '%s': %v", l.name, err))
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		default:
			l.outage.add(err)
			if l.opts.FailClosed {
				writeUnavailable(w)
				return
			}
			next.ServeHTTP(w, r)
		}
	})
}

// ask decides about a request, from memory where that is certain.
func (l *Limiter) ask(r *http.Request) (*verdict, error) {
	q := l.query(r)
	if len(q.keys) == 0 {
		return nil, nil
	}
	// Without the request's cancellation: clients that hang up must not look like a failing Redis
	// to the breaker, or they could open it.
	ctx := context.WithoutCancel(r.Context())
	if l.batches != nil {
		return l.batches.take(ctx, q)
	}
	if v := l.denials.find(q); v != nil {
		return v, nil
	}
	return l.acquire(ctx, q, 1)
}

// acquire asks the server for up to n acquisitions, and remembers a denial.
func (l *Limiter) acquire(ctx context.Context, q query, n int) (*verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	v, err := l.call(ctx, q, n)
	if err == nil && v.granted == 0 {
		l.denials.add(q, v)
	}
	return v, err
}

func (l *Limiter) query(r *http.Request) query {
	var q query
	for _, rule := range l.rules {
		var who string
		if rule.By != nil {
			if who = rule.By(r); who == "" {
				continue
			}
		}
		q.keys = append(q.keys, rule.key(l.name, who))
		q.rules = append(q.rules, rule)
	}
	return q
}
