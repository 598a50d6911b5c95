// A small API with rate limits: see README.md.
package main

import (
	"flag"
	"log"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"redis-rl.example/go/ratelimit"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve on")
	servers := flag.String("redis", "127.0.0.1:6379", "Redis server, or several nodes of a cluster, with commas")
	var trusted []netip.Prefix
	flag.Func("trust", "network of `proxies` whose X-Forwarded-For counts, such as 10.0.0.0/8; can be repeated", func(s string) error {
		p, err := netip.ParsePrefix(s)
		trusted = append(trusted, p)
		return err
	})
	flag.Parse()

	// The limiter sums up an outage in one line a second. go-redis would log every dial.
	logging.Disable()
	api, err := newAPI(redis.UniversalOptions{Addrs: strings.Split(*servers, ",")}, trusted)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *listen, Handler: api, ReadHeaderTimeout: 5 * time.Second}
	log.Printf("serving on http://%s", *listen)
	log.Fatal(server.ListenAndServe())
}

// newAPI has two routes, of which one fails open and the other closed.
func newAPI(o redis.UniversalOptions, trusted []netip.Prefix) (http.Handler, error) {
	// Connections that are there already: the first requests should not pay for connecting.
	o.MinIdleConns = 4
	opts := ratelimit.Options{Client: ratelimit.NewClient(o)}
	byIP := ratelimit.ByIP(trusted...)

	// A thousand a second for everybody, a hundred a minute for an address, ten a second for a key.
	items, err := ratelimit.New("items", opts,
		ratelimit.Limit{Name: "all", Rule: ratelimit.Rule{Window: time.Second, Limit: 1000, Algo: ratelimit.Bucket, Name: "items-all"}},
		ratelimit.Limit{Name: "ip", By: byIP, Rule: ratelimit.Rule{Window: time.Minute, Limit: 100, Algo: ratelimit.Sliding, Name: "items-ip"}},
		ratelimit.Limit{Name: "user", By: apiKey, Rule: ratelimit.Rule{Window: time.Second, Limit: 10, Algo: ratelimit.Bucket, Burst: 20, Name: "items-user"}},
	)
	if err != nil {
		return nil, err
	}

	// No guessing of passwords while Redis is away.
	closed := opts
	closed.FailClosed = true
	login, err := ratelimit.New("login", closed,
		ratelimit.Limit{Name: "ip", By: byIP, Rule: ratelimit.Rule{Window: time.Minute, Limit: 5, Algo: ratelimit.Sliding, Name: "login-ip"}},
	)
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.Handle("GET /items", items.Wrap(reply("[]")))
	mux.Handle("POST /login", login.Wrap(reply(`"welcome"`)))
	return mux, nil
}

// apiKey stands for whatever identifies a user. In a real service it comes after authentication:
// a name that anybody can make up limits nobody.
func apiKey(r *http.Request) string { return r.Header.Get("X-Api-Key") }

func reply(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body + "\n"))
	})
}
