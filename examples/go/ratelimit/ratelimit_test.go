package ratelimit_test

// What a limiter decides while Redis is there, and what it tells.

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redis-rl.example/go/internal/redistest"
	"redis-rl.example/go/ratelimit"
)

func TestBurst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	api := serve(t, limiter(t, "burst", ratelimit.Options{Client: client}, all(perMinute(20))).Wrap(ok))

	answers := api.burst(t, 100, 32)
	if n := count(answers, 200); n != 20 {
		t.Errorf("%d passed, want 20", n)
	}
	for _, a := range answers {
		policy, state := a.Get("RateLimit-Policy"), a.Get("RateLimit")
		if policy != `"all";q=20;w=60` || !strings.HasPrefix(state, `"all";r=`) {
			t.Fatalf("%d with RateLimit-Policy %q and RateLimit %q", a.status, policy, state)
		}
		wait, err := strconv.Atoi(a.Get("Retry-After"))
		switch {
		case a.status == 200 && err == nil:
			t.Fatal("Retry-After on a request that passed")
		case a.status == 429 && (wait < 50 || wait > 60 || state != fmt.Sprintf(`"all";r=0;t=%d`, wait)):
			t.Fatalf("Retry-After %q, RateLimit %q", a.Get("Retry-After"), state)
		case a.status == 429 && a.Get("Content-Type") != "application/problem+json":
			t.Fatalf("content type %q", a.Get("Content-Type"))
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	rule := ratelimit.Rule{Window: 900 * time.Millisecond, Limit: 1, Algo: ratelimit.Sliding}
	api := serve(t, limiter(t, "wait", ratelimit.Options{Client: client}, all(rule)).Wrap(ok))

	api.get(t)
	for _, who := range []string{"Redis", "the deny cache"} {
		refused := api.get(t)
		if refused.status != 429 || refused.Get("Retry-After") != "1" {
			t.Fatalf("%s: %d, Retry-After %q", who, refused.status, refused.Get("Retry-After"))
		}
	}
	time.Sleep(time.Second) // as told
	if a := api.get(t); a.status != 200 {
		t.Errorf("%d after waiting as told", a.status)
	}
}

// Nobody who is refused by one dimension takes a permit of the other.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	for _, noCache := range []bool{true, false} {
		name := fmt.Sprintf("two-%t", noCache)
		api := serve(t, limiter(t, name, ratelimit.Options{Client: client, NoDenyCache: noCache},
			ratelimit.Limit{Name: "ip", Rule: perMinute(5), By: header("Ip")},
			ratelimit.Limit{Name: "user", Rule: perMinute(3), By: header("User")},
		).Wrap(ok))
		passed := func(ip, user string) int { return count(api.burst(t, 20, 4, "Ip", ip, "User", user), 200) }

		for _, step := range []struct {
			ip, user string
			want     int
			why      string
		}{
			{"a", "ann", 3, "the user has 3"},
			{"a", "bob", 2, "the address has 5, of which ann's refused requests took none"},
			{"b", "bob", 1, "bob has 3, of which his refused requests took none"},
			{"b", "cid", 3, "both have room"},
			{"c", "ann", 0, "ann is used up everywhere"},
			{"c", "dan", 3, "ann took nothing of the new address"},
		} {
			if n := passed(step.ip, step.user); n != step.want {
				t.Errorf("%s from %s: %d passed, want %d: %s", step.user, step.ip, n, step.want, step.why)
			}
		}
		for key, want := range map[string]int64{"ip:a": 0, "ip:b": 1, "ip:c": 2, "user:bob": 0, "user:dan": 0} {
			limit := 5
			if strings.HasPrefix(key, "user") {
				limit = 3
			}
			rule := fmt.Sprintf("WINDOW 1m LIMIT %d ALGO sliding COST 0", limit)
			reply := peek(t, server, "rl:{"+name+"}:"+key, rule)
			if reply[2] != want {
				t.Errorf("%s has %v left, want %d", key, reply[2], want)
			}
		}
	}
}

