package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"redis-rl.example/go/internal/redistest"
)

// The application as README.md shows it.
func TestAPI(t *testing.T) {
	logging.Disable()
	server := redistest.Start(t)
	handler, err := newAPI(redis.UniversalOptions{Addrs: []string{server.Addr}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(handler)
	defer api.Close()
	status := func(method, path string) (int, http.Header) {
		t.Helper()
		req, _ := http.NewRequest(method, api.URL+path, nil)
		req.Header.Set("X-Api-Key", "k1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode, resp.Header
	}

	_, h := status("GET", "/items")
	if got := h.Get("RateLimit"); got != `"all";r=999;t=1, "ip";r=99;t=60, "user";r=19;t=1` {
		t.Errorf("RateLimit %q", got)
	}
	for i := range 6 {
		want := 200
		if i == 5 {
			want = 429
		}
		if code, _ := status("POST", "/login"); code != want {
			t.Errorf("login %d: %d", i, code)
		}
	}

	server.Kill()
	if code, _ := status("GET", "/items"); code != 200 {
		t.Errorf("items without Redis: %d", code)
	}
	// The deny cache refuses for a second more, then there is nobody to ask.
	redistest.Eventually(t, 3*time.Second, "503", func() bool {
		code, _ := status("POST", "/login")
		return code == 503
	})
}
