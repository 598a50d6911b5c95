package ratelimit

// The client's address, which a client must not be able to choose.

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ByIP counts by the address of the socket. X-Forwarded-For counts only as far as it was written
// by the given proxies: it is read from the right, up to the first address that is none of them.
// An IPv6 client counts as its /64 network, all of which one customer usually has.
func ByIP(trusted ...netip.Prefix) func(*http.Request) string {
	trust := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(r *http.Request) string {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return "unknown" // a Unix socket; still one limiter, not none
		}
		addr := clean(peer.Addr())
		// Several such headers are one list.
		forwarded := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
		for trust(addr) && forwarded != "" {
			var last string
			if i := strings.LastIndexByte(forwarded, ','); i >= 0 {
				forwarded, last = forwarded[:i], forwarded[i+1:]
			} else {
				forwarded, last = "", forwarded
			}
			next, err := netip.ParseAddr(strings.TrimSpace(last))
			if err != nil {
				break // the proxy that wrote this is the best we know
			}
			addr = clean(next)
		}
		if addr.Is6() {
			return netip.PrefixFrom(addr, 64).Masked().String()
		}
		return addr.String()
	}
}

// clean makes ::ffff:192.0.2.7 the address that it means.
func clean(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
