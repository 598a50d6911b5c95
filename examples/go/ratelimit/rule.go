package ratelimit

// What a limiter counts: rules as RL.ACQUIREX wants them, and the keys they apply to.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Algo is how a rule counts, see docs/choosing.md.
type Algo string

// The module also has concurrency, which this middleware does not do: it needs a lease for each
// request, and a release after it.
const (
	Sliding Algo = "sliding"
	Bucket  Algo = "bucket"
	Leaky   Algo = "leaky"
	Fixed   Algo = "fixed"
	Counter Algo = "counter"
)

// Rule is one limit's numbers: Limit permits per Window.
type Rule struct {
	Window time.Duration // whole milliseconds
	Limit  int64
	Algo   Algo
	Burst  int64  // capacity of a Bucket; 0: Limit
	Cost   int64  // permits that one request takes; 0: 1
	Name   string // lets an operator change the numbers with RL.POLICY; may be empty
}

// args is the rule in the words of RL.ACQUIREX. The server judges it: a rule that is wrong is an
// error of its call.
func (r Rule) args() []string {
	a := []string{
		"WINDOW", strconv.FormatInt(r.Window.Milliseconds(), 10),
		"LIMIT", strconv.FormatInt(r.Limit, 10),
		"ALGO", string(r.Algo),
	}
	if r.Burst != 0 {
		a = append(a, "BURST", strconv.FormatInt(r.Burst, 10))
	}
	if r.Cost != 0 {
		a = append(a, "COST", strconv.FormatInt(r.Cost, 10))
	}
	if r.Name != "" {
		a = append(a, "NAME", r.Name)
	}
	return a
}

// Limit is one dimension of a route: all requests, those of an address, those of a user.
type Limit struct {
	// Name tells the dimensions of a route apart: in keys and in the RateLimit headers.
	Name string
	Rule Rule
	// By says whose request it is, such as ByIP or a function that reads the user from the
	// request's context. A request for which it says "" is not counted here.
	// Without it all requests share one limiter.
	By func(*http.Request) string
}

// names go between the braces of a hash tag and the quotes of a header.
var names = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// key is rl:{route}:name or rl:{route}:name:who. The hash tag puts all limiters of a route into
// one slot of a cluster, as one call needs it.
func (l Limit) key(route, who string) string {
	k := fmt.Sprintf("rl:{%s}:%s", route, l.Name)
	if l.By != nil {
		k += ":" + plain(who)
	}
	return k
}

var plainText = regexp.MustCompile(`^[A-Za-z0-9_.:@+/-]{1,64}$`)

// plain keeps what a caller may choose from becoming a key of a megabyte or from containing
// braces: anything unusual is hashed. "~" is not in plain text, so nobody can pick another's hash.
func plain(who string) string {
	if plainText.MatchString(who) {
		return who
	}
	sum := sha256.Sum256([]byte(who))
	return "~" + hex.EncodeToString(sum[:16])
}

// query is what one request asks for: parallel lists of keys and their rules.
type query struct {
	keys  []string
	rules []*rule
}

// rule is a Limit, prepared.
type rule struct {
	Limit
	args []string
	text string // identifies the rule, with its cost
}

func prepare(limits []Limit) ([]*rule, error) {
	var rules []*rule
	seen := map[string]bool{}
	for _, l := range limits {
		switch {
		case !names.MatchString(l.Name):
			return nil, fmt.Errorf("ratelimit: name %q must be 1 to 64 letters, digits, _, . or -", l.Name)
		case seen[l.Name]:
			return nil, fmt.Errorf("ratelimit: two limits are named %q", l.Name)
		case l.Rule.Algo == "concurrency":
			return nil, fmt.Errorf("ratelimit: %q: concurrency needs leases, which this middleware does not hold", l.Name)
		}
		seen[l.Name] = true
		args := l.Rule.args()
		rules = append(rules, &rule{Limit: l, args: args, text: strings.Join(args, " ")})
	}
	return rules, nil
}

// command is the call of RL.ACQUIREX for up to n acquisitions.
func (q query) command(n int) []any {
	c := []any{"RL.ACQUIREX"}
	for _, k := range q.keys {
		c = append(c, k)
	}
	for _, r := range q.rules {
		for _, a := range r.args {
			c = append(c, a)
		}
	}
	if n > 1 {
		c = append(c, "UPTO", n)
	}
	return append(c, "WITHKEYS")
}
