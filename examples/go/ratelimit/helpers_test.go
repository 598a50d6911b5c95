package ratelimit_test

// What the tests share: an app server with a limited route, and clients.

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-rl.example/go/internal/redistest"
	"redis-rl.example/go/ratelimit"
)

// header is a dimension that the tests' clients choose.
func header(name string) func(*http.Request) string {
	return func(r *http.Request) string { return r.Header.Get(name) }
}

func perMinute(n int64) ratelimit.Rule {
	return ratelimit.Rule{Window: time.Minute, Limit: n, Algo: ratelimit.Sliding}
}

// all is the limit of a route that has only one.
func all(r ratelimit.Rule) ratelimit.Limit { return ratelimit.Limit{Name: "all", Rule: r} }

// connect is a client that counts its calls, and marks in a request's context that it was one.
func connect(t *testing.T, addrs ...string) (redis.UniversalClient, *atomic.Int64) {
	c := ratelimit.NewClient(redis.UniversalOptions{Addrs: addrs})
	t.Cleanup(func() { _ = c.Close() })
	var calls counter
	c.AddHook(&calls)
	return c, &calls.n
}

type counter struct{ n atomic.Int64 }

type askedKey struct{}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "rl.acquirex" {
			c.n.Add(1)
			if asked, ok := ctx.Value(askedKey{}).(*atomic.Bool); ok {
				asked.Store(true)
			}
		}
		return next(ctx, cmd)
	}
}

// quiet is for tests whose log nobody reads.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func limiter(t *testing.T, name string, o ratelimit.Options, limits ...ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	l, err := ratelimit.New(name, o, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })

func serve(t *testing.T, h http.Handler) *app {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &app{url: s.URL, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		Timeout:   10 * time.Second,
	}}
}

// app is a limited application with one route.
type app struct {
	url    string
	client *http.Client
}

// answer is a response, and how long it took.
type answer struct {
	status int
	http.Header
	took time.Duration
}

// get sends a request with headers given in pairs. It can be called from any goroutine.
func (a *app) get(t *testing.T, headers ...string) answer {
	req, _ := http.NewRequest(http.MethodGet, a.url, nil)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	start := time.Now()
	resp, err := a.client.Do(req)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return answer{resp.StatusCode, resp.Header, time.Since(start)}
}

// burst sends n requests from some clients at once.
func (a *app) burst(t *testing.T, n, clients int, headers ...string) []answer {
	answers := make([]answer, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				answers[i] = a.get(t, headers...)
			}
		})
	}
	wg.Wait()
	return answers
}

// count is how many of the answers have this status.
func count(answers []answer, status int) (n int) {
	for _, a := range answers {
		if a.status == status {
			n++
		}
	}
	return n
}

// peek asks the server what it would answer to one RL.ACQUIREX.
func peek(t *testing.T, s *redistest.Server, args ...any) []any {
	reply, err := s.Do(context.Background(), append([]any{"RL.PEEK"}, args...)...).Slice()
	if err != nil {
		t.Error(err)
	}
	return reply
}

// delayed is the address of a proxy before a server, which keeps for a while what is sent to it.
func delayed(t *testing.T, server string, delay time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			pump := func(to, from net.Conn, delay time.Duration) {
				defer to.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := from.Read(buf)
					time.Sleep(delay)
					if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
						return
					}
				}
			}
			go pump(far, near, delay)
			go pump(near, far, 0)
		}
	}()
	return l.Addr().String()
}

// hole is an address at which nobody listens.
func hole(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
