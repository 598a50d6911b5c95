package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"redis-rl.example/go/internal/redistest"
	"redis-rl.example/go/ratelimit"
)

// On a cluster every call goes straight to the node that has its keys, and one node that is away
// takes only its own routes with it.
func TestCluster(t *testing.T) {
	nodes := redistest.Cluster(t)
	client, _ := connect(t, nodes[0].Addr, nodes[1].Addr, nodes[2].Addr)
	sum := func(section, stat string) (n int) {
		for _, node := range nodes {
			n += node.Stat(section, stat)
		}
		return n
	}

	// Each route's keys are in a slot of their own. A route is a limiter, so this is many of them.
	const routes = 300
	mux := http.NewServeMux()
	for i := range routes {
		name := fmt.Sprintf("r%d", i)
		mux.Handle("/"+name, limiter(t, name, ratelimit.Options{Client: client},
			all(perMinute(3)),
			ratelimit.Limit{Name: "user", By: header("User"), Rule: perMinute(2)},
		).Wrap(ok))
	}
	base := serve(t, mux)
	get := func(i int, user string) answer {
		route := app{fmt.Sprintf("%s/r%d", base.url, i), base.client}
		return route.get(t, "User", user)
	}

	for _, n := range nodes {
		n.ConfigResetStat(context.Background())
	}
	get(0, "ann")
	first := sum("errorstats", "errorstat_MOVED:count=")
	for i := range routes {
		for _, step := range []struct {
			user string
			want int
		}{{"bob", 200}, {"bob", 200}, {"bob", 429}} {
			if i == 0 {
				continue
			}
			if a := get(i, step.user); a.status != step.want {
				t.Fatalf("route %d: %d, want %d", i, a.status, step.want)
			}
		}
	}
	calls, moved := sum("commandstats", "cmdstat_rl.acquirex:calls="), sum("errorstats", "errorstat_MOVED:count=")
	asked := sum("commandstats", "cmdstat_command:calls=") + sum("commandstats", "cmdstat_command|getkeys:calls=")
	t.Logf("%d calls over the slots of %d routes: %d MOVED at first, %d after; %d COMMAND", calls, routes, first, moved-first, asked)
	if moved != first || asked != 0 {
		t.Error("calls took a detour")
	}
	for i, n := range nodes {
		if n.Calls() == 0 {
			t.Errorf("node %d was not asked", i)
		}
	}

	nodes[2].Kill()
	open, limited, slow := 0, 0, 0
	for range 6 { // the breaker of a route needs 5
		for i := range routes / 10 {
			a := get(i, "cid")
			if a.took > inTime {
				slow++
			}
			if a.Get("RateLimit") == "" {
				open++
			} else {
				limited++
			}
		}
	}
	t.Logf("one of three nodes away: %d requests limited, %d passed unchecked", limited, open)
	if open == 0 || limited < open || slow > 1 { // one may meet a machine that stands still
		t.Errorf("%d limited, %d unchecked, %d took too long", limited, open, slow)
	}
	nodes[2].Restart()
	redistest.Eventually(t, 10*time.Second, "limits on all routes", func() bool {
		for i := range routes / 10 {
			if get(i, "dan").Get("RateLimit") == "" {
				return false
			}
		}
		return true
	})
}
