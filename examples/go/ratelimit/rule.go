package ratelimit

// What a limiter counts: rules as RL.ACQUIREX wants them, and the keys they apply to.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
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

// text is the rule in the words of RL.ACQUIREX, always in the same order: the server remembers
// strings that repeat. The server judges the numbers: a rule that is wrong is an error of its call.
//
// All rules of a call are one argument, in which white space begins the next word: a name such as
// "a FORCE" would pass any limit. So single words only get in, besides integers.
func (r Rule) text() (string, error) {
	if !algos.MatchString(string(r.Algo)) {
		return "", fmt.Errorf("algo %q must be one word", r.Algo)
	}
	s := fmt.Sprintf("WINDOW %d LIMIT %d ALGO %s", r.Window.Milliseconds(), r.Limit, r.Algo)
	if r.Burst != 0 {
		s += fmt.Sprintf(" BURST %d", r.Burst)
	}
	if r.Cost != 0 {
		s += fmt.Sprintf(" COST %d", r.Cost)
	}
	if r.Name != "" {
		if !names.MatchString(r.Name) {
			return "", fmt.Errorf("rule name %q must be 1 to 64 letters, digits, _, . or -", r.Name)
		}
		s += " NAME " + r.Name
	}
	return s, nil
}

var algos = regexp.MustCompile(`^[a-z]+$`)

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
	text string // as the server gets it; identifies the rule, with its cost
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
		text, err := l.Rule.text()
		if err != nil {
			return nil, fmt.Errorf("ratelimit: %q: %w", l.Name, err)
		}
		rules = append(rules, &rule{Limit: l, text: text})
	}
	return rules, nil
}

// command is the call of RL.ACQUIREX for up to n acquisitions.
func (q query) command(n int) []any {
	c := []any{"RL.ACQUIREX"}
	for _, k := range q.keys {
		c = append(c, k)
	}
	var rules strings.Builder
	for _, r := range q.rules {
		rules.WriteString(r.text + " ")
	}
	if n > 1 {
		fmt.Fprintf(&rules, "UPTO %d ", n)
	}
	return append(c, rules.String()+"WITHKEYS")
}
