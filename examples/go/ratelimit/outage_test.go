package ratelimit_test

// What happens while Redis is away. These tests measure time, so they do not run in parallel.

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"redis-rl.example/go/internal/redistest"
	"redis-rl.example/go/ratelimit"
)

func init() { logging.Disable() } // go-redis logs every dial that fails

// inTime is what a request may take at most while Redis is away: the limiter's 50 ms, and as much
// again for everything else.
const inTime = 100 * time.Millisecond

func TestOutage(t *testing.T) {
	for _, way := range []struct {
		name    string
		fail    func(*redistest.Server)
		recover func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill, (*redistest.Server).Restart},
		{"hung", (*redistest.Server).Hang, (*redistest.Server).Continue},
	} {
		for _, closed := range []bool{false, true} {
			mode, status := "open", http.StatusOK
			if closed {
				mode, status = "closed", http.StatusServiceUnavailable
			}
			t.Run(way.name+"-"+mode, func(t *testing.T) {
				server := redistest.Start(t)
				client, calls := connect(t, server.Addr)
				api := serve(t, limiter(t, "out", ratelimit.Options{Client: client, FailClosed: closed}, all(perMinute(100))).Wrap(ok))
				api.burst(t, 40, 8) // warm

				// A busy machine can stand still for longer than a request may take, so the
				// measurement has a second try, with a server that came back meanwhile.
				for try := 1; ; try++ {
					way.fail(server)
					before := calls.Load()
					start := time.Now()
					answers := api.burst(t, 400, 8)
					seconds := int64(time.Since(start)/time.Second) + 1
					slowest := slices.MaxFunc(answers, func(a, b answer) int { return int(a.took - b.took) }).took
					tried := calls.Load() - before
					t.Logf("400 requests: slowest %v, %d calls", slowest.Round(100*time.Microsecond), tried)

					if n := count(answers, status); n != len(answers) {
						t.Errorf("%d of %d have status %d", n, len(answers), status)
					}
					if a := answers[len(answers)-1]; a.Get("RateLimit") != "" || closed && a.Get("Retry-After") != "1" {
						t.Errorf("headers %v", a.Header)
					}
					// Five failures open the breaker, while 8 clients may have a call under way;
					// then one tries each second.
					if most := 5 + 8 + seconds; tried > most {
						t.Errorf("%d calls, at most %d should have been tried", tried, most)
					}
					way.recover(server)
					redistest.Eventually(t, 3*time.Second, "limits again", func() bool {
						return api.get(t).Get("RateLimit") != ""
					})
					if slowest < inTime {
						break
					}
					if try == 2 {
						t.Fatalf("a request took %v", slowest)
					}
				}
				if n := count(api.burst(t, 200, 8), 429); n < 100 {
					t.Errorf("%d refused after the outage", n)
				}
			})
		}
	}
}

// Half-open: one request tries, the others do not wait for it.
func TestHalfOpen(t *testing.T) {
	server := redistest.Start(t)
	client, calls := connect(t, server.Addr)
	o := ratelimit.Options{Client: client, BreakerFailures: 3, BreakerOpen: 200 * time.Millisecond}
	api := serve(t, limiter(t, "half", o, all(perMinute(100))).Wrap(ok))
	api.burst(t, 16, 8)
	server.Hang()
	before := calls.Load()
	api.burst(t, 5, 1)
	if n := calls.Load() - before; n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
	time.Sleep(o.BreakerOpen)
	before = calls.Load()
	answers := api.burst(t, 8, 8)
	waited := 0
	for _, a := range answers {
		if a.took >= 50*time.Millisecond {
			waited++
		}
	}
	// On a busy machine more than the one may be slow, but not all.
	if n := calls.Load() - before; n != 1 || waited > 4 {
		t.Errorf("%d calls, and %d of 8 waited, want 1", n, waited)
	}
}

// All requests that wait for a fetch get its failure, after one time-out.
func TestBatchOutage(t *testing.T) {
	server := redistest.Start(t)
	client, calls := connect(t, server.Addr)
	o := ratelimit.Options{Client: client, FailClosed: true, Batch: 20, BatchTTL: time.Millisecond}
	api := serve(t, limiter(t, "fetch", o, all(perMinute(1000))).Wrap(ok))
	api.burst(t, 40, 20) // warm
	time.Sleep(o.BatchTTL)
	server.Hang()
	before := calls.Load()
	if n := count(api.burst(t, 20, 20), 503); n != 20 {
		t.Errorf("%d got 503, want 20", n)
	}
	// One, if the machine is quick enough to send them within the time-out.
	if n := calls.Load() - before; n > 4 {
		t.Errorf("%d calls for 20 requests", n)
	}
}

