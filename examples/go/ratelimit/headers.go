package ratelimit

// What a client is told: the fields of draft-ietf-httpapi-ratelimit-headers, Retry-After and
// problem details (RFC 9457).

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// seconds rounds up: a client that waits that long has waited long enough.
func seconds(ms int64) int64 { return (ms + 999) / 1000 }

func (v *verdict) writeHeaders(h http.Header) {
	var policies, states []string
	for _, k := range v.keys {
		policies = append(policies, fmt.Sprintf(`"%s";q=%d;w=%d`, k.name, k.quota, seconds(k.window)))
		state := fmt.Sprintf(`"%s";r=%d`, k.name, k.remaining)
		switch {
		case k.granted:
			state += fmt.Sprintf(";t=%d", seconds(k.resetAfter))
		case k.retryAfter >= 0:
			state += fmt.Sprintf(";t=%d", max(1, seconds(k.retryAfter)))
		}
		states = append(states, state)
	}
	h.Set("RateLimit-Policy", strings.Join(policies, ", "))
	h.Set("RateLimit", strings.Join(states, ", "))
	if v.granted == 0 && v.retryAfter >= 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds(v.retryAfter)), 10))
	}
}

type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies,omitempty"`
}

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that has gone does not read it
}

func writeRefused(w http.ResponseWriter, v *verdict) {
	v.writeHeaders(w.Header())
	problem{
		Type:     "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:    "Too many requests",
		Status:   http.StatusTooManyRequests,
		Violated: []string{v.keys[v.binding].name},
	}.write(w)
}

func writeUnavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	problem{
		Type:   "about:blank",
		Title:  http.StatusText(http.StatusServiceUnavailable),
		Status: http.StatusServiceUnavailable,
	}.write(w)
}