// The headers say what RL.PEEK says.
func TestHeaders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	api := serve(t, limiter(t, "head", ratelimit.Options{Client: client},
		all(ratelimit.Rule{Window: 1500 * time.Millisecond, Limit: 9, Algo: ratelimit.Fixed}),
		ratelimit.Limit{Name: "ip", By: ratelimit.ByIP(), Rule: ratelimit.Rule{Window: time.Hour, Limit: 100, Algo: ratelimit.Sliding, Cost: 3}},
		ratelimit.Limit{Name: "user", By: header("User"), Rule: ratelimit.Rule{Window: time.Hour, Limit: 10, Algo: ratelimit.Bucket, Burst: 30, Cost: 2, Name: "u"}},
	).Wrap(ok))

	for range 3 {
		a := api.get(t, "User", "ann")
		// Cost 0 shows what is left.
		reply := peek(t, server, "rl:{head}:all", "rl:{head}:ip:127.0.0.1", "rl:{head}:user:ann",
			"WINDOW 1500ms LIMIT 9 ALGO fixed COST 0 "+
				"WINDOW 1h LIMIT 100 ALGO sliding COST 0 "+
				"WINDOW 1h LIMIT 10 ALGO bucket BURST 30 COST 0 "+
				"WITHKEYS")
		field := func(key, i int) int64 { return reply[6].([]any)[key].([]any)[i].(int64) }
		up := func(ms int64) int64 { return (ms + 999) / 1000 }

		policy := `"all";q=9;w=2, "ip";q=100;w=3600, "user";q=10;w=3600`
		if a.status != 200 || a.Get("RateLimit-Policy") != policy {
			t.Errorf("%d, RateLimit-Policy %q", a.status, a.Get("RateLimit-Policy"))
		}
		// The short window may turn over between the two calls. The long ones show all.
		_, state, _ := strings.Cut(a.Get("RateLimit"), ", ")
		want := fmt.Sprintf(`"ip";r=%d;t=%d, "user";r=%d;t=%d`, field(1, 2), up(field(1, 4)), field(2, 2), up(field(2, 4)))
		if state != want {
			t.Errorf("RateLimit %q, RL.PEEK says %q", state, want)
		}
	}
}

// A limit of 0 never lets anything through, so there is no time to come back.
func TestNever(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	api := serve(t, limiter(t, "never", ratelimit.Options{Client: client}, all(perMinute(0))).Wrap(ok))
	for range 2 { // from Redis, and from the deny cache
		a := api.get(t)
		if _, told := a.Header["Retry-After"]; told || a.status != 429 || a.Get("RateLimit") != `"all";r=0` {
			t.Errorf("%d with %v", a.status, a.Header)
		}
	}
}

// A rule that the server does not take is a bug, and no reason to let requests through.
func TestWrongCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	server.Set(context.Background(), "rl:{taken}:all", "a string", 0)
	burst := perMinute(5)
	burst.Burst = 9 // goes with a bucket only
	for name, rule := range map[string]ratelimit.Rule{"rule": burst, "taken": perMinute(5)} {
		var log recorder
		api := serve(t, limiter(t, name, ratelimit.Options{Client: client, Logger: log.logger()}, all(rule)).Wrap(ok))
		for range 10 { // and the breaker does not open
			if a := api.get(t); a.status != 500 {
				t.Errorf("%s: %d", name, a.status)
			}
		}
		if lines := log.all(); len(lines) != 10 || !strings.Contains(lines[0].text, "rate limiter '"+name+"': ") {
			t.Errorf("logged %v", lines)
		}
	}
}

func TestForwardedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	proxies := netip.MustParsePrefix("127.0.0.0/8")
	counted := func(name string, by func(*http.Request) string, headers ...string) string {
		api := serve(t, limiter(t, name, ratelimit.Options{Client: client},
			ratelimit.Limit{Name: "ip", Rule: perMinute(5), By: by}).Wrap(ok))
		api.get(t, headers...)
		keys := server.Keys(context.Background(), "rl:{"+name+"}:*").Val()
		return strings.TrimPrefix(strings.Join(keys, " "), "rl:{"+name+"}:ip:")
	}
	const xff = "X-Forwarded-For"
	for i, c := range []struct {
		by      func(*http.Request) string
		headers []string
		want    string
	}{
		{ratelimit.ByIP(), []string{xff, "192.0.2.7"}, "127.0.0.1"},
		{ratelimit.ByIP(proxies), nil, "127.0.0.1"},
		{ratelimit.ByIP(proxies), []string{xff, "192.0.2.7"}, "192.0.2.7"},
		// What stands left of the first untrusted address is the client's own invention.
		{ratelimit.ByIP(proxies), []string{xff, "203.0.113.9, 192.0.2.7, 127.0.0.3"}, "192.0.2.7"},
		{ratelimit.ByIP(proxies), []string{xff, "203.0.113.9", xff, "192.0.2.7"}, "192.0.2.7"},
		{ratelimit.ByIP(proxies), []string{xff, "192.0.2.7, nonsense, 127.0.0.3"}, "127.0.0.3"},
		{ratelimit.ByIP(proxies), []string{xff, "2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"},
		{ratelimit.ByIP(proxies), []string{xff, "::ffff:192.0.2.7"}, "192.0.2.7"},
		// What callers choose cannot become a long key or move it to another slot.
		{header("User"), []string{"User", "ann@example.com"}, "ann@example.com"},
		{header("User"), []string{"User", "a}{b"}, "~96b6df77cd8da98dd9ee6c4b8e9b2c2b"},
		{header("User"), []string{"User", strings.Repeat("x", 100_000)}, "~" + strings.Repeat("?", 32)},
	} {
		got := counted(fmt.Sprintf("from-%d", i), c.by, c.headers...)
		if strings.HasPrefix(c.want, "~") {
			// A hash: its length and first byte say enough.
			if len(got) != len(c.want) || got[0] != '~' || strings.ContainsAny(got, "{}") {
				t.Errorf("%.40v: counted as %q", c.headers, got)
			}
		} else if got != c.want {
			t.Errorf("%v: counted as %q, want %q", c.headers, got, c.want)
		}
	}
}

// An attacker is refused from memory, and never when Redis would have granted. The window is short,
// so that the attack goes on across many moments at which permits come back.
func TestAttack(t *testing.T) {
	t.Parallel()
	const limit, window = 5, 150 * time.Millisecond
	rule := ratelimit.Rule{Window: window, Limit: limit, Algo: ratelimit.Sliding}

	for _, attack := range []struct{ clients, requests int }{{1, 2_000}, {8, 10_000}} {
		t.Run(fmt.Sprintf("%d clients", attack.clients), func(t *testing.T) {
			server := redistest.Start(t)
			client, _ := connect(t, server.Addr)
			limited := limiter(t, "attack", ratelimit.Options{Client: client}, all(rule)).Wrap(ok)
			denied := func() (bool, time.Time) {
				text := fmt.Sprintf("WINDOW %d LIMIT %d ALGO sliding", window.Milliseconds(), limit)
				reply := peek(t, server, "rl:{attack}:all", text)
				return reply[0] == int64(0), time.Now().Add(time.Duration(reply[3].(int64)) * time.Millisecond)
			}

			// Around the limiter, within the app: RL.PEEK just after each refusal without a call.
			// When it says "granted" the permit may have come back since. With a single client,
			// who alone takes permits, RL.PEEK just before knows that for certain.
			var local, late, wrong atomic.Int64
			api := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var before bool
				var back time.Time
				if attack.clients == 1 {
					before, back = denied()
				}
				var asked atomic.Bool
				status := statusOf{ResponseWriter: w}
				began := time.Now()
				limited.ServeHTTP(&status, r.WithContext(context.WithValue(r.Context(), askedKey{}, &asked)))
				if status.code != 429 || asked.Load() {
					return
				}
				local.Add(1)
				if after, _ := denied(); !after {
					late.Add(1)
				}
				if attack.clients == 1 && (!before || began.After(back)) {
					wrong.Add(1)
				}
			}))

			start := time.Now()
			var answers []answer
			for len(answers) < attack.requests || time.Since(start) < 5*window {
				answers = append(answers, api.burst(t, 500, attack.clients)...)
			}
			took := time.Since(start)
			passed, calls := count(answers, 200), server.Calls()
			refused := count(answers, 429)
			t.Logf("%d requests in %v: %d passed, %d refused by %d calls and %d locally, of which %d might have passed just after",
				len(answers), took.Round(time.Millisecond), passed, refused, calls-passed, local.Load(), late.Load())

			if passed+refused != len(answers) {
				t.Error("answers that are neither 200 nor 429")
			}
			if calls-passed > refused/20 {
				t.Errorf("%d of %d refusals reached Redis", calls-passed, refused)
			}
			if wrong.Load() > 0 || late.Load() > local.Load()/50 {
				t.Errorf("of %d local refusals RL.PEEK contradicts %d just after, and %d for certain", local.Load(), late.Load(), wrong.Load())
			}
			// A permit comes back a window after it was taken, and is taken soon after that.
			most, least := limit*(int(took/window)+1), limit*int(took/(window*5/4))
			if passed > most || passed < least {
				t.Errorf("%d passed, want %d to %d", passed, least, most)
			}
		})
	}
}