// A server without memory for new limiters still has those that exist. So its OOM replies neither
// open the breaker nor keep it open.
func TestNoMemory(t *testing.T) {
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	o := ratelimit.Options{Client: client, NoDenyCache: true, BreakerOpen: 200 * time.Millisecond}
	bucket := ratelimit.Rule{Window: time.Hour, Limit: 2, Algo: ratelimit.Bucket}
	api := serve(t, limiter(t, "oom", o, ratelimit.Limit{Name: "user", By: header("User"), Rule: bucket}).Wrap(ok))
	api.burst(t, 2, 1, "User", "ann")
	full := func() {
		t.Helper()
		if n := count(api.burst(t, 20, 4, "User", "bob"), 200); n != 20 {
			t.Errorf("%d of 20 new requests passed", n)
		}
		if a := api.get(t, "User", "ann"); a.status != 429 {
			t.Errorf("%d, RateLimit %q for a limiter that is there", a.status, a.Get("RateLimit"))
		}
	}
	server.ConfigSet(context.Background(), "maxmemory", "1")
	full()
	server.Hang()
	api.burst(t, 5, 1, "User", "ann")
	server.Continue()
	if a := api.get(t, "User", "ann"); a.status != 200 {
		t.Errorf("%d, the breaker should be open", a.status)
	}
	time.Sleep(o.BreakerOpen)
	full() // the first of them is the breaker's trial
}

// Clients that hang up look like time-outs, but must not switch off the limits.
func TestClientsThatHangUp(t *testing.T) {
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	o := ratelimit.Options{Client: client, Timeout: 2 * time.Second, NoDenyCache: true}
	api := serve(t, limiter(t, "gone", o, all(perMinute(1))).Wrap(ok))
	api.burst(t, 8, 8)

	server.Hang()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, api.url, nil)
			if _, err := api.client.Do(req); err == nil {
				t.Error("answered")
			}
		})
	}
	wg.Wait()
	server.Continue()
	if n := count(api.burst(t, 20, 4), 429); n != 20 {
		t.Errorf("%d refused, want 20", n)
	}
}

// The errors that docs/commands.md lists as "the limiter is away", and states of a server.
func TestAwayReplies(t *testing.T) {
	ctx := context.Background()
	for name, prepare := range map[string]func(*testing.T) *redistest.Server{
		"ERR unknown command": func(t *testing.T) *redistest.Server { return redistest.StartPlain(t) },
		"OOM": func(t *testing.T) *redistest.Server {
			s := redistest.Start(t)
			s.ConfigSet(ctx, "maxmemory", "1")
			return s
		},
		"READONLY": func(t *testing.T) *redistest.Server {
			s := redistest.Start(t)
			s.Do(ctx, "REPLICAOF", "127.0.0.1", "1")
			return s
		},
		"CLUSTERDOWN": func(t *testing.T) *redistest.Server { return redistest.Start(t, "--cluster-enabled", "yes") },
		"NOREPLICAS":  func(t *testing.T) *redistest.Server { return redistest.Start(t, "--min-replicas-to-write", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			server := prepare(t)
			client, _ := connect(t, server.Addr)
			var log recorder
			api := serve(t, limiter(t, "away", ratelimit.Options{Client: client, Logger: log.logger()}, all(perMinute(1))).Wrap(ok))
			if n := count(api.burst(t, 10, 2), 200); n != 10 {
				t.Errorf("%d passed, want 10", n)
			}
			if lines := log.all(); len(lines) == 0 || !strings.Contains(lines[0].text, ": "+name) {
				t.Errorf("logged %v", lines)
			}
		})
	}
}

// A flood during an outage gives a line a second, and the sums are right.
func TestWarning(t *testing.T) {
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	var log recorder
	api := serve(t, limiter(t, "flood", ratelimit.Options{Client: client, Logger: log.logger()}, all(perMinute(5))).Wrap(ok))
	api.burst(t, 20, 8)
	server.Kill()

	passed := 0
	for start := time.Now(); time.Since(start) < 2300*time.Millisecond; {
		// Some are still refused, by what is known from before.
		passed += count(api.burst(t, 100, 8), 200)
		time.Sleep(20 * time.Millisecond)
	}
	form := regexp.MustCompile(`^rate limiter away for 'flood': (\d+) requests? passed unchecked(?: in the last second)?: .*connect: connection refused$`)
	sum := func() (n int) {
		for _, line := range log.all() {
			m := form.FindStringSubmatch(line.text)
			if m == nil {
				t.Fatalf("logged %q", line.text)
			}
			one, _ := strconv.Atoi(m[1])
			n += one
		}
		return n
	}
	// The last line comes although no request follows.
	redistest.Eventually(t, 3*time.Second, "sum", func() bool { return sum() >= passed })
	if n := sum(); n != passed {
		t.Errorf("%d in the log, %d passed", n, passed)
	}
	lines := log.all()
	for i := 1; i < len(lines); i++ {
		if gap := lines[i].at.Sub(lines[i-1].at); gap < 990*time.Millisecond {
			t.Errorf("two lines within %v", gap)
		}
	}
	t.Logf("%d passed, %d lines, the second: %s", passed, len(lines), lines[1].text)
}

// recorder keeps what is logged.
type recorder struct {
	slog.Handler
	mu    sync.Mutex
	lines []line
}

type line struct {
	at   time.Time
	text string
}

func (r *recorder) logger() *slog.Logger { return slog.New(r) }

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line{rec.Time, rec.Message})
	return nil
}

func (r *recorder) all() []line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}
