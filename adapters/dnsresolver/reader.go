// SPDX-License-Identifier: Apache-2.0

// Package dnsresolver reads a domain's mail records from the authoritative
// servers of its zone, all of them, without a cache in between.
package dnsresolver

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/ports"
)

// Options configures a Reader. The zero value reads the public DNS through
// the resolvers of /etc/resolv.conf.
type Options struct {
	// Resolvers are recursive resolvers as address or address:port. They
	// find the zone cut and its name servers, nothing else is believed of
	// them but targets of aliases.
	Resolvers []string
	// Port is the port of authoritative servers; 53 unless set.
	Port int
	// AllowPrivate lets authoritative servers have addresses that are not
	// public unicast. Only sandboxes and tests set it: those addresses come
	// from the owners of domains.
	AllowPrivate bool
	// Timeout bounds a whole read (8 s), UDPTimeout one try by UDP (2 s),
	// TCPTimeout one by TCP (3 s).
	Timeout, UDPTimeout, TCPTimeout time.Duration
	// Now stamps reads; time.Now unless set.
	Now func() time.Time
	Log *slog.Logger
}

// Reader implements ports.DNSReader. It is safe for concurrent use.
type Reader struct {
	wire         exchanger
	resolvers    []netip.AddrPort
	port         uint16
	allowPrivate bool
	timeout      time.Duration
	now          func() time.Time
	log          *slog.Logger
	known        delegations
	flights      flights
}

// New returns a Reader. Resolvers that make no sense are logged and left out;
// without any left every read says zone_cut_unknown.
func New(o Options) *Reader {
	log := o.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	return &Reader{
		wire: exchanger{
			udp:   cmp.Or(o.UDPTimeout, 2*time.Second),
			tcp:   cmp.Or(o.TCPTimeout, 3*time.Second),
			slots: newSlots(),
		},
		resolvers:    resolvers(o.Resolvers, log),
		port:         uint16(cmp.Or(o.Port, 53)),
		allowPrivate: o.AllowPrivate,
		timeout:      cmp.Or(o.Timeout, 8*time.Second),
		now:          now,
		log:          log,
	}
}

// Read implements ports.DNSReader. Reads of one domain at the same time are
// made once.
func (r *Reader) Read(ctx context.Context, name string, _ ...dns.Desired) (dns.Sight, error) {
	sight, err := r.flights.do(ctx, normalise(name), r.timeout, r.read)
	if err == nil {
		ports.NoteAnswered(ctx)
	}
	return sight, err
}

// normalise gives the A-label form in which names are compared. A name that
// is no host name stays as it is; nothing will be found for it.
func normalise(name string) string {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		return ascii
	}
	return name
}

// read finds the zone and asks all of its servers everything.
func (r *Reader) read(ctx context.Context, name string) dns.Sight {
	sight := dns.Sight{Domain: name, At: r.now()}
	zone, reason := r.delegation(ctx, name)
	sight.Zone = zone.apex
	if reason != "" {
		sight.Reason = reason
		return sight
	}
	reports := r.askAll(ctx, zone, name)
	sight.Servers = states(zone, reports)
	for _, s := range zone.servers {
		sight.Delegation = append(sight.Delegation, s.name)
	}
	sight.Sets, sight.Reason = merge(reports)
	switch {
	case sight.Reason == "":
	case ctx.Err() != nil:
		sight.Reason = reasonDeadline
	case len(reports) == 0 && slices.ContainsFunc(zone.servers, func(s server) bool { return s.blocked }):
		sight.Reason = reasonForbidden
	}
	sight.Complete = sight.Reason == ""
	if !healthy(sight) {
		// The delegation may have moved: do not hold on to it.
		r.known.forget(name)
	}
	r.log.DebugContext(ctx, "dns read", "servers", len(sight.Servers), "sets", len(sight.Sets), "reason", sight.Reason)
	return sight
}

func healthy(s dns.Sight) bool {
	for _, server := range s.Servers {
		if server.State != dns.ServerOK {
			return false
		}
	}
	return s.Complete
}