type statusOf struct {
	http.ResponseWriter
	code int
}

func (s *statusOf) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// A limiter under a SHADOW policy looks denied in the reply, and never refuses.
func TestShadow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	if err := server.Do(context.Background(), "RL.POLICY", "SET", "watched", "WINDOW", "1m", "LIMIT", 1, "ALGO", "sliding", "SHADOW").Err(); err != nil {
		t.Fatal(err)
	}
	watched := perMinute(100)
	watched.Name = "watched"
	api := serve(t, limiter(t, "shadow", ratelimit.Options{Client: client},
		all(watched),
		ratelimit.Limit{Name: "user", Rule: perMinute(3), By: header("User")},
	).Wrap(ok))
	// Were the shadowed key remembered as ann's refusal, bob would be refused.
	for _, user := range []string{"ann", "bob", "cid"} {
		if n := count(api.burst(t, 10, 1, "User", user), 200); n != 3 {
			t.Errorf("%s: %d passed, want 3", user, n)
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const limit, batch = 200, 10
	for _, processes := range []int{1, 3} {
		name := fmt.Sprintf("batch-%d", processes)
		before, passed := server.Calls(), 0
		// Time enough for a machine that is busy. The right number would not depend on it, but the
		// number of calls does.
		o := ratelimit.Options{Batch: batch, BatchTTL: 5 * time.Second, Timeout: 5 * time.Second}
		answers := make(chan []answer)
		for range processes {
			o.Client, _ = connect(t, server.Addr)
			api := serve(t, limiter(t, name, o, all(perMinute(limit))).Wrap(ok))
			go func() { answers <- api.burst(t, 500, 32) }()
		}
		for range processes {
			passed += count(<-answers, 200)
		}
		calls := server.Calls() - before
		t.Logf("%d processes: %d passed with %d calls", processes, passed, calls)
		if passed != limit {
			t.Errorf("%d passed, want %d", passed, limit)
		}
		// 32 clients are the shares of four fetches, which can all find that nothing is left.
		if calls > limit/batch+4*processes {
			t.Errorf("%d calls for %d permits in batches of %d", calls, limit, batch)
		}
	}
}

// Under overload each fetch finds a few permits, never none. Who gets none of them is refused, not
// left waiting for the next until it looks as if Redis were away.
func TestBatchOverload(t *testing.T) {
	server := redistest.Start(t)
	client, calls := connect(t, delayed(t, server.Addr, 2*time.Millisecond))
	var log recorder
	const rate = 2000
	o := ratelimit.Options{Client: client, Batch: 20, Timeout: 250 * time.Millisecond, Logger: log.logger()}
	limited := limiter(t, "over", o, all(ratelimit.Rule{Window: time.Second, Limit: rate, Algo: ratelimit.Bucket})).Wrap(ok)

	// Without HTTP around it, which would take more of the machine than the limiter does.
	var passed, refused, other atomic.Int64
	request := func() {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		switch wait := w.Header().Get("Retry-After"); {
		case w.Code == 200 && w.Header().Get("RateLimit") != "":
			passed.Add(1)
		case w.Code == 429 && wait == "1":
			refused.Add(1)
		default:
			other.Add(1)
		}
	}
	request() // connects
	start := time.Now()
	var wg sync.WaitGroup
	for range 240 { // 30 requests each 5 ms: 6000 a second
		for range 30 {
			wg.Go(request)
		}
		time.Sleep(5 * time.Millisecond)
	}
	wg.Wait()
	took := time.Since(start)
	made := calls.Load()
	t.Logf("in %v %d passed and %d refused, with %d calls", took.Round(time.Millisecond), passed.Load(), refused.Load(), made)

	most := rate + int64(rate*took.Seconds()) + 1
	if n := passed.Load(); n > most || n < most/2 {
		t.Errorf("%d passed, want at most %d", n, most)
	}
	if refused.Load() == 0 || other.Load() != 0 || len(log.all()) != 0 {
		t.Errorf("%d refused, %d neither, logged %v", refused.Load(), other.Load(), log.all())
	}
	time.Sleep(100 * time.Millisecond)
	if n := calls.Load(); n != made {
		t.Errorf("%d calls after the traffic has stopped", n-made)
	}
}

// What a batch leaves is dropped in time, so that no permit is used long after it was taken.
func TestBatchExpires(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, calls := connect(t, server.Addr)
	o := ratelimit.Options{Client: client, Batch: 10, BatchTTL: 50 * time.Millisecond, Timeout: time.Second}
	api := serve(t, limiter(t, "ttl", o, all(perMinute(25))).Wrap(ok))
	for i := range 4 {
		a := api.get(t)
		if want := map[bool]int{true: 200, false: 429}[i < 3]; a.status != want {
			t.Errorf("request %d: %d, want %d", i, a.status, want)
		}
		time.Sleep(60 * time.Millisecond)
	}
	if n := calls.Load(); n != 4 {
		t.Errorf("%d calls, want 4: batches of 10, 10, 5 and 0", n)
	}
}

// With RL.EXEMPT and the like the deny cache is out of date, for a second at most.
func TestOperatorIsObeyed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := connect(t, server.Addr)
	api := serve(t, limiter(t, "exempt", ratelimit.Options{Client: client}, all(perMinute(1))).Wrap(ok))
	api.burst(t, 2, 1)
	server.Do(context.Background(), "RL.EXEMPT", "rl:{exempt}:all", "FOR", "1m")
	start := time.Now()
	redistest.Eventually(t, 3*time.Second, "exemption", func() bool { return api.get(t).status == 200 })
	if waited := time.Since(start); waited > 1500*time.Millisecond {
		t.Errorf("it took %v", waited)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	client, _ := connect(t, hole(t))
	for want, limits := range map[string][]ratelimit.Limit{
		"needs a client and a limit": nil,
		"must be 1 to 64 letters":    {{Name: `quoted"`, Rule: perMinute(1)}},
		"two limits are named":       {all(perMinute(1)), all(perMinute(2))},
		"concurrency needs leases":   {all(ratelimit.Rule{Window: time.Minute, Limit: 1, Algo: "concurrency"})},
	} {
		_, err := ratelimit.New("route", ratelimit.Options{Client: client}, limits...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := ratelimit.New("{x}", ratelimit.Options{Client: client}, all(perMinute(1))); err == nil {
		t.Error("braces in a route's name would move its keys")
	}
}

// All rules of a call are one string, in which nobody hides a word of his own. (Types see to it that
// a cost is a number, and there is no lease that an ID could name.)
func TestHostileRules(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, calls := connect(t, server.Addr)
	o := ratelimit.Options{Client: client}
	rule := func(change func(*ratelimit.Rule)) ratelimit.Limit {
		r := perMinute(5)
		change(&r)
		return all(r)
	}
	for _, word := range []string{"a b", "a FORCE", "a\tFORCE", "a\n", "\u00a0", "a COST 0", strings.Repeat("x", 65)} {
		for what, limit := range map[string]ratelimit.Limit{
			"rule name": rule(func(r *ratelimit.Rule) { r.Name = word }),
			"algo":      rule(func(r *ratelimit.Rule) { r.Algo = ratelimit.Algo("sliding " + word) }),
			"name":      {Name: word, Rule: perMinute(5)},
		} {
			if _, err := ratelimit.New("route", o, limit); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s %q: %v", what, word, err)
			}
		}
		if _, err := ratelimit.New(word, o, all(perMinute(5))); err == nil {
			t.Errorf("route %q is taken", word)
		}
	}
	if n := calls.Load(); n != 0 || server.Calls() != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// The server remembers a string that it has parsed twice. A route always sends the same one.
func TestRulesRepeat(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, calls := connect(t, server.Addr)
	user := ratelimit.Rule{Window: time.Hour, Limit: 10, Algo: ratelimit.Bucket, Burst: 30, Cost: 2, Name: "u"}
	api := serve(t, limiter(t, "repeat", ratelimit.Options{Client: client},
		all(perMinute(100)), ratelimit.Limit{Name: "user", By: header("User"), Rule: user},
	).Wrap(ok))
	for i := range 10 {
		if a := api.get(t, "User", fmt.Sprintf("user-%d FORCE", i)); a.status != 200 {
			t.Errorf("user %d: %d", i, a.status)
		}
	}
	if parsed := server.Stat("rl", "rl_rules_parsed:"); calls.Load() != 10 || parsed != 2 {
		t.Errorf("%d calls, of which %d were parsed, want 2", calls.Load(), parsed)
	}
}
