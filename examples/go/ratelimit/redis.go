package ratelimit

// The call: a client that gives up in time and never retries, the reply, and which errors mean
// that the limiter is away.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/sony/gobreaker/v2"
)

// NewClient connects to one server, to Sentinel or to a cluster, as redis.NewUniversalClient does,
// with what a limiter needs instead of go-redis's defaults.
func NewClient(o redis.UniversalOptions) redis.UniversalClient {
	o.ContextTimeoutEnabled = true // or reads would wait for ReadTimeout, whatever the context says
	o.MaxRetries = -1              // the default is 3, and a call that timed out may have been carried out
	o.DialerRetries = 1            // say at once that nobody listens
	// Saves a round trip on each new connection: a hand-shake of Redis Enterprise.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

	if o.MasterName == "" && (o.IsClusterMode || len(o.Addrs) > 1) {
		c := o.Cluster()
		// Unknown commands go by their first argument, which is right for this module. The
		// policies would fetch COMMAND, some hundred KB, within the first call's time-out.
		c.DisableRoutingPolicies = true
		return redis.NewClusterClient(c)
	}
	return redis.NewUniversalClient(&o)
}

// once is a command that a ClusterClient sends again only when it is redirected: MaxRedirects is
// its limit both for redirections, which it must follow, and for retries.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// verdict is the reply to a query.
type verdict struct {
	granted    int64 // acquisitions, more than one in a batch
	retryAfter int64 // ms, -1: never
	binding    int   // which of keys refused
	keys       []keyState

	sent, received time.Time // with their monotonic clock
}

// keyState is one limiter, for the headers. All times are in ms.
type keyState struct {
	name                              string
	granted                           bool
	remaining, retryAfter, resetAfter int64
	window, quota                     int64
}

// call asks the server. ctx bounds everything: the pool, connecting, the reply.
func (l *Limiter) call(ctx context.Context, q query, n int) (*verdict, error) {
	return l.breaker.Execute(func() (*verdict, error) {
		sent := time.Now()
		cmd := once{redis.NewCmd(ctx, q.command(n)...)}
		if err := l.opts.Client.Process(ctx, cmd); err != nil {
			return nil, err
		}
		v, err := parse(cmd.Val(), q)
		if err == nil {
			v.sent, v.received = sent, time.Now()
		}
		return v, err
	})
}

// errReply is a server that speaks another language than docs/commands.md.
var errReply = errors.New("unexpected reply of RL.ACQUIREX")

func parse(reply any, q query) (*verdict, error) {
	fields, _ := reply.([]any)
	if len(fields) < 7 {
		return nil, fmt.Errorf("%w: %v", errReply, reply)
	}
	n, ok := ints(fields[:6], 6)
	perKey, _ := fields[6].([]any)
	if !ok || len(perKey) != len(q.keys) || n[5] < 0 || n[5] >= int64(len(q.keys)) {
		return nil, fmt.Errorf("%w: %v", errReply, reply)
	}
	v := &verdict{granted: n[0], retryAfter: n[3], binding: int(n[5])}
	for i, k := range perKey {
		fields, _ := k.([]any)
		n, ok := ints(fields, 7)
		if !ok {
			return nil, fmt.Errorf("%w: %v", errReply, reply)
		}
		v.keys = append(v.keys, keyState{
			name: q.rules[i].Name, granted: n[0] > 0, remaining: n[2],
			retryAfter: n[3], resetAfter: n[4], window: n[5], quota: n[6],
		})
	}
	return v, nil
}

// ints takes the first n integers. Later versions of the module may add more.
func ints(fields []any, n int) ([]int64, bool) {
	if len(fields) < n {
		return nil, false
	}
	out := make([]int64, n)
	for i := range out {
		var ok bool
		if out[i], ok = fields[i].(int64); !ok {
			return nil, false
		}
	}
	return out, true
}

// noMemory is the reply to a call that needs memory, for a new limiter or a longer log. The others
// go on working.
const noMemory = "OOM "

// downReplies are the errors of a server that cannot serve now.
var downReplies = []string{
	"READONLY ", "LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "TRYAGAIN ", "ERR unknown command",
	// Not the module's, but states of a server as well: lost replicas, a disk that is full, a
	// script that does not end, no connection left, a cluster that does not settle.
	"NOREPLICAS ", "MISCONF ", "BUSY ", "ERR max number of clients reached", "MOVED ", "ASK ",
}

// isFailure is what opens the breaker. Any other reply, an error as well, shows a server that works.
func isFailure(err error) bool {
	if err == nil || errors.Is(err, errReply) {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return true // a time-out, a connection error, an open breaker
	}
	return slices.ContainsFunc(downReplies, func(prefix string) bool {
		return strings.HasPrefix(reply.Error(), prefix)
	})
}

// isAway tells a limiter that is absent for this request from a wrong call, which is the caller's
// fault.
func isAway(err error) bool {
	var reply redis.Error
	return isFailure(err) || errors.As(err, &reply) && strings.HasPrefix(reply.Error(), noMemory)
}

// notAsked is a breaker that did not let the call through.
func notAsked(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}
